"""The quick form of benchmarks/critics.py: exact values, and calibration of the shipped settings under supervision."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.critic_chains import Chain, Collection, Condition
from benchmarks.critics import Size, chains, error, groups, settings_of, trained
from enpire.campaign.recipe import read_recipe

FIRST = 50_000
"""First seed of the chains of these tests; they are not those of a report."""


def test_exact_values_are_those_of_many_rollouts() -> None:
    chain = Chain.drawn(3, 2)
    collection = Collection(chain=chain, condition=Condition(name="alone"), episodes=1500, seed=1)
    collection.collect(2, None)
    exact, states = chain.exact(2), [item.arrays.state[:-1].argmax(axis=1) for item in collection.kept]
    places = np.concatenate(states)
    won = np.concatenate([np.full(len(row), item.success) for row, item in zip(states, collection.kept, strict=True)])
    order = [*range(chain.states), chain.states + 1]
    visits = np.bincount(places, minlength=chain.states + 2)[order]
    np.testing.assert_allclose(visits / 1500, exact.visits, rtol=0.25)
    found = np.bincount(places, won, minlength=chain.states + 2)[order] / visits
    assert np.abs(found - exact.viability).max() < 0.06
    assert error(exact, exact.viability) == (0.0, 0.0)
    assert error(exact, exact.viability * 0)[1] == pytest.approx(exact.viability.max())
    rests = np.concatenate([len(row) - 1 - np.arange(len(row)) for row in states])
    for state in range(chain.states):
        assert -rests[won & (places == state)].mean() == pytest.approx(exact.efficiency[state], abs=0.8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [Condition(name="half", supervised=0.5), Condition(name="stop", early_stop=0.25)],
    ids=lambda condition: condition.name,
)
def test_labels_leave_p_v_within_the_limit_in_every_round(condition: Condition) -> None:
    found = chains(Size(chains=5, first_seed=FIRST, rounds=3, episodes=300, counted=True), condition)
    ece = {key[1:]: np.mean([item.ece for item in rows]) for key, rows in groups(found).items()}
    assert all(ece["outcomes, counted", round_] <= 0.05 for round_ in (1, 2, 3)), ece
    assert all(ece["before, counted", round_] > 1.5 * ece["outcomes, counted", round_] for round_ in (1, 2, 3)), ece


def test_labels_that_are_p_v_later_have_a_smaller_largest_error_than_outcomes() -> None:
    found = chains(Size(chains=8, first_seed=FIRST, rounds=1, counted=True), Condition(name="alone"))
    largest = {key[1]: np.mean([item.largest for item in rows]) for key, rows in groups(found).items()}
    assert largest["now, counted"] < 0.8 * largest["outcomes, counted"], largest


def test_rollouts_that_were_stopped_early_make_bootstrapping_critics_more_accurate() -> None:
    condition = Condition(name="stop", early_stop=0.25)
    found = chains(Size(chains=4, first_seed=FIRST, rounds=2, episodes=300, counted=True), condition)
    largest = {key[1:]: np.mean([item.largest for item in rows]) for key, rows in groups(found).items()}
    assert largest["now, counted", 2] < 0.75 * largest["verdicts alone, counted", 2], largest
    assert largest["now, counted", 1] == largest["verdicts alone, counted", 1], "round 1 has no predictions"


def test_where_every_episode_is_supervised_labels_that_are_p_v_later_are_right() -> None:
    found = chains(Size(chains=3, first_seed=FIRST, rounds=1, counted=True), Condition(name="all", supervised=1.0))
    ece = {key[1]: np.mean([item.ece for item in rows]) for key, rows in groups(found).items()}
    assert ece["now, counted"] <= 0.04, ece
    assert ece["outcomes, counted"] > 2 * ece["now, counted"], ece


def test_the_learners_code_finds_p_v_from_bootstrapped_labels() -> None:
    chain = Chain.drawn(FIRST, 1)
    collection = Collection(chain=chain, condition=Condition(name="all", supervised=1.0), episodes=400, seed=1)
    collection.collect(1, None)
    viability, _ = trained(collection.kept, settings_of({}), chain, 1)
    states = [*range(chain.states), chain.states + 1]
    assert error(chain.exact(1), viability[states])[0] < 0.06


def test_the_learners_code_finds_p_v_of_the_newest_policy_from_outcomes() -> None:
    chain = Chain.drawn(FIRST, 2)
    collection = Collection(chain=chain, condition=Condition(name="half", supervised=0.5), episodes=400, seed=1)
    for round_ in (1, 2):
        collection.collect(round_, None)
    random.Random(0).shuffle(collection.kept)
    viability, _ = trained(collection.kept, settings_of(read_recipe("habc_outcomes").settings), chain, 1)
    states = [*range(chain.states), chain.states + 1]
    assert error(chain.exact(2), viability[states])[0] < 0.06
