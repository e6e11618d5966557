"""Inside the room of an agent session: `python -m agent_loop.room CHANNEL RELAY`, two descriptors.

This process holds the agent's code, which may be any code. It cannot read the lab: each tool call goes over the channel
to the agent session outside (`agent_loop.session`), which knows which session asks.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import cast

from agent_loop.agent_context import AgentContext
from agent_loop.channel import LARGEST_ANSWER, LARGEST_CALL, Channel
from agent_loop.lab_client import RequestRefused
from enpire.errors import EnpireError
from enpire.files import parse
from enpire.interfaces import Agent
from enpire.plugins import load
from enpire.service.processes import MODELS, RoomLimits, die_with_parent, enter_relay, limit_this_process

PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
"""Variables that name the proxy of outgoing connections."""
DIRECT = ("NO_PROXY", "no_proxy")
"""Variables that name what is reached without it."""

PIECE = 16 * 1024
"""Most characters of a kept line in one message, which has at most twelve bytes for each."""


class ToolProblem(EnpireError):
    """A tool does not exist, has invalid arguments, or could not answer."""


class Outside:
    """The agent session outside the room. Any thread may ask."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._one, self._whole = channel, threading.Lock(), threading.Lock()

    def tools(self, names: list[str]) -> Mapping[str, Callable[..., dict[str, object]]]:
        """The tools as functions with keyword arguments."""
        return {name: partial(self._call, name) for name in names}

    def ask(self, message: Mapping[str, object]) -> Mapping[str, object]:
        """Send a message and return the answer.

        Raises:
            EnpireError: the session outside refused.
            SystemExit: it has ended.
        """
        with self._one:
            self._channel.send(message)
            answer = self._channel.receive()
        if answer is None:
            raise SystemExit(0)
        if "problem" in answer:
            kind = RequestRefused if answer.get("refused") else ToolProblem
            raise kind(str(answer["problem"]))
        return answer

    def keep(self, line: str, anew: bool) -> bool:
        """Keep a line of the agent in pieces that a message can hold; False when too much is kept already."""
        return self._in_pieces("keep", line, {"anew": anew})

    def log(self, line: str) -> bool:
        """Log a line of the agent in pieces that a message can hold; False when the log is full."""
        return self._in_pieces("log", line, {})

    def _in_pieces(self, kind: str, line: str, more: Mapping[str, object]) -> bool:
        pieces = [line[start : start + PIECE] for start in range(0, len(line), PIECE)] or [""]
        last = len(pieces) - 1
        with self._whole:  # two threads log; the pieces of their lines must not mix
            # `all` ends with the first refusal, so that no rest of a refused line follows.
            return all(
                self.ask({kind: piece, **more, "ends": number == last})["answer"] for number, piece in enumerate(pieces)
            )

    def _call(self, tool_name: str, /, call_id: str = "", **arguments: object) -> dict[str, object]:
        """Call a tool. A call that is made again with the same `call_id` changes the lab once."""
        call = {"call": tool_name, "arguments": arguments, "call_id": call_id}
        if (size := len(json.dumps(call))) > LARGEST_CALL:
            raise ToolProblem(
                f"The call of {tool_name} has {size} bytes; at most {LARGEST_CALL} are allowed: shorten it."
            )
        return cast("dict[str, object]", self.ask(call)["answer"])


def main(arguments: list[str]) -> int:
    """Give the agent a turn for each brief that arrives; returns the exit code."""
    die_with_parent()
    channel = Channel(socket.socket(fileno=int(arguments[0])), LARGEST_ANSWER)
    if (job := channel.receive()) is None:
        return 0
    limit_this_process(parse(RoomLimits, job["limits"], "The limits of the room"))
    models = _enter(int(arguments[1]), bool(job["lease"]))
    outside = Outside(channel)
    make = cast("Callable[[AgentContext, Mapping[str, object]], Agent]", load("agents", str(job["agent"])))
    context = AgentContext(
        seed=cast("int", job["seed"]), lane=str(job["lane"]), work=Path(str(job["work"])),
        models=models, lease=str(job["lease"]), spent=lambda tokens: outside.ask({"spent": dict(tokens)}),
        programs=tuple(Path(path) for path in cast("list[str]", job["programs"])),
        log=outside.log, kept=cast("list[str]", job["kept"]), keep=outside.keep,
    )  # fmt: skip
    agent = make(context, cast("Mapping[str, object]", job["options"]))
    tools = outside.tools(cast("list[str]", job["tools"]))
    while (message := channel.receive()) is not None:
        try:
            channel.send({"turned": agent.turn(tools, cast("Mapping[str, object]", message["brief"]))})
        except EnpireError as problem:
            channel.send({"failed": str(problem)})
    return 0


def _enter(control: int, calls_models: bool) -> str:
    """Open the ways out of the room; returns the address of the model gateway, empty if the room may not call it."""
    if control < 0:
        return ""
    relay = socket.socket(fileno=control)
    os.environ.update(dict.fromkeys(PROXIES, f"http://127.0.0.1:{enter_relay(relay)}"))
    os.environ.update(dict.fromkeys(DIRECT, "127.0.0.1"))
    return f"http://127.0.0.1:{enter_relay(relay, MODELS)}" if calls_models else ""


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EnpireError as problem:
        print(problem, file=sys.stderr)
        sys.exit(1)
