"""Sequences of regimes with the shipped learners: a branch continues another one, or its recipe has stages."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import yaml

from agent_loop.lab_client import RequestRefused
from enpire.campaign.branch import Branch
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.events import kinds_of
from enpire.campaign.recipe import Recipe, read_recipe
from enpire.campaign.training_events import LearnerStarted
from enpire.files import document
from enpire.home import Home, open_home
from enpire.parts import TASKS
from enpire.store.versions import manifest
from tests.agent_loop import test_same_versions
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.test_branches import opened
from tests.agent_loop.test_same_versions import SPIRAL, TOUCH

CLONED = {"hidden": 32, "depth": 2, "frequencies": 1, "batch": 64, "least_steps": 20, "most_steps": 20}
CORRECTED = {"hidden": 32, "batch": 64, "least_steps": 40, "most_steps": 40}


def small(name: str, **settings: int) -> Recipe:
    recipe = read_recipe(name)
    return replace(recipe, settings={**recipe.settings, **settings}, turn_rollouts=300)


REGIMES = {
    "filtered_bc": small("filtered_bc", **CLONED), "residual_td3": small("residual_td3", **CORRECTED),
    "spiral_search": SPIRAL, "touch_search": TOUCH,
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@contextmanager
def running(home: Home, regimes: Mapping[str, Recipe], least_starts: int) -> Generator[Running]:
    """A lab whose branches train on what a pin senses; budgets end none of them."""
    plan = BranchPlan(recipes=tuple(regimes), robot_s=1e9, learner_s=1e9, least_starts=least_starts, learns_from="pool")
    with test_same_versions.running(home, plan, regimes) as lab:
        lab.lab.task = TASKS.make("pin_insertion_blind")
        lab.until(lambda lab: len(lab.state.data.rows) > 60)
        yield lab


def runs_of(lab: Running, branch: Branch) -> list[LearnerStarted]:
    """The training runs of a branch, in order."""
    started = [cast("LearnerStarted", one.event) for one in lab.ledger.events(kinds=kinds_of(LearnerStarted))]
    return [one for one in started if one.experiment_id == branch.experiment_id]


def test_residual_rl_continues_a_clone_and_a_program_search_cannot(home: Home) -> None:
    with running(home, REGIMES, least_starts=400) as lab:
        cloned, tuned = opened(lab, "one", "filtered_bc"), opened(lab, "three", "spiral_search")
        lab.until(lambda _: all(one.newest or one.why for one in (cloned, tuned)))
        assert (cloned.why, tuned.why) == ("", "")
        lab.until(lambda lab: lab.state.data.searched.get(cloned.newest))
        corrected = opened(lab, "two", "residual_td3", parent_experiment=cloned.experiment_id)
        with pytest.raises(RequestRefused, match="of kind flow; the learner program_search can start from program"):
            opened(lab, "four", "spiral_search", parent_experiment=cloned.experiment_id)
        with pytest.raises(RequestRefused, match="of the program pin_spiral; this recipe tunes pin_touch"):
            opened(lab, "four", "touch_search", parent_experiment=tuned.experiment_id)
        lab.until(lambda _: corrected.newest or corrected.why)
        assert corrected.why == ""
        assert corrected.parent == cloned.newest
        assert manifest(home.versions / corrected.newest)["kind"] == "residual"
        assert lab.lab.state.branches.lineage(corrected.newest) == [corrected.newest, cloned.newest]
        [run] = runs_of(lab, corrected)
        acted = {row.order_id for row in lab.lab.state.data.searched[cloned.newest]}
        assert acted & set(run.episodes), "it learns from what the clone did"


@pytest.mark.parametrize(
    ("stages", "kinds", "continues"),
    [
        (("filtered_bc", "residual_td3"), ["flow", "residual"], True),
        (("spiral_search", "filtered_bc"), ["program", "flow"], False),
        (("spiral_search", "touch_search"), ["program", "program"], False),
    ],
)
def test_the_stages_of_a_recipe_follow_each_other_in_the_turns_of_one_branch(
    home: Home, tmp_path: Path, stages: tuple[str, str], kinds: list[str], *, continues: bool
) -> None:
    for name in stages:
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(document(REGIMES[name])))
    first, second = (tmp_path / f"{name}.yaml" for name in stages)
    staged = Recipe(name="staged", learner="sequence", turn_rollouts=30, settings={"stages": f"{first} 1, {second}"})
    with running(home, {"staged": staged}, least_starts=20) as lab:
        branch = opened(lab, "one", "staged")
        lab.until(lambda _: len(branch.versions) >= 2 or branch.why)
        assert branch.why == ""
        made = branch.versions[:2]
        assert [manifest(home.versions / version)["kind"] for version in made] == kinds
        trained = runs_of(lab, branch)[:2]
        assert [one.turn for one in trained] == [1, 2]
        assert trained[0].parent == "", "the champion is of a kind from which no learner here can start"
        assert trained[1].parent == (made[0] if continues else ""), (
            "no clone starts from a program, nor one program from another"
        )
        acted = {row.order_id for row in lab.lab.state.data.searched[made[0]]}
        assert acted & set(trained[1].episodes), "the second stage learns from what the first version did"
