"""One agent session: `python -m agent_loop.session FOLDER`. The folder holds session.json.

A session has two processes. This one reads the ledger and leaves requests in the session's lane of the inbox. The
agent's code runs in a room (`agent_loop.room`) and reaches the lab only by the tools that this process calls for it, so
it learns what the tools answer and nothing else. All state is in the ledger: a session that was killed resumes when it
is started again.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import cast

from agent_loop import tools
from agent_loop.agent_context import DONE
from agent_loop.channel import LARGEST_CALL, Channel
from agent_loop.lab_client import LabClient, RequestRefused
from enpire.errors import EnpireError, UsageError
from enpire.files import parse, plain
from enpire.log_lines import print_line, printable
from enpire.service.asking import ModelLease, ModelLeases, ModelLimits, Sender
from enpire.service.conversations import MOST_BYTES, KeptConversation
from enpire.service.processes import (
    AgentRoom,
    Room,
    agent_providers,
    die_with_parent,
    gateway_listens,
    open_agent_room,
    require_ready,
    start_model_gateway,
)

IDLE_S = 2.0
"""Shortest time from the start of one turn to the start of the next, in seconds."""
MOST_FAILURES = 3
"""Failed turns in a row after which the session ends."""
LONGEST_LOG = 64 * 2**20
"""Most bytes of conversation.jsonl, which an agent writes for operators."""
LOG = "conversation.jsonl"
KEPT = "kept.jsonl"
"""The conversation in progress, from which a session that was killed continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSession:
    """Which agent works in which campaign, as session.json says."""

    home: Path
    campaign_id: str
    lane: str
    """Name of the session."""
    agent: str
    """Plug-in name."""
    work: Path
    """Folder of the session's log. Without a sandbox the agent's own files also lie there."""
    seed: int = 0
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    own: ModelLimits = field(default_factory=ModelLimits)
    """What this session may spend on language models."""
    shared: ModelLimits = field(default_factory=ModelLimits)
    """What all sessions of the campaign together may spend."""
    starts_gateway: bool = False
    """Whether this process starts the model gateway: a session in a terminal, where the campaign started none."""


class RoomEnded(EnpireError):
    """The room ended before the agent was done."""


@dataclass(slots=True)
class Host:
    """The part of an agent session outside its room: it answers what the room asks."""

    session: AgentSession
    client: LabClient
    channel: Channel
    _pieces: list[str] = field(default_factory=list[str])
    """Of a line that its agent keeps or logs."""

    @property
    def _conversation(self) -> KeptConversation:
        return KeptConversation(self.session.work / KEPT)

    def begin(self, room: Room, token: str) -> None:
        """Tell the room which agent it runs. `token`: its model lease; empty if it calls no models."""
        job = {
            "agent": self.session.agent, "seed": self.session.seed, "lane": self.session.lane, "work": str(room.work),
            "options": plain(self.session.options), "tools": [tool.name for tool in tools.TOOLS],
            "limits": asdict(room.limits), "lease": token,
            "programs": [str(path) for path in room.reads], "kept": self._conversation.lines(),
        }  # fmt: skip
        self.channel.send(job)

    def turn(self) -> str:
        """Have the agent do one turn; returns its report.

        Raises:
            RoomEnded: the room ended.
            EnpireError: the turn failed.
        """
        self.channel.send({"brief": tools.call(self.client, "get_brief", {})})
        message = self.answer_calls()
        if message is None:
            raise RoomEnded("The agent's process ended.")
        if "failed" in message:
            raise UsageError(printable(str(message["failed"])))
        return printable(str(message["turned"]))

    def answer_calls(self) -> Mapping[str, object] | None:
        """Answer the calls of the room until it reports on its turn; the report, None where the room ended before."""
        while (message := self.channel.receive()) is not None and not {"turned", "failed"} & message.keys():
            self.channel.send(self._answer(message))
        return message

    def _answer(self, message: Mapping[str, object]) -> Mapping[str, object]:
        try:
            if "call" in message:
                return {"answer": self._call(message)}
            if "spent" in message:
                return {"answer": self.client.send("tokens", _mapping(message["spent"]))}
            if "log" in message:
                return {"answer": self._log(message)}
            if "keep" in message:
                return {"answer": self._keep(message)}
            raise UsageError("A message of a room is a call, spent tokens, a line to log or to keep, or a report.")
        except EnpireError as problem:
            return {"problem": str(problem), "refused": isinstance(problem, RequestRefused)}

    def _call(self, message: Mapping[str, object]) -> dict[str, object]:
        client = replace(self.client, call_id=str(message.get("call_id") or ""))
        return tools.call(client, str(message["call"]), _mapping(message.get("arguments")))

    def _keep(self, message: Mapping[str, object]) -> bool:
        """Take a piece of a line to keep; with the last one the line is kept. False when too much is kept already."""
        self._pieces.append(str(message["keep"]))
        if sum(map(len, self._pieces)) > MOST_BYTES or message.get("ends"):
            line, self._pieces = "".join(self._pieces), []
            return self._conversation.add(line, anew=bool(message.get("anew")))
        return True

    def _log(self, message: Mapping[str, object]) -> bool:
        """Take a piece of a line; with the last one it is appended to the log. False when it is too long for the log.

        A message without `ends` is a whole line.
        """
        self._pieces.append(str(message["log"]))
        if not message.get("ends", True) and sum(map(len, self._pieces)) <= LONGEST_LOG:
            return True
        line, self._pieces = "".join(self._pieces), []
        path, data = self.session.work / LOG, (line.replace("\n", " ") + "\n").encode(errors="replace")
        if len(data) > LONGEST_LOG:
            return False
        if path.exists() and path.stat().st_size + len(data) > LONGEST_LOG:
            return False
        with path.open("ab") as lines:
            lines.write(data)
        return True


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise UsageError("The arguments of a tool must be keys and values.")
    return cast("Mapping[str, object]", value)


def run_session(session: AgentSession, show: Callable[[str], None] = print) -> int:
    """Give the agent turns until the campaign is over or the agent is done; returns the exit code."""
    client = LabClient(session.home, Sender(campaign_id=session.campaign_id, author=session.agent, lane=session.lane))
    wanted = AgentRoom(agent=session.agent, options=session.options, home=session.home, work=session.work)
    with model_access(session) as token, open_agent_room(wanted, show) as room:
        host = Host(session, client, Channel(room.channel, LARGEST_CALL))
        try:
            host.begin(room, token)
            return _turns(host, show)
        except RoomEnded:
            code = room.process.wait()
            show(room.why or f"The agent's process ended with code {code}.")
            return code or 1


@contextmanager
def model_access(session: AgentSession) -> Generator[str]:
    """A model lease for the session, which ends with the block; empty for an agent that calls no models."""
    providers = agent_providers(session.agent, session.options)
    if not providers:
        yield ""
        return
    gateway = None
    if session.starts_gateway and not gateway_listens(session.home):
        require_ready(providers, session.agent)
        gateway = start_model_gateway(session.home, session.campaign_id)
    lease = ModelLease(
        campaign_id=session.campaign_id, author=session.agent, lane=session.lane, providers=providers,
        own=session.own, shared=session.shared,
    )  # fmt: skip
    leases = ModelLeases(session.home)
    try:
        yield leases.grant(lease)
    finally:
        leases.end(lease)
        if gateway is not None:
            gateway.terminate()
            gateway.wait()


def _turns(host: Host, show: Callable[[str], None]) -> int:
    client, failed = host.client, 0
    while not client.is_over():
        began = time.monotonic()
        try:
            report = host.turn()
            failed = 0
        except RoomEnded:
            raise
        except EnpireError as problem:
            report, failed = f"the turn failed: {problem}", failed + 1
        if report:
            show(report)
            client.send("turn", {"text": report})
        if failed >= MOST_FAILURES:
            return 1
        if report.startswith(DONE) or host.session.lane in client.proposals().finished:
            return 0
        time.sleep(max(0.0, IDLE_S - (time.monotonic() - began)))
    return 0


def main(arguments: list[str]) -> int:
    """Run the agent session of a folder."""
    folder = Path(arguments[0])
    if "--die-with-parent" in arguments:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        die_with_parent()
    try:
        session = parse(
            AgentSession,
            json.loads((folder / "session.json").read_text(encoding="utf-8")),
            f"The agent session {folder}",
        )
        return run_session(session, print_line)
    except EnpireError as problem:
        print(problem, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
