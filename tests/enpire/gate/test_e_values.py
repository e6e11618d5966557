"""Evidence as theorems: martingales, monotone, mirrored, and the true difference is rarely ever left."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.gate.e_values import (
    NO_END,
    difference,
    log_e,
    log_e_above,
    log_e_of_many,
    log_e_rate_above,
    pairs_until,
)

small = st.integers(0, 150)


def test_without_evidence_e_is_one() -> None:
    assert log_e(0, 0) == pytest.approx(0, abs=1e-12)


def test_the_closed_form() -> None:
    from scipy.special import betaincc, betaln

    for wins, losses in [(1, 0), (5, 2), (20, 3), (3, 20), (200, 150), (0, 60)]:
        direct = (wins + losses + 1) * math.log(2) + betaln(wins + 1, losses + 1)
        assert log_e(wins, losses) == pytest.approx(direct + math.log(betaincc(wins + 1, losses + 1, 0.5)), abs=1e-8)


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (0, 1), (3, 1), (8, 20), (60, 60), (600, 500), (0, 90)])
def test_the_evidence_of_many_pairs_is_the_same_evidence(wins: int, losses: int) -> None:
    assert log_e_of_many(wins, losses) == pytest.approx(log_e(wins, losses), abs=1e-9)


BETS = [(bet + 0.5) / 64 for bet in range(64)]


def mean_of(logs: list[float]) -> float:
    """The logarithm of the mean wealth, from the logarithm of the wealth of every bet."""
    top = max(logs)
    return top + math.log(math.fsum(math.exp(one - top) for one in logs) / len(logs))


@given(small, small, small, st.floats(-0.9, 0.9))
def test_evidence_on_the_difference_is_the_mean_wealth_of_its_bets(
    wins: int, losses: int, ties: int, bound: float
) -> None:
    growth = [[math.log(1 + bet * (x - bound) / (1 + bound)) for x in (1, -1, 0)] for bet in BETS]
    logs = [wins * win + losses * loss + ties * tie for win, loss, tie in growth]
    assert log_e_above(wins, losses, ties, bound) == pytest.approx(mean_of(logs), abs=1e-8)


@given(small, small, st.floats(0.01, 0.9))
def test_evidence_on_a_rate_is_the_mean_likelihood_ratio_of_the_rates_above(
    events: int, others: int, ceiling: float
) -> None:
    rates = [ceiling ** (1 - bet) for bet in BETS]
    logs = [events * math.log(one / ceiling) + others * math.log((1 - one) / (1 - ceiling)) for one in rates]
    assert log_e_rate_above(events, events + others, ceiling) == pytest.approx(mean_of(logs), abs=1e-8)


def test_without_losses_no_difference_is_excluded_from_above() -> None:
    assert difference(0, 0, 0) == (-1.0, 1.0)
    assert difference(0, 300, 0)[0] == -1.0
    assert difference(300, 0, 0)[1] == 1.0


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60), st.floats(1, 9))
def test_further_pairs_are_the_fewest_that_bring_the_evidence(wins: int, losses: int, ties: int, need: float) -> None:
    pairs = wins + losses + ties
    more = pairs_until(wins, losses, pairs, need)

    def evidence(further: int) -> float:
        scale = 1 + further / pairs
        return log_e(round(wins * scale), round(losses * scale))

    if more == NO_END:
        assert wins <= losses or evidence(25 * pairs) < need
    else:
        assert wins > losses
        assert evidence(more) >= need
        assert more == 1 or evidence(more - 1) < need


@given(small, small)
def test_e_is_a_martingale_at_a_fair_coin(wins: int, losses: int) -> None:
    after = (math.exp(log_e(wins + 1, losses)) + math.exp(log_e(wins, losses + 1))) / 2
    assert after == pytest.approx(math.exp(log_e(wins, losses)), rel=1e-7)


@given(small, small, st.floats(0, 0.5))
def test_e_is_a_supermartingale_when_losses_are_likelier(wins: int, losses: int, p: float) -> None:
    after = p * math.exp(log_e(wins + 1, losses)) + (1 - p) * math.exp(log_e(wins, losses + 1))
    assert after <= math.exp(log_e(wins, losses)) * (1 + 1e-7)


@given(small, small)
def test_a_win_raises_the_evidence_and_a_loss_lowers_it(wins: int, losses: int) -> None:
    assert log_e(wins + 1, losses) > log_e(wins, losses) > log_e(wins, losses + 1)


@given(small, small, small, st.floats(-0.9, 0.9))
def test_evidence_on_the_difference_is_a_supermartingale(wins: int, losses: int, ties: int, bound: float) -> None:
    now = log_e_above(wins, losses, ties, bound)
    win = math.exp(log_e_above(wins + 1, losses, ties, bound) - now)
    loss = math.exp(log_e_above(wins, losses + 1, ties, bound) - now)
    tie = math.exp(log_e_above(wins, losses, ties + 1, bound) - now)
    # x in {-1, 0, 1} with mean `bound`: the two extreme ways to have it
    assert win * (1 + bound) / 2 + loss * (1 - bound) / 2 == pytest.approx(1, rel=1e-6)
    toward = win if bound > 0 else loss
    assert abs(bound) * toward + (1 - abs(bound)) * tie == pytest.approx(1, rel=1e-6)


@given(small, small, small, st.floats(-0.8, 0.7))
def test_evidence_on_the_difference_falls_as_the_bound_rises(wins: int, losses: int, ties: int, bound: float) -> None:
    assert log_e_above(wins, losses, ties, bound) >= log_e_above(wins, losses, ties, bound + 0.1) - 1e-9


@given(small, small, small)
def test_the_difference_mirrors_and_holds_what_was_seen(wins: int, losses: int, ties: int) -> None:
    low, high = difference(wins, losses, ties)
    mirror_low, mirror_high = difference(losses, wins, ties)
    assert (low, high) == pytest.approx((-mirror_high, -mirror_low), abs=1e-9)
    seen = (wins - losses) / max(1, wins + losses + ties)
    assert -1 <= low <= seen <= high <= 1


def test_the_difference_rarely_ever_leaves_the_truth() -> None:
    lost = 0
    for seed in range(60):
        draw, wins, losses, outside = random.Random(seed), 0, 0, False
        for i in range(1, 101):
            champion, candidate = draw.random() < 0.5, draw.random() < 0.7
            wins, losses = wins + (candidate > champion), losses + (champion > candidate)
            if i % 20 == 0:
                low, high = difference(wins, losses, i - wins - losses)
                outside |= not low <= 0.2 <= high
        lost += outside
    assert lost <= 3 + 3 * 1.7


def test_the_pairs_that_are_missing_bring_the_evidence() -> None:
    more = pairs_until(20, 8, pairs=100, need=3.0)
    scale = 1 + more / 100
    assert log_e(round(20 * scale), round(8 * scale)) >= 3.0 > log_e(20, 8)
    assert pairs_until(5, 5, pairs=100, need=3.0) > 100_000


def test_evidence_that_just_reaches_what_is_needed_is_enough() -> None:
    need = log_e_of_many(40, 16)
    more = pairs_until(20, 8, pairs=100, need=need)
    assert log_e_of_many(round(20 * (1 + more / 100)), round(8 * (1 + more / 100))) == need


def test_a_decision_thousands_of_pairs_away_is_estimated() -> None:
    more = pairs_until(30, 24, pairs=100, need=9.0)
    assert 1000 < more < 5000
    assert pairs_until(30, 29, pairs=100, need=9.0) == NO_END, "a decision out of sight is not"
