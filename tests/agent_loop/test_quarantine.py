"""A code candidate in quarantine trains nothing and enters no gate until a person clears it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_loop import tools
from enpire.home import open_home
from enpire.processes.sandbox import bubblewrap
from enpire.queries.decision_audit import recompute
from enpire.requests import operator_commands
from enpire.store.canary import FILE, canary_word
from tests.agent_loop.pretend_lab import Running
from tests.fakes.code_agent import FILES, opened, running, with_robots

pytestmark = pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or is not allowed here")


def command(lab: Running, kind: str, target: str, reason: str) -> None:
    seen = lab.ledger.head.seq
    operator_commands.leave(lab.lab.home.inbox, kind, target, operator="ada", reason=reason, seen=seen)


def test_a_policy_that_reads_the_clock_waits_for_a_person_and_then_trains_and_acts(tmp_path: Path) -> None:
    lab, robots = running(open_home(tmp_path / "home"))
    with lab:
        with_robots(lab, robots)
        branch = opened(lab, {**FILES, "policy.py": f"import time\n{FILES['policy.py']}"})
        experiment = lab.lab.state.proposals.experiments[branch.experiment_id]
        assert "policy.py, line 1: imports time" in experiment.quarantined
        seen = len(lab.lab.state.ended)
        lab.until(lambda lab: len(lab.state.ended) > seen + 20)
        assert (branch.turn, branch.robot_s) == (0, 0.0), "robots work, and none for this branch"
        command(lab, "experiment clear", branch.experiment_id, "the clock is only printed")
        lab.until(lambda lab: branch.newest and branch.robot_s)
        assert not experiment.quarantined
        assert [check for check in recompute(lab.ledger) if not check.equal] == []


def test_an_experiment_whose_session_repeats_the_canary_waits_for_a_person(tmp_path: Path) -> None:
    lab, robots = running(open_home(tmp_path / "home"))
    with lab:
        with_robots(lab, robots)
        word = canary_word(lab.lab.secret)
        lab.beside(lambda: tools.call(lab.client(), "post_finding", {"text": f"I saw {word}."}))
        branch = opened(lab, FILES)
        [held] = lab.lab.state.quarantine.held[branch.experiment_id]
        assert (held.tripwire, FILE in held.why) == ("canary", True)
