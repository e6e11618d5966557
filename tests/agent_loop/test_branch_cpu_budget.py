"""A training run whose branch has used up its CPU time, or is over, is ended while it runs; its versions stay."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.events import kinds_of
from enpire.campaign.training_events import LearnerFailed
from enpire.home import Home, open_home
from enpire.interfaces import ImprovementJob
from enpire.processes.training_process import TrainingProcess
from enpire.steps.branch import branch_ended
from tests.agent_loop.test_branches import PLAN, opened, running


@dataclass(slots=True)
class Endless(TrainingProcess):
    """A training run that never ends by itself and has used 400 s of CPU time."""

    used_s: float = 400.0
    ended: int = 0

    def metrics(self) -> Mapping[str, float] | None:
        return None

    def failure(self) -> str:
        return ""

    def cpu_s(self) -> float:
        return self.used_s

    def end(self) -> None:
        self.ended += 1


@dataclass(slots=True)
class EndlessFromTurn:
    """Starts training runs; those of a branch are endless from this turn on."""

    turn: int
    begun: list[Endless]
    of_branches: int = 0

    def __call__(self, job: ImprovementJob) -> TrainingProcess:
        self.of_branches += job.seed >= 1_000_000
        if self.of_branches < self.turn:
            return TrainingProcess.begin(job)
        process = subprocess.Popen(["true"])
        process.wait()
        self.begun.append(Endless(folder=job.work, process=process))
        return self.begun[-1]


BUDGETED: BranchPlan = replace(PLAN, learner_s=300.0, robot_s=1e6)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def test_the_first_run_over_the_budget_ends_its_branch(home: Home) -> None:
    with running(home, BUDGETED) as lab:
        lab.lab.train = begin = EndlessFromTurn(turn=1, begun=[])
        good = opened(lab, "one", "good")
        experiment = lab.lab.state.proposals.experiments[good.experiment_id]
        lab.until(lambda lab: experiment.over)
        assert begin.begun[0].ended == 1
        assert (experiment.phase, good.phase, good.learner_s) == ("invalid", "over", 400.0)
        assert "used up its 300 s of CPU time (branches: learner_s)" in experiment.why
        assert not lab.lab.branch_learners
        assert rebuilt(lab.ledger, "C1") == lab.lab.state


def test_a_later_run_over_the_budget_leaves_the_version_before_it_to_be_decided(home: Home) -> None:
    with running(home, BUDGETED) as lab:
        lab.lab.train = begin = EndlessFromTurn(turn=2, begun=[])
        bad = opened(lab, "one", "bad")
        experiment = lab.lab.state.proposals.experiments[bad.experiment_id]
        lab.until(lambda _: experiment.over)
        failed = [entry.event for entry in lab.ledger.events(kinds=kinds_of(LearnerFailed))]
        assert [one.over_budget for one in failed if isinstance(one, LearnerFailed)] == [False, True]
        assert [one.ended for one in begin.begun] == [1], "the second turn is ended, and no third one begins"
        assert len(bad.versions) == 1
        assert (experiment.decision, experiment.why) == ("revert", "no gain"), "decided by what its version did"
        assert rebuilt(lab.ledger, "C1") == lab.lab.state


def test_a_run_within_the_budget_is_not_ended(home: Home) -> None:
    with running(home, replace(BUDGETED, learner_s=400.5)) as lab:
        lab.lab.train = begin = EndlessFromTurn(turn=1, begun=[])
        good = opened(lab, "one", "good")
        lab.until(lambda _: begin.begun)
        turns = iter(range(50))
        lab.until(lambda _: next(turns, None) is None)
        assert begin.begun[0].ended == 0
        assert good.phase == "training"
        begin.begun[0].used_s = 401.0
        lab.until(lambda _: good.phase == "over")
        assert begin.begun[0].ended == 1


@pytest.mark.parametrize("killed", [False, True])
def test_the_run_of_a_branch_that_was_given_up_is_recorded_as_ended(home: Home, killed: bool) -> None:
    """Also by the next orchestrator, if the one before was killed in between."""
    unlimited = replace(PLAN, learner_s=1e6, robot_s=1e6)
    with running(home, unlimited) as lab:
        lab.lab.train = EndlessFromTurn(turn=1, begun=[])
        good = opened(lab, "one", "good")
        lab.until(lambda _: good.phase == "training")
        job = good.job
        lab.lab.write(branch_ended(lab.lab, good, "given up", "no use"))
        if not killed:
            lab.until(lambda lab: not lab.branch_learners)
    with running(home, unlimited) as lab:
        lab.until(lambda lab: not lab.state.branch_trainings)
        failed = [one.event for one in lab.ledger.events(kinds=kinds_of(LearnerFailed))]
        [ended] = [one for one in failed if isinstance(one, LearnerFailed) and one.job == job]
        assert (ended.branch_over, ended.cpu_s) == (True, 0.0 if killed else 400.0)
        [good] = lab.lab.state.branches.by_experiment.values()
        assert (good.phase, good.why, good.learner_s) == ("over", "given up", 0.0 if killed else 400.0)
        assert lab.lab.state.proposals.experiments[good.experiment_id].phase == "cancelled"
        assert rebuilt(lab.ledger, "C1") == lab.lab.state
