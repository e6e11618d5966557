"""What the benchmark runs of a task: every arm that trains the actor gets the task's training, and no other task's."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks.improvement import Bench
from benchmarks.improvement_plans import ARMS, COOLING, TASKS, TRAIN_THE_ACTOR, Plan
from enpire.campaign.recipe import read_recipe
from enpire.files import parse
from policies.clone import CloneSettings, RoundSettings
from policies.habc.settings import HabcSettings
from policies.recap import RecapSettings
from policies.training_data import read_episode

ACTOR_SETTINGS: dict[str, type[RoundSettings]] = {"clone": CloneSettings, "habc": HabcSettings, "recap": RecapSettings}
LITERAL = {"window_rounds", "demonstration_decay"}
"""What habc_paper and recap have as their papers have it."""


@pytest.mark.parametrize("arm", ARMS)
def test_pin_insertion_runs_the_shipped_recipes(arm: str) -> None:
    shipped = read_recipe(ARMS[arm].recipe)
    cooled = {"cooling": 0.9, "least_temperature": 0.5} if arm == "filtered_bc_cooled" else {}
    assert Plan().recipe(arm).settings == {**shipped.settings, **cooled, **ARMS[arm].changes}


def test_cooling_is_part_of_a_recipe_and_only_variants_of_habc_plus_take_over_that_of_the_task() -> None:
    plan, ours = Plan.of("fragile_ziptie", 0.0), read_recipe("habc_fragile_ziptie").settings
    for arm in ("habc_plus", "habc_v", "soft_gate", "filtered_bc_cooled"):
        assert {name: plan.recipe(arm).settings[name] for name in COOLING} == {name: ours[name] for name in COOLING}
    assert plan.recipe("filtered_bc").settings["cooling"] == read_recipe("filtered_bc").settings["cooling"]
    assert plan.recipe("habc_paper").settings["cooling"] == 1.0
    assert "collect_temperature" not in plan.recipe("habc_paper").settings


def test_habc_on_push_t_is_the_recipe_of_the_campaign() -> None:
    plan = Plan.of("push_t", 0.5)
    assert plan.recipe("habc_plus").settings == read_recipe("habc_push_t").settings
    assert plan.recipe("base").settings == read_recipe("clone_push_t").settings
    assert plan.demonstrations == TASKS["push_t"].demonstrations > Plan().demonstrations


@pytest.mark.parametrize("arm", [arm for arm in ARMS if read_recipe(ARMS[arm].recipe).learner in TRAIN_THE_ACTOR])
@pytest.mark.parametrize("task", sorted({Plan().task, *TASKS}))
def test_all_actors_of_a_task_have_one_size_and_one_training(task: str, arm: str) -> None:
    plan = Plan.of(task, 0.5)
    recipe, ours = plan.recipe(arm), parse(HabcSettings, plan.recipe("habc_plus").settings, "habc_plus")
    theirs = parse(ACTOR_SETTINGS[recipe.learner], recipe.settings, arm)
    own = {*ARMS[arm].changes, *COOLING, *(LITERAL if recipe.name in ("habc_paper", "recap") else ())}
    shared = [item.name for item in fields(RoundSettings) if item.name not in own]
    assert {name: getattr(theirs, name) for name in shared} == {name: getattr(ours, name) for name in shared}


@pytest.mark.parametrize("task", sorted({Plan().task, *TASKS}))
def test_the_base_has_the_size_of_the_arms(task: str) -> None:
    plan = Plan.of(task, 0.5)
    base = parse(CloneSettings, plan.recipe("base").settings, "base")
    ours = parse(HabcSettings, plan.recipe("habc_plus").settings, "habc_plus")
    assert base.shape(9, 3) == ours.shape(9, 3)


def test_an_arm_never_learns_without_a_new_rollout() -> None:
    assert Plan().turns("hil_serl") == 10
    assert Plan(episodes=4).turns("hil_serl") == 4
    assert Plan().turns("habc_plus") == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_arm_that_learns_while_it_acts_collects_with_what_it_has_just_learned(tmp_path: Path) -> None:
    pytest.importorskip("lerobot")
    plan = Plan(demonstrations=8, rounds=2, episodes=4, starts=2, lanes=4, most_steps=3)
    bench = Bench(plan, 0, tmp_path, "now")
    last = bench.arm("hil_serl")[-1]
    own = [read_episode(Path(folder)) for evaluation in bench.arm("hil_serl")[1:] for folder in evaluation.episodes]
    assert [item.round for item in own if item is not None] == list(range(1, 9))
    assert (Path(last.version).name, last.steps) == ("version8", 12)
    assert bench.store.facts(Path(last.episodes[-1])).ran_policy_id == "version7"
