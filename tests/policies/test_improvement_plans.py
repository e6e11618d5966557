"""What the benchmark runs of a task: every arm that trains the actor gets the task's training, and no other task's."""

from __future__ import annotations

import pytest

from benchmarks.improvement_plans import ARMS, TASKS, TRAIN_THE_ACTOR, Plan
from enpire.recipe import read_recipe


@pytest.mark.parametrize("arm", ARMS)
def test_pin_insertion_runs_the_shipped_recipes(arm: str) -> None:
    shipped = read_recipe(ARMS[arm].recipe)
    assert Plan().recipe(arm).settings == {**shipped.settings, **ARMS[arm].changes}


def test_habc_on_push_t_is_the_recipe_of_the_campaign() -> None:
    plan = Plan.of("push_t", 0.5)
    assert plan.recipe("habc_plus").settings == read_recipe("habc_push_t").settings
    assert plan.recipe("base").settings == read_recipe("clone_push_t").settings
    assert plan.demonstrations == TASKS["push_t"].demonstrations > Plan().demonstrations


def test_all_actors_of_push_t_have_one_size_and_one_training() -> None:
    plan, sizes = Plan.of("push_t", 0.5), ("hidden", "frequencies", "execute")
    base = plan.recipe("base").settings
    ours = plan.recipe("habc_plus").settings
    for arm in ARMS:
        recipe = plan.recipe(arm)
        if recipe.learner in TRAIN_THE_ACTOR:
            assert [recipe.settings[name] for name in sizes] == [base[name] for name in sizes]
            assert [recipe.settings[name] for name in ("passes", "most_steps")] == [ours["passes"], ours["most_steps"]]
