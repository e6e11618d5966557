"""The median of the commands of successes: its exact interval, and the prediction for a confirmation."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from enpire.gate.median import fast_enough, median_commands, predicted_fast


def test_the_median_of_no_success_is_unknown() -> None:
    found = median_commands([])
    assert (found.n, found.median, found.low, found.high) == (0, None, None, None)
    assert not fast_enough(found.median, 100)
    assert fast_enough(found.median, 0), "without a limit there is nothing to reach"


def test_the_median_is_the_middle_or_the_mean_of_the_middle_two() -> None:
    assert median_commands([9, 1, 5]).median == 5
    assert median_commands([1, 2, 7, 9]).median == 4.5


def test_an_interval_needs_six_successes() -> None:
    five = median_commands(range(5))
    assert (five.low, five.high) == (None, None)
    six = median_commands([10, 20, 30, 40, 50, 60])
    assert (six.low, six.high) == (10, 60)


@pytest.mark.parametrize(
    ("n", "d"), [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (25, 8), (50, 18), (100, 40)]
)  # tables of the sign test at 5 %, two-sided: the largest d with 2 P(X < d) <= 0.05
def test_the_interval_lies_between_the_ranks_of_the_sign_test(n: int, d: int) -> None:
    found = median_commands(list(range(1, n + 1)))
    assert (found.low, found.high) == (d, n + 1 - d)


@pytest.mark.parametrize("n", [6, 7, 10, 11])
def test_the_interval_covers_exactly_as_often_as_it_says(n: int) -> None:
    """All 2^n ways in which n draws fall below (1) or above (3) a median of 2, which is itself never drawn."""
    covered = sum(
        (found := median_commands(draws)).low is not None and found.low <= 2 <= (found.high or 0)
        for draws in itertools.product((1, 3), repeat=n)
    )
    assert covered / 2**n >= 0.95
    d = next(d for d in range(n, 0, -1) if 2 * sum(math.comb(n, k) for k in range(d)) <= 0.05 * 2**n)
    assert covered == 2**n - 2 * sum(math.comb(n, k) for k in range(d))


def test_the_interval_covers_for_a_skewed_distribution() -> None:
    draw = random.Random(5)
    true = round(100 * math.log(2))
    hits = 0
    for _ in range(1000):
        found = median_commands([round(draw.expovariate(1 / 100)) for _ in range(41)])
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= true <= found.high
    assert hits >= 940


def test_a_median_is_fast_enough_at_the_limit_itself() -> None:
    assert fast_enough(50.0, 50)
    assert not fast_enough(50.5, 50)


def test_the_prediction_is_sure_without_a_limit_and_low_without_trials() -> None:
    assert predicted_fast([], 0, 400, 0.97) == 1.0
    assert predicted_fast([], 50, 400, 0.97) == pytest.approx(0.5, abs=0.01)


def test_the_prediction_falls_with_the_share_of_slow_successes() -> None:
    chances = [predicted_fast([40] * (60 - slow) + [60] * slow, 50, 400, 0.97) for slow in (0, 20, 30, 40, 60)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.999
    assert chances[1] > 0.95
    assert chances[2] < 0.5
    assert chances[4] < 1e-6


def test_the_prediction_counts_as_a_beta_binomial_of_the_successes_that_must_be_fast() -> None:
    """3 trials must pass with 2 successes, both of which must be fast: an even number takes the safe side."""
    assert predicted_fast([10], 20, 3, 0.6) == pytest.approx((2 / 3) * (3 / 4))
    assert predicted_fast([10], 20, 1, 1.0) == pytest.approx(2 / 3)


def test_a_goal_that_no_number_of_successes_can_reach_still_has_a_prediction() -> None:
    assert 0 <= predicted_fast([10] * 9, 20, 10, 1.1) <= 1
