"""The programs of the pin tasks act on fragile insertion as on pin insertion; haste in them breaks pins."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from enpire.campaign.campaign import read_campaign
from enpire.campaign.recipe import read_recipe
from enpire.errors import PolicyProblem
from enpire.interfaces import ImprovementJob, Policy
from enpire.types import FloatArray, Observation
from policies.program import PROGRAMS, ProgramVersion, policy_of, values_at
from policies.program_search import ProgramSearch
from sim.rollouts import GradedRollout, roll_out
from sim.tasks.fragile_insertion import FragileInsertion
from sim.tasks.fragile_rig import LENGTH, PIN_MM
from sim.tasks.pin_rig import STATE
from sim.tasks.pin_spiral import SpiralExpert, SpiralProgram
from sim.tasks.pin_states import pin_columns
from sim.tasks.pin_touch import TouchProgram, TouchSearch

FRAGILE = FragileInsertion()
CAMPAIGN = read_campaign("fragile_insertion")
SEARCHES = [name for name in CAMPAIGN.branches.recipes if read_recipe(name).learner == "program_search"]
HASTY = SpiralProgram(pitch_mm=1.2, speed_mm_s=18.0, press_mm_s=3.0, gain_per_s=12.0)
"""Values that the parameter search may try: the widest turns at the highest speed."""


def spiral(program: SpiralProgram | None = None) -> Policy:
    return SpiralExpert(program or SpiralProgram(), FRAGILE.spec.period_s)


def touch() -> Policy:
    return TouchSearch(TouchProgram())


def rolled(policy: Policy, count: int) -> list[GradedRollout]:
    starts = [FRAGILE.start("train", index, b"") for index in range(count)]
    return roll_out(FRAGILE, FRAGILE.rig(count, 11), policy, starts)


def broken(items: list[GradedRollout]) -> int:
    return sum(item.truth.metrics["broken"] > 0 for item in items)


def states(count: int) -> FloatArray:
    """Random states (count, 13) near the rim and in the hole."""
    state = np.random.default_rng(77).normal(0.0, 0.6, (count, LENGTH + 1)).astype(np.float32)
    state[:, LENGTH] = PIN_MM
    return state


@pytest.mark.parametrize("make", [spiral, touch])
def test_a_program_acts_on_both_layouts_alike_whatever_the_length_is(make: Callable[[], Policy]) -> None:
    plain, longer, shorter = make(), make(), make()
    lanes = np.arange(40)
    for lane in range(40):
        for policy in (plain, longer, shorter):
            policy.begin(lane, lane)
    state = states(40)
    short = state.copy()
    short[:, LENGTH] = 3.0
    expected = np.zeros(0, np.float32)
    for _ in range(4):
        expected = plain.act(Observation(stamp_ns=0, state=state[:, :LENGTH]), lanes)
        np.testing.assert_array_equal(longer.act(Observation(stamp_ns=0, state=state), lanes), expected)
        np.testing.assert_array_equal(shorter.act(Observation(stamp_ns=0, state=short), lanes), expected)
    assert len(np.unique(expected[:, 0], axis=0)) > 20, "the commands depend on the state"


@pytest.mark.parametrize(("make", "name"), [(spiral, "The spiral"), (touch, "The search by touch")])
@pytest.mark.parametrize("shape", [(2, 11), (2, 14), (1, 13), (12,)])
def test_another_layout_is_refused_in_one_sentence(
    make: Callable[[], Policy], name: str, shape: tuple[int, ...]
) -> None:
    with pytest.raises(PolicyProblem) as refused:
        make().act(Observation(stamp_ns=0, state=np.zeros(shape, np.float32)), np.arange(2))
    assert str(refused.value) == (
        f"{name} needs a state of shape (2, 12), or (2, 13) with the pin's length, not {shape}."
    )


def test_the_columns_are_those_of_pin_insertion() -> None:
    assert [column.name for column in FRAGILE.spec.state[: len(STATE)]] == [column.name for column in STATE]
    np.testing.assert_array_equal(pin_columns(states(3), 3, "It"), states(3)[:, : len(STATE)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_values_from_which_a_search_begins_break_hardly_a_pin(name: str) -> None:
    values = values_at(name, np.full(len(PROGRAMS[name]), 0.5, np.float32))
    items = rolled(policy_of(ProgramVersion(program=name, values=values, period_s=FRAGILE.spec.period_s)), 40)
    assert broken(items) <= 1
    assert sum(item.truth.success for item in items) >= 39


def test_haste_along_the_spiral_breaks_pins_and_slowness_none() -> None:
    slow = replace(HASTY, speed_mm_s=3.0)
    assert broken(rolled(spiral(HASTY), 24)) >= 20
    assert broken(rolled(spiral(slow), 24)) == 0
    for program in (HASTY, slow):
        ProgramVersion(program="pin_spiral", values=asdict(program), period_s=FRAGILE.spec.period_s)


def test_the_shipped_campaign_tries_each_regime_and_wants_less_time_than_the_careful_expert() -> None:
    learners = {read_recipe(name).learner for name in CAMPAIGN.branches.recipes}
    assert learners == {"program_search", "lerobot_sac", "habc", "clone"}
    assert SEARCHES == ["spiral_search", "touch_search"]
    careful = rolled(FRAGILE.clean_expert(), 40)
    assert np.median([item.ticks for item in careful if item.truth.success]) > CAMPAIGN.goal.commands > 0


@pytest.mark.parametrize("name", SEARCHES)
def test_the_searches_of_the_shipped_campaign_run_on_fragile_insertion(tmp_path: Path, name: str) -> None:
    recipe = read_recipe(name)
    small = {**recipe.settings, **ProgramSearch.smoke, "rigs": 1}
    job = ImprovementJob(
        recipe={"name": name, "learner": recipe.learner, "settings": small}, task=CAMPAIGN.task, parent=None,
        episodes=[], work=tmp_path / "work", output=tmp_path / "out" / "version", round=1, seed=77,
    )  # fmt: skip
    metrics = ProgramSearch().improve(job, lambda progress: None)
    assert metrics["rollouts"] == 8
    assert metrics["median_cost_last"] < 1, "some succeed"
    assert json.loads((job.output / "policy.json").read_text())["program"] == recipe.settings["program"]
