"""Intervals against published figures, and as theorems."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.errors import UsageError
from enpire.gate.intervals import (
    at_least,
    crossing,
    lower_bound,
    newcombe,
    predicted,
    sequence,
    successes_for_bound,
    upper_bound,
    wilson,
)

counts = st.integers(0, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("successes", "n", "bound"),
    [(50, 50, 0.942), (200, 200, 0.985), (300, 300, 0.990), (400, 400, 0.9925), (398, 400, 0.984), (396, 400, 0.977)],
)
def test_one_sided_bounds_of_a_confirmation(successes: int, n: int, bound: float) -> None:
    assert lower_bound(successes, n) == pytest.approx(bound, abs=6e-4)


def test_wilson_against_the_textbook() -> None:
    interval = wilson(8, 10)
    assert (interval.low, interval.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)


@given(counts, st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_fixed_intervals_are_those_of_scipy(count: tuple[int, int], confidence: float) -> None:
    from scipy.stats import beta, binomtest

    successes, n = count
    if not n:
        return
    two_sided = binomtest(successes, n).proportion_ci(confidence, method="wilson")
    assert (wilson(successes, n, confidence).low, wilson(successes, n, confidence).high) == pytest.approx(
        (two_sided.low, two_sided.high), abs=1e-9
    )
    lower = beta.ppf(1 - confidence, successes, n - successes + 1) if successes else 0.0
    upper = beta.ppf(confidence, successes + 1, n - successes) if successes < n else 1.0
    assert lower_bound(successes, n, confidence) == pytest.approx(lower, abs=1e-9)
    assert upper_bound(successes, n, confidence) == pytest.approx(upper, abs=1e-9)


@given(counts, st.floats(0, 1), st.integers(0, 60))
def test_tails_are_those_of_scipy(count: tuple[int, int], rate: float, trials: int) -> None:
    from scipy.stats import betabinom, binom

    successes, n = count
    assert at_least(successes, n, rate) == pytest.approx(binom.sf(successes - 1, n, rate), abs=1e-8)
    least = math.ceil(trials * rate - 1e-9)
    expected = betabinom.sf(least - 1, trials, successes + 1, n - successes + 1)
    assert predicted(successes, n, trials, rate) == pytest.approx(expected, abs=1e-8)


def test_a_certain_event_happens_in_every_trial_and_an_impossible_one_in_none() -> None:
    assert (at_least(2, 3, 1.0), at_least(1, 3, 0.0), at_least(0, 3, 0.0)) == (1.0, 0.0, 1.0)


@given(st.integers(0, 80).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.5, 0.95]))
def test_the_ends_of_a_sequence_have_the_likelihood_of_the_definition(
    count: tuple[int, int], confidence: float
) -> None:
    successes, n = count
    interval, failures = sequence(successes, n, confidence), n - successes
    mean = math.lgamma(successes + 1) + math.lgamma(failures + 1) - math.lgamma(n + 2)
    assert (interval.successes, interval.n) == count
    for rate, ends_there in ((interval.low, successes > 0), (interval.high, failures > 0)):
        if ends_there:
            found = (successes and successes * math.log(rate)) + (failures and failures * math.log1p(-rate))
            assert found == pytest.approx(math.log(1 - confidence) + mean, abs=1e-5)
    assert successes or interval.low == 0
    assert failures or interval.high == 1


def test_the_zero_of_a_function_is_found_to_the_twelfth_digit() -> None:
    for zero in (0.0, 0.1, 0.5, 0.7314, 1.0):
        assert abs(crossing(lambda x, zero=zero: x - zero, 0.0, 1.0) - zero) <= 1e-12
    assert crossing(lambda x: x - 2.5, 2.0, 3.0) == pytest.approx(2.5, abs=1e-12)


def test_without_trials_everything_is_possible() -> None:
    for interval in (wilson(0, 0), sequence(0, 0)):
        assert (interval.successes, interval.n, interval.low, interval.high) == (0, 0, 0.0, 1.0)
    assert (lower_bound(0, 0), upper_bound(0, 0)) == (0.0, 1.0)


@pytest.mark.parametrize("n", range(1, 40))
def test_what_never_happened_may_never_happen_and_what_always_did_may_always(n: int) -> None:
    assert wilson(0, n).low == 0.0
    assert wilson(n, n).high == 1.0


def test_the_upper_bound_is_that_of_clopper_and_pearson() -> None:
    assert upper_bound(2, 10) == pytest.approx(0.5069, abs=1e-4)
    assert upper_bound(0, 100) == pytest.approx(1 - 0.05**0.01)  # nearly 3 / 100


@pytest.mark.parametrize(("n", "bound"), [(0, 0.5), (1, 0.04), (1, 0.06), (20, 0.0), (20, 0.7), (20, 0.99), (60, 0.95)])
def test_the_fewest_successes_that_reach_a_bound(n: int, bound: float) -> None:
    reach = [successes for successes in range(n + 1) if lower_bound(successes, n) >= bound]
    assert successes_for_bound(n, bound) == (reach[0] if reach else n + 1)


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((5, 56), (0, 29), -0.0381, 0.1926),
    ],
)  # Newcombe 1998, table II, method 10
def test_the_interval_of_a_difference_is_newcombes(
    one: tuple[int, int], other: tuple[int, int], low: float, high: float
) -> None:
    assert newcombe(wilson(*one), wilson(*other)) == pytest.approx((low, high), abs=1e-4)


def test_the_interval_covers_the_difference() -> None:
    draw = random.Random(4)
    hits = 0
    for _ in range(2000):
        one, other = (sum(draw.random() < rate for _ in range(60)) for rate in (0.9, 0.4))
        low, high = newcombe(wilson(one, 60), wilson(other, 60))
        hits += low <= 0.5 <= high
    assert 0.935 <= hits / 2000 <= 0.975


@given(counts)
def test_intervals_hold_the_rate_and_mirror(count: tuple[int, int]) -> None:
    successes, n = count
    for interval_of in (wilson, sequence):
        interval, mirror = interval_of(successes, n), interval_of(n - successes, n)
        assert 0 <= interval.low <= interval.high <= 1
        assert interval.low == pytest.approx(1 - mirror.high, abs=1e-9)
        if n:
            assert interval.low <= interval.rate <= interval.high


@given(counts)
def test_watching_costs_width(count: tuple[int, int]) -> None:
    successes, n = count
    fixed, watched = wilson(successes, n), sequence(successes, n)
    assert watched.high - watched.low >= fixed.high - fixed.low - 1e-9


@given(counts)
def test_the_exact_bound_is_where_the_tail_is_alpha(count: tuple[int, int]) -> None:
    successes, n = count
    bound = lower_bound(successes, n)
    if successes:
        assert at_least(successes, n, bound) == pytest.approx(0.05, abs=1e-6)
    else:
        assert bound == 0


def test_a_watched_interval_rarely_ever_loses_the_truth() -> None:
    draw = random.Random(7)
    lost = 0
    for _ in range(200):
        successes = 0
        for n in range(1, 121):
            successes += draw.random() < 0.8
            if n % 8 == 0:
                interval = sequence(successes, n)
                if not interval.low <= 0.8 <= interval.high:
                    lost += 1
                    break
    assert lost <= 10 + 3 * 3.1  # expected at most 5 % of 200, three standard deviations


@pytest.mark.parametrize(("successes", "n", "confidence"), [(3, 2, 0.95), (-1, 2, 0.95), (1, 2, 1.0), (1, 2, 0.0)])
def test_nonsense_is_refused(successes: int, n: int, confidence: float) -> None:
    for of in (wilson, sequence, lower_bound):
        with pytest.raises(UsageError, match="not possible"):
            of(successes, n, confidence)


@pytest.mark.parametrize("successes", [-1, 3])
def test_nothing_is_predicted_from_nonsense(successes: int) -> None:
    with pytest.raises(UsageError, match="not possible"):
        predicted(successes, 2, 1, 0.5)


def test_what_is_predicted_after_some_trials() -> None:
    assert predicted(0, 0, 3, 1.0) == pytest.approx(1 / 4)  # a uniform rate: each count is as likely
    assert predicted(9, 10, 1, 1.0) == pytest.approx(10 / 12)  # Laplace's rule of succession
    assert predicted(5, 10, 20, 0.0) == pytest.approx(1.0)
    random = np.random.default_rng(3)
    rates = random.beta(98 + 1, 2 + 1, 200_000)
    seen = (random.binomial(400, rates) >= 388).mean()
    assert predicted(98, 100, 400, 0.97) == pytest.approx(seen, abs=0.01)
    assert predicted(1711, 1740, 400, 0.97) > 0.95 > predicted(98, 100, 400, 0.97)
