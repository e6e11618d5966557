"""A lab with the agent `anthropic`, as a process without end: `python -m tests.fakes.code_campaign HOME`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from enpire.campaign.campaign import AgentPlan
from enpire.home import open_home
from enpire.loop import turn
from enpire.store.ledger import SqliteLedger
from tests.fakes.code_agent import CODED, running, with_robots
from tests.fakes.sample_events import append

PLAN = AgentPlan(name="anthropic", options={"model": "a-model"})


def main(root: Path) -> None:
    """Begin the campaign, or resume it, and turn the loop."""
    home = open_home(root)
    if home.ledger.exists():
        ledger = SqliteLedger(home.ledger)
        append(ledger, [("campaign resumed", {"campaign_id": "C1"})])
        ledger.close()
    lab, robots = running(home, replace(CODED, agents=(PLAN,)))
    with lab:
        with_robots(lab, robots)
        while True:
            turn(lab.lab)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
