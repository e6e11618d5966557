"""How often, and how soon, the campaign starts an agent session again whose process ended with an error."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from enpire.campaign.campaign import AgentPlan
from enpire.home import open_home
from enpire.steps.agent_process import MAX_RESTARTS, PAUSE_S, STEADY_S, AgentProcess
from tests.agent_loop.pretend_lab import Running


def test_restarts_in_a_row_are_limited_and_a_process_that_ran_for_long_begins_the_count_anew(tmp_path: Path) -> None:
    session = AgentProcess(lane="one", plan=AgentPlan(name="search"), folder=tmp_path / "one", seed=1)
    with Running(open_home(tmp_path / "home"), paused=True) as lab:

        def end(ran_s: float, program: str = "false") -> tuple[float, float]:
            """Shortest and longest wait, in s, until the next start of a session whose process ran for so long."""
            session.process = subprocess.Popen([program])
            session.process.wait()
            began_s = time.monotonic()
            session.started_s = began_s - ran_s
            session.turn(lab.lab)
            return session.due_s - time.monotonic(), session.due_s - began_s

        def waits(expected_s: float, ran_s: float = 1.0) -> bool:
            least_s, most_s = end(ran_s)
            return least_s <= expected_s <= most_s

        doubled = [PAUSE_S * 2**number for number in range(MAX_RESTARTS)]
        assert all(waits(pause_s) for pause_s in doubled)
        assert waits(PAUSE_S, STEADY_S + 1)
        assert all(waits(pause_s) for pause_s in doubled[1:])
        end(1.0)
        again = [entry.body["again"] for entry in lab.ledger.events(kinds=("agent ended",))]
        assert again == [True] * 2 * MAX_RESTARTS + [False]
        end(STEADY_S + 1, "true")
        *_, done = lab.ledger.events(kinds=("agent ended",))
        assert not done.body["again"], "its agent is done"
