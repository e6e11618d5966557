"""Attribution of success to changes: leave-one-out and Shapley values of the changes of a recipe, with intervals.

The value of a set of changes is the success rate of the version that is trained with them. All values are measured on
the same starts, so each start gives one sample of every figure, and the intervals resample the starts (paired
bootstrap); where permutations are drawn, they resample these too.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.errors import UsageError

EXACT = 4
"""Most players for which all subsets are trained."""
RESAMPLES = 2000

Subset = frozenset[int]
"""Indices of the changes that are made."""
Outcomes = npt.NDArray[np.bool_]
"""(starts,): whether each start succeeded."""
Samples = npt.NDArray[np.float64]
"""(draws, players, starts): one sample of a figure for each drawn order and start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A difference in success rate, with its 95 % bootstrap interval."""

    delta: float
    """In [-1, 1]."""
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What one change contributed."""

    leave_one_out: Effect
    """Success with all changes, minus success without this one."""
    shapley: Effect
    """Mean gain of adding this change, over the orders in which the changes can be made. The Shapley values of all
    changes add up to the gain of all changes together."""


def orders_of(players: int, permutations: int | None, seed: int) -> tuple[tuple[int, ...], ...]:
    """The orders in which the changes are added: all of them for at most EXACT players, otherwise drawn with `seed`.

    Drawn orders come in pairs, each with its reverse, so that no change is early in most of them.

    Args:
        players: number of changes, at least 1.
        permutations: number of drawn orders; None: all orders, or two for each player.
        seed: of the draw.

    Raises:
        UsageError: `permutations` is below 1.
    """
    if permutations is not None and permutations < 1:
        raise UsageError(f"{permutations} permutations give no Shapley value: write at least 1, or auto.")
    every = math.factorial(players)
    if players <= EXACT and (permutations is None or permutations >= every):
        return tuple(itertools.permutations(range(players)))
    draw, wanted = random.Random(seed), permutations or 2 * players
    orders: list[tuple[int, ...]] = []
    while len(orders) < wanted:
        order = tuple(draw.sample(range(players), players))
        orders += [order, order[::-1]]
    return tuple(orders[:wanted])


def subsets_of(orders: Sequence[tuple[int, ...]]) -> tuple[Subset, ...]:
    """The sets of changes that the values need, smallest first: those of the orders, and all changes without one."""
    players = len(orders[0])
    wanted = {frozenset(order[:length]) for order in orders for length in range(players + 1)}
    wanted |= {frozenset(range(players)) - {player} for player in range(players)}
    return tuple(sorted(wanted, key=lambda one: (len(one), sorted(one))))


def is_exact(orders: Sequence[tuple[int, ...]]) -> bool:
    """Whether these are all orders, so that the Shapley values have no error from drawing."""
    return len(set(orders)) == math.factorial(len(orders[0]))


def effects_of(
    outcomes: Mapping[Subset, Outcomes], orders: Sequence[tuple[int, ...]], seed: int
) -> tuple[Effects, ...]:
    """The effects of every change, from the outcomes (starts,) of each set of `subsets_of` on the same starts.

    If `orders` are all orders, only starts are resampled: the Shapley values are then exact.
    """
    players = len(orders[0])
    value = {subset: found.astype(np.float64) for subset, found in outcomes.items()}
    whole = frozenset(range(players))
    without = np.stack([value[whole] - value[whole - {player}] for player in range(players)])
    gains = np.stack([_gains(value, order) for order in orders])
    drawn = gains.mean(axis=0, keepdims=True) if is_exact(orders) else gains
    lone, shared = _effects(without[None], seed), _effects(drawn, seed)
    return tuple(Effects(leave_one_out=one, shapley=other) for one, other in zip(lone, shared, strict=True))


def _gains(value: Mapping[Subset, npt.NDArray[np.float64]], order: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """(players, starts): the gain of each change when it is added in this order."""
    gains = np.empty((len(order), len(value[frozenset()])))
    for place, player in enumerate(order):
        before = frozenset(order[:place])
        gains[player] = value[before | {player}] - value[before]
    return gains


def _effects(samples: Samples, seed: int) -> list[Effect]:
    """The mean of each player's samples over draws and starts, with its percentile interval."""
    draws, _, starts = samples.shape
    generator = np.random.default_rng(seed)
    of_draws = generator.multinomial(draws, np.full(draws, 1 / draws), RESAMPLES) / draws
    of_starts = generator.multinomial(starts, np.full(starts, 1 / starts), RESAMPLES) / starts
    resampled = np.einsum("bd,dpb->bp", of_draws, samples @ of_starts.T)
    low, high = np.quantile(resampled, (0.025, 0.975), axis=0)
    mean = samples.mean(axis=(0, 2))
    return [Effect(delta=float(mean[i]), low=float(low[i]), high=float(high[i])) for i in range(len(mean))]


def attributed(
    players: int, permutations: int | None, seed: int, evaluate: Callable[[Subset], Outcomes]
) -> tuple[tuple[Effects, ...], Mapping[Subset, Outcomes]]:
    """(effects of every change, outcomes of every set): evaluates each needed set of changes once.

    Raises:
        UsageError: as `orders_of`.
    """
    orders = orders_of(players, permutations, seed)
    outcomes = {subset: evaluate(subset) for subset in subsets_of(orders)}
    return effects_of(outcomes, orders, seed), outcomes
