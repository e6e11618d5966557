"""A branch of a learner that learns while it acts, and one whose smoke run fails, through kills of their processes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.events import kinds_of
from enpire.campaign.gate_events import BaseMeasured
from enpire.campaign.order_events import OrdersEnded
from enpire.campaign.recipe import Recipe, read_recipe
from enpire.campaign.training_events import LearnerEnded, LearnerKilled, LearnerStarted
from enpire.errors import LearningProblem
from enpire.home import Home, open_home
from enpire.interfaces import ImprovementJob, Progress
from enpire.processes.cpu_time import read_cpu_s
from enpire.processes.smoke_run import PASSED
from enpire.queries.decision_audit import recompute
from enpire.steps.improve import job_of
from enpire.types import Order
from enpire.wire.arrivals import Delivered
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.test_branches import BRANCHED, opened
from tests.fakes.fake_fleet import FakeFleet, delivered

SERL = read_recipe("hil_serl")
ONLINE: Recipe = replace(
    SERL, turn_rollouts=5, settings={**SERL.settings, "least_steps": 600, "most_steps": 600, "hidden": 16, "batch": 16}
)
BROKEN = Recipe(name="broken", learner=f"{__name__}:Broken", turn_rollouts=5)
PLAN = BranchPlan(recipes=("online", "broken"), robot_s=10_000.0, learner_s=10_000.0, least_starts=20)


class Broken:
    """A learner that cannot learn."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        raise LearningProblem("The camera is dark.")


class AnyVersions(FakeFleet):
    """Its stations run versions of every kind; all succeed on even starts."""

    def finish(self, order: Order) -> Delivered:
        return delivered(order, "failure" if order.start.index % 2 else "success", 20, "")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@contextmanager
def running(home: Home) -> Generator[Running]:
    """A lab whose orchestrator and learners end as by kill -9: nothing shuts down."""
    campaign = replace(BRANCHED, branches=PLAN, rounds=replace(BRANCHED.rounds, episodes=100_000))  # no round begins
    lab = Running(home, campaign=campaign, regimes={"online": ONLINE, "broken": BROKEN})
    lab.__enter__()
    lab.lab.fleet = AnyVersions(home.versions, lease=lab.lab.state.lease + 1)
    if not lab.lab.state.base_measured:
        lab.lab.write(BaseMeasured(policy_id=lab.lab.state.base_policy, successes=0, n=0, low=0.0, high=1.0))
    try:
        yield lab
    finally:
        for learner in lab.lab.branch_learners.values():
            learner.process.kill()
            learner.process.wait()
        lab.ledger.close()


def test_a_failed_smoke_run_ends_the_experiment_as_invalid(home: Home) -> None:
    with running(home) as lab:
        branch = opened(lab, "one", "broken")
        experiment = lab.lab.state.proposals.experiments[branch.experiment_id]
        lab.until(lambda lab: experiment.over)
        assert experiment.phase == "invalid"
        assert experiment.why.startswith("The smoke run on ")
        assert experiment.why.endswith("failed: The camera is dark.")
        assert branch.phase == "over"
        assert branch.learner_s > 0, "its CPU time counts"
        assert rebuilt(lab.ledger, "C1") == lab.lab.state


@pytest.mark.slow
def test_a_branch_of_hil_serl_continues_after_kill_9_of_its_learner_and_of_the_orchestrator(home: Home) -> None:
    pytest.importorskip("lerobot")
    with running(home) as lab:
        branch = opened(lab, "one", "online")
        lab.until(lambda lab: lab.branch_learners, turns=100_000)
        [(job, learner)] = lab.lab.branch_learners.items()
        folder = learner.folder
        lab.until(lambda lab: (folder / PASSED).is_file(), turns=100_000)
        learner.process.kill()  # the learner alone
        lab.until(lambda lab: lab.branch_learners.get(job) not in (None, learner), turns=100_000)
        lab.until(lambda lab: (folder / "checkpoint.safetensors").is_file(), turns=100_000)
        spent_s = read_cpu_s(folder)

    with running(home) as lab:
        branch = lab.lab.state.branches.by_experiment[branch.experiment_id]
        assert (branch.phase, branch.turn) == ("training", 1)
        lab.until(lambda lab: branch.turn == 2, turns=100_000)

    with running(home) as lab:
        branch = lab.lab.state.branches.by_experiment[branch.experiment_id]
        lab.until(lambda lab: len(branch.versions) == 2, turns=100_000)
        kinds = kinds_of(LearnerStarted, LearnerEnded, LearnerKilled)
        events = [entry.event for entry in lab.ledger.events(kinds=kinds)]
        started = [one for one in events if isinstance(one, LearnerStarted) and one.turn]
        ended = [one for one in events if isinstance(one, LearnerEnded) and one.policy_id in branch.versions]
        assert [one.turn for one in started] == [1, 2]
        assert [one.job for one in ended] == [one.job for one in started]
        assert sum(isinstance(one, LearnerKilled) for one in events) == 1
        assert started[1].parent == branch.versions[0], "the second turn goes on from the first"
        assert set(started[0].episodes) < set(started[1].episodes)
        first = lab.lab.home.learning / started[0].job
        assert (ended[0].cpu_s or 0.0) > spent_s > 0, "the CPU time of killed processes counts"
        assert branch.learner_s == sum(one.cpu_s or 0.0 for one in ended)
        assert (first / PASSED).is_file()
        assert not (lab.lab.home.learning / started[1].job / PASSED).exists(), "one smoke run for each branch"
        results = [
            result.order_id for entry in lab.ledger.events(kinds=kinds_of(OrdersEnded))
            for result in cast("OrdersEnded", entry.event).results
        ]  # fmt: skip
        assert len(results) == len(set(results)), "no rollout counts twice"
        assert [check for check in recompute(lab.ledger) if not check.equal] == []
        assert rebuilt(lab.ledger, "C1").branches == lab.lab.state.branches
        for job, training in lab.lab.state.branch_trainings.items():
            assert job_of(lab.lab, training).smoke == (training.turn == 1), job
