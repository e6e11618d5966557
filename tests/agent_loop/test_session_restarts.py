"""How often, and how soon, the campaign starts an agent session again whose process ended with an error."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from enpire.campaign.campaign import AgentPlan
from enpire.home import open_home
from enpire.steps.agent_process import MAX_RESTARTS, PAUSE_S, STEADY_S, AgentProcess
from tests.agent_loop.pretend_lab import Running


def test_restarts_in_a_row_are_limited_and_a_process_that_ran_for_long_begins_the_count_anew(tmp_path: Path) -> None:
    session = AgentProcess(lane="one", plan=AgentPlan(name="search"), folder=tmp_path / "one", seed=1)
    with Running(open_home(tmp_path / "home"), paused=True) as lab:

        def wait_after(ran_s: float, program: str = "false") -> float:
            """Seconds until the next start of a session whose process ran for so long."""
            session.process = subprocess.Popen([program])
            session.process.wait()
            session.started_s = time.monotonic() - ran_s
            session.turn(lab.lab)
            return session.due_s - time.monotonic()

        doubled = [PAUSE_S * 2**number for number in range(MAX_RESTARTS)]
        assert [wait_after(1.0) for _ in doubled] == pytest.approx(doubled, abs=0.5)
        assert wait_after(STEADY_S + 1) == pytest.approx(PAUSE_S, abs=0.5)
        assert [wait_after(1.0) for _ in doubled[1:]] == pytest.approx(doubled[1:], abs=0.5)
        wait_after(1.0)
        again = [entry.body["again"] for entry in lab.ledger.events(kinds=("agent ended",))]
        assert again == [True] * 2 * MAX_RESTARTS + [False]
        wait_after(STEADY_S + 1, "true")
        *_, done = lab.ledger.events(kinds=("agent ended",))
        assert not done.body["again"], "its agent is done"
