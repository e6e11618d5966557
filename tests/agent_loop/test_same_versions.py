"""A change without effect makes the same version again, and its branch ends before a robot acts for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from agent_loop.lab_client import RequestRefused
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.branch import Branch
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.branches import Branches
from enpire.campaign.events import kinds_of
from enpire.campaign.gate_events import PROMOTED_BY
from enpire.campaign.recipe import Recipe
from enpire.campaign.training_events import LearnerStarted
from enpire.campaign.training_seeds import seed_of_turn
from enpire.home import Home, open_home
from enpire.loop import turn
from enpire.parts import TASKS
from enpire.queries.decision_audit import recompute
from enpire.steps.branch import branch_ended
from enpire.steps.deploy import swap
from enpire.steps.improve import job_of
from enpire.store import arrays
from enpire.types import EpisodeArrays, Order
from enpire.wire.arrivals import Delivered
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.test_branches import BRANCHED, opened, purposes
from tests.fakes.fake_fleet import FakeFleet, delivered

SPIRAL = Recipe(
    name="spiral", learner="program_search", turn_rollouts=300,
    settings={"program": "pin_spiral", "generations": 2, "population": 4, "starts": 2, "follow_starts": 4, "rigs": 1},
    space={"follow_starts": (2, 8, "log"), "population": (4, 8, "log")},
)  # fmt: skip
TOUCH = replace(SPIRAL, name="touch", settings={**SPIRAL.settings, "program": "pin_touch"})
PROGRAMS = {"spiral": SPIRAL, "touch": TOUCH}
PLAN = BranchPlan(recipes=tuple(PROGRAMS), robot_s=1e9, learner_s=1e9, least_starts=400)
"""Branches search on; nothing decides them but equal versions."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


RECORDED = arrays.pack(
    EpisodeArrays(
        state=np.random.default_rng(1).normal(0.0, 0.01, (21, 12)).astype(np.float32),
        action=np.random.default_rng(2).normal(0.0, 0.01, (20, 3)).astype(np.float32),
        source=np.zeros(20, np.uint8), chunk=np.arange(20, dtype=np.int32) // 4,
    )
)  # fmt: skip


class Pins(FakeFleet):
    """Its stations run versions of every kind and record what a pin senses; all succeed on even starts."""

    def finish(self, order: Order) -> Delivered:
        made = delivered(order, "failure" if order.start.index % 2 else "success", 20, "")
        episode = replace(made.episode, sha256=hashlib.sha256(RECORDED).hexdigest())
        return replace(made, episode=episode, arrays_file=RECORDED)


@contextmanager
def running(home: Home, plan: BranchPlan = PLAN, regimes: Mapping[str, Recipe] = PROGRAMS) -> Generator[Running]:
    """A lab whose branches work on a simulated task, here on its program; robots need a chance alone."""
    rounds = replace(BRANCHED.rounds, episodes=100_000)  # no round begins
    campaign = replace(BRANCHED, task="pin_insertion_blind", branches=plan, rounds=rounds)
    with Running(home, campaign=campaign, regimes=regimes) as lab:
        lab.lab.fleet = Pins(home.versions, lease=lab.lab.state.lease + 1)
        yield lab


def test_a_setting_without_effect_makes_the_same_version_and_no_robot_acts_for_it(home: Home) -> None:
    with running(home, replace(PLAN, isolated=("four",))) as lab:
        first = opened(lab, "one", "spiral")
        lab.until(lambda lab: first.newest)
        alone = opened(lab, "four", "spiral")
        with pytest.raises(RequestRefused, match="of the program pin_spiral; this recipe tunes pin_touch"):
            opened(lab, "five", "touch", parent_experiment=first.experiment_id)
        # Without a parent of its kind, no rollout follows one.
        again = opened(lab, "two", "spiral", changes={"follow_starts": 8})
        other = opened(lab, "three", "spiral", changes={"population": 8})
        experiment = lab.lab.state.proposals.experiments[again.experiment_id]
        lab.until(lambda lab: again.newest and other.newest and alone.newest)
        turn(lab.lab)
        assert experiment.why == f"same actions: experiment {first.experiment_id}"
        assert again.newest == first.newest != other.newest
        assert purposes(lab)["search", again.experiment_id] == 0
        assert alone.newest not in (first.newest, other.newest), (
            "an equal version would show what another session tried"
        )
        assert {first.phase, other.phase, alone.phase} == {"search"}
        assert [check for check in recompute(lab.ledger) if not check.equal] == []
        assert rebuilt(lab.ledger, "C1") == lab.lab.state


def test_a_version_that_nobody_tried_is_tried_by_the_next_branch_that_makes_it(home: Home) -> None:
    with running(home) as lab:
        lab.lab.task = TASKS.make("pin_insertion_blind")
        first = opened(lab, "one", "spiral")
        lab.until(lambda lab: first.newest)
        lab.lab.write(branch_ended(lab.lab, first, "given up", "before a robot acted for it"))
        again = opened(lab, "two", "spiral", changes={"follow_starts": 8})
        lab.until(lambda lab: again.newest)
        assert again.newest == first.newest
        lab.until(lambda lab: len(lab.state.branches.rollouts(again.newest).results) > 20)
        assert (again.phase, again.why) == ("search", "")
        assert [check for check in recompute(lab.ledger) if not check.equal] == []


def test_a_branch_whose_version_an_operator_promoted_is_over_and_its_change_is_not_reverted(home: Home) -> None:
    with running(home) as lab:
        first = opened(lab, "one", "spiral")
        lab.until(lambda lab: first.newest)
        swap(lab.lab, first.newest, f"{PROMOTED_BY}anna")
        turn(lab.lab)
        experiment = lab.lab.state.proposals.experiments[first.experiment_id]
        assert (first.phase, first.why) == ("over", "promoted by an operator")
        assert (experiment.phase, experiment.decision) == ("cancelled", "")
        assert experiment.why == "an operator promoted it without a gate"
        assert rebuilt(lab.ledger, "C1") == lab.lab.state


def test_a_training_run_that_an_older_orchestrator_began_resumes_with_its_seed(home: Home) -> None:
    with running(home) as lab:
        branch = opened(lab, "one", "spiral")
        lab.until(lambda lab: lab.state.branch_trainings)
        [training] = lab.lab.state.branch_trainings.values()
        [started] = [
            event for entry in lab.ledger.events(kinds=kinds_of(LearnerStarted))
            if (event := cast("LearnerStarted", entry.event)).turn
        ]  # fmt: skip
        assert (job_of(lab.lab, training).seed, job_of(lab.lab, training).turn) == (started.seed, 1)
        older = replace(training, seed=None)
        assert job_of(lab.lab, older).turn == 0, "a sequence resumes in the same stage"
        assert job_of(lab.lab, older).seed == 3 * 1000 + training.round + 1_000_000 * branch.number


def a_branch(branches: Branches, lane: str, skill: float, parent: str = "") -> Branch:
    number = len(branches.by_experiment) + 1
    branch = Branch(
        experiment_id=f"E{number}", lane=lane, number=number, regime="r", turn_rollouts=10, parent_experiment=parent,
        recipe=Recipe(name="r", learner="clone", settings={"skill": skill}),
    )  # fmt: skip
    branches.by_experiment[branch.experiment_id] = branch
    return branch


def test_branches_share_the_random_numbers_of_a_turn_and_repeats_and_unknown_sessions_do_not() -> None:
    branches = Branches()
    first, second = a_branch(branches, "one", 0.1), a_branch(branches, "two", 0.2)
    repeated, alone = a_branch(branches, "one", 0.1), a_branch(branches, "three", 0.1)

    def seed(branch: Branch) -> int:
        knows: Callable[[str], bool] = lambda lane: (lane == "three") == (branch.lane == "three")  # noqa: E731
        return seed_of_turn(3, branches, branch, knows)

    assert seed(first) == seed(second)
    assert len({seed(first), seed(repeated), seed(alone)}) == 3
    before = seed(first)
    first.turn = 1
    assert seed(first) not in (before, seed(second)), "each turn has its own random numbers"
    continuing, differently = (a_branch(branches, "two", skill, "E1") for skill in (0.1, 0.3))
    assert seed(continuing) == seed(differently) not in (before, seed(repeated))
