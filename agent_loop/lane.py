"""One lane of work: an agent in a process of its own. `python -m agent_loop.lane FOLDER`.

The folder holds lane.json. The process reads the ledger and leaves wishes; killed at any moment and started again, it
goes on from what the ledger says.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from agent_loop.desk import Desk
from agent_loop.tools import in_process
from agent_loop.workplace import DONE, Workplace
from enpire.errors import EnpireError
from enpire.files import parse
from enpire.interfaces import Agent
from enpire.plugins import load
from enpire.processes.processes import die_with_parent
from enpire.requests.agent_requests import Sender

IDLE_S = 2.0
"""Least time from the beginning of one turn to the next."""
PROBLEMS = 3
"""Turns in a row that may fail before the lane ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Who works for which campaign."""

    home: Path
    campaign_id: str
    lane: str
    agent: str
    """Plug-in name."""
    work: Path
    """Folder for its own notes."""
    seed: int = 0
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])


def work(lane: Lane, say: Callable[[str], None] = print) -> int:
    """Let the agent take turns until the campaign is over, or it has nothing left to do; the exit code."""
    desk = Desk(lane.home, Sender(campaign_id=lane.campaign_id, author=lane.agent, lane=lane.lane))
    make = cast("Callable[[Workplace, Mapping[str, object]], Agent]", load("agents", lane.agent))
    place = Workplace(
        seed=lane.seed, lane=lane.lane, work=lane.work, spent=lambda said: desk.tell("tokens", dict(said))
    )  # fmt: skip
    agent, tools, failed = make(place, lane.options), in_process(desk), 0
    while not desk.over():
        began = time.monotonic()
        try:
            told = agent.turn(tools, tools["get_brief"]())
            failed = 0
        except EnpireError as problem:
            told, failed = f"the turn failed: {problem}", failed + 1
        if told:
            say(told)
            desk.tell("turn", {"text": told})
        if failed >= PROBLEMS:
            return 1
        if told.startswith(DONE) or lane.lane in desk.ideas().finished:
            return 0
        time.sleep(max(0.0, IDLE_S - (time.monotonic() - began)))
    return 0


def main(arguments: list[str]) -> int:
    """Run the lane of a folder."""
    folder = Path(arguments[0])
    if "--die-with-parent" in arguments:
        die_with_parent()
    try:
        lane = parse(Lane, json.loads((folder / "lane.json").read_text(encoding="utf-8")), f"The lane {folder}")
        return work(lane, lambda line: print(line, flush=True))
    except EnpireError as problem:
        print(problem, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
