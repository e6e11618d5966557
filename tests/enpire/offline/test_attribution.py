"""Leave-one-out and Shapley values: exact for known effects, and intervals that cover."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from enpire.errors import UsageError
from enpire.offline.attribution import (
    Effect,
    Outcomes,
    Subset,
    attributed,
    effects_of,
    is_exact,
    orders_of,
    subsets_of,
)

STARTS = 1000


def outcomes_at(rate: float) -> Outcomes:
    """Exactly this share of the starts succeeds, the easiest first."""
    return np.arange(STARTS) < round(rate * STARTS)


def additive(subset: Subset) -> float:
    return 0.2 + sum((0.3, 0.1, -0.05)[player] for player in subset)


def interacting(subset: Subset) -> float:
    """Changes 0 and 1 gain 0.4 together and nothing alone; change 2 gains 0.1."""
    return 0.2 + 0.4 * ({0, 1} <= subset) + 0.1 * (2 in subset)


def test_additive_changes_get_their_own_effect_both_ways() -> None:
    effects, outcomes = attributed(3, None, 0, lambda subset: outcomes_at(additive(subset)))
    assert len(outcomes) == 8
    for effect, wanted in zip(effects, (0.3, 0.1, -0.05), strict=True):
        assert effect.shapley.delta == pytest.approx(wanted)
        assert effect.leave_one_out.delta == pytest.approx(wanted)


def test_two_changes_that_need_each_other_share_their_gain() -> None:
    effects, _ = attributed(3, None, 0, lambda subset: outcomes_at(interacting(subset)))
    assert [one.shapley.delta for one in effects] == pytest.approx([0.2, 0.2, 0.1])
    assert [one.leave_one_out.delta for one in effects] == pytest.approx([0.4, 0.4, 0.1])


def test_the_shapley_values_add_up_to_the_gain_of_all_changes() -> None:
    draw = np.random.default_rng(2)
    value = {subset: draw.random(STARTS) < draw.random() for subset in subsets_of(orders_of(4, None, 0))}
    effects = effects_of(value, orders_of(4, None, 0), 0)
    gained = value[frozenset(range(4))].mean() - value[frozenset()].mean()
    assert sum(one.shapley.delta for one in effects) == pytest.approx(gained)


def test_the_shapley_value_is_that_of_its_definition() -> None:
    draw = np.random.default_rng(3)
    value = {subset: draw.random(STARTS) < draw.random() for subset in subsets_of(orders_of(3, None, 0))}
    rate = {subset: float(found.mean()) for subset, found in value.items()}
    effects = effects_of(value, orders_of(3, None, 0), 0)
    for player in range(3):
        others = [one for one in range(3) if one != player]
        wanted = sum(
            math.factorial(size)
            * math.factorial(2 - size)
            / 6
            * (rate[frozenset({*chosen, player})] - rate[frozenset(chosen)])
            for size in range(3)
            for chosen in itertools.combinations(others, size)
        )
        assert effects[player].shapley.delta == pytest.approx(wanted)


def test_a_single_change_has_one_effect() -> None:
    (effect,), outcomes = attributed(1, None, 0, lambda subset: outcomes_at(additive(subset)))
    assert set(outcomes) == {frozenset(), frozenset({0})}
    assert effect.shapley == effect.leave_one_out
    assert effect.shapley.delta == pytest.approx(0.3)


def test_up_to_four_changes_every_order_is_taken() -> None:
    orders = orders_of(4, None, 7)
    assert len(orders) == 24
    assert is_exact(orders)
    assert len(subsets_of(orders)) == 16


def test_more_changes_are_drawn_in_pairs_of_orders_and_repeat_by_seed() -> None:
    orders = orders_of(6, None, 7)
    assert len(orders) == 12
    assert not is_exact(orders)
    assert all(orders[place][::-1] == orders[place + 1] for place in range(0, 12, 2))
    assert orders == orders_of(6, None, 7) != orders_of(6, None, 8)
    wanted = subsets_of(orders)
    assert {frozenset(range(6)) - {player} for player in range(6)} <= set(wanted), "leave-one-out is always exact"
    assert len(wanted) == len(set(wanted)) < 64
    assert len(orders_of(6, 5, 0)) == 5


def test_drawn_orders_give_additive_effects_exactly() -> None:
    gains = (0.1, 0.05, -0.05, 0.2, 0.0, 0.15)
    effects, _ = attributed(6, None, 1, lambda subset: outcomes_at(0.2 + sum(gains[player] for player in subset)))
    assert [one.shapley.delta for one in effects] == pytest.approx(gains)


@pytest.mark.parametrize("permutations", [0, -3])
def test_no_order_gives_no_value(permutations: int) -> None:
    with pytest.raises(UsageError, match="write at least 1, or auto"):
        orders_of(3, permutations, 0)


@pytest.mark.parametrize("value", [additive, interacting])
def test_the_intervals_cover_the_true_effects(value: Callable[[Subset], float]) -> None:
    """Every start has a difficulty; a set of changes solves it if its rate exceeds that: paired outcomes."""
    orders = orders_of(3, None, 0)
    exact = {subset: outcomes_at(value(subset)) for subset in subsets_of(orders)}
    true = effects_of(exact, orders, 0)
    draw, hits, tried = np.random.default_rng(11), 0, 0
    for seed in range(30):
        difficulty = draw.random(150)
        found = {subset: difficulty < value(subset) for subset in exact}
        for effect, wanted in zip(effects_of(found, orders, seed), true, strict=True):
            hits += _covers(effect.shapley, wanted.shapley.delta)
            hits += _covers(effect.leave_one_out, wanted.leave_one_out.delta)
            tried += 2
    assert hits / tried >= 0.9


def test_the_intervals_of_drawn_orders_cover_interacting_effects() -> None:
    """Six changes of which pairs need each other; the draw of the orders is part of the error."""

    def value(subset: Subset) -> float:
        return 0.1 + 0.25 * ({0, 1} <= subset) + 0.25 * ({2, 3} <= subset) + 0.25 * ({4, 5} <= subset)

    hits, draw = 0, np.random.default_rng(5)
    for seed in range(25):
        orders, difficulty = orders_of(6, 16, seed), draw.random(200)
        effects = effects_of({subset: difficulty < value(subset) for subset in subsets_of(orders)}, orders, seed)
        hits += sum(_covers(one.shapley, 0.125) for one in effects)
    assert hits / 150 >= 0.88


def _covers(effect: Effect, true: float) -> bool:
    return effect.low - 1e-9 <= true <= effect.high + 1e-9
