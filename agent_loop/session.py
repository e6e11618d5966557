"""One agent session: a coding agent in a process of its own. `python -m agent_loop.session FOLDER`.

The folder holds session.json. The process reads the ledger and leaves requests in the inbox. All of its state is in the
ledger, so a session that was killed resumes when it is started again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from agent_loop.agent_context import DONE, AgentContext
from agent_loop.lab_client import LabClient
from agent_loop.tools import in_process
from enpire.errors import EnpireError
from enpire.files import parse
from enpire.interfaces import Agent
from enpire.plugins import load
from enpire.service.asking import Sender
from enpire.service.processes import die_with_parent

IDLE_S = 2.0
"""Shortest time from the start of one turn to the start of the next, in seconds."""
MOST_FAILURES = 3
"""Failed turns in a row after which the session ends."""


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
    """Folder for the agent's own files."""
    seed: int = 0
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])


def run_session(session: AgentSession, show: Callable[[str], None] = print) -> int:
    """Give the agent turns until the campaign is over or the agent is done; returns the exit code."""
    client = LabClient(session.home, Sender(campaign_id=session.campaign_id, author=session.agent, lane=session.lane))
    make = cast("Callable[[AgentContext, Mapping[str, object]], Agent]", load("agents", session.agent))
    context = AgentContext(
        seed=session.seed, lane=session.lane, work=session.work,
        spent=lambda tokens: client.send("tokens", dict(tokens)),
    )  # fmt: skip
    agent, tools, failed = make(context, session.options), in_process(client), 0
    while not client.is_over():
        began = time.monotonic()
        try:
            report = agent.turn(tools, tools["get_brief"]())
            failed = 0
        except EnpireError as problem:
            report, failed = f"the turn failed: {problem}", failed + 1
        if report:
            show(report)
            client.send("turn", {"text": report})
        if failed >= MOST_FAILURES:
            return 1
        if report.startswith(DONE) or session.lane in client.proposals().finished:
            return 0
        time.sleep(max(0.0, IDLE_S - (time.monotonic() - began)))
    return 0


def main(arguments: list[str]) -> int:
    """Run the agent session of a folder."""
    folder = Path(arguments[0])
    if "--die-with-parent" in arguments:
        die_with_parent()
    try:
        session = parse(
            AgentSession,
            json.loads((folder / "session.json").read_text(encoding="utf-8")),
            f"The agent session {folder}",
        )
        return run_session(session, lambda line: print(line, flush=True))
    except EnpireError as problem:
        print(problem, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
