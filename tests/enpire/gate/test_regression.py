"""A regression of a deployed version is found, also a late one, and a version that is no worse is left alone."""

from __future__ import annotations

import math
import random

import pytest

from enpire.gate.intervals import lower_bound
from enpire.gate.regression import RegressionWatch


def found_after(watch: RegressionWatch, rates: list[float], seed: int) -> int:
    """Number of trials until the regression is found; 0 if it is not."""
    draw = random.Random(seed)
    for n, rate in enumerate(rates, start=1):
        watch.add(draw.random() < rate)
        if watch.found:
            return n
    return 0


def test_a_fall_from_97_to_85_percent_is_found_within_150_trials() -> None:
    found = [found_after(RegressionWatch.after(582, 600), [0.85] * 150, seed) for seed in range(50)]
    assert sum(1 for n in found if n) >= 45


@pytest.mark.parametrize(("known", "least", "most"), [(600, 30, 45), (300, 15, 35), (150, 4, 20), (0, 0, 0)])
def test_a_fall_from_97_to_92_percent_is_found_only_against_a_predecessor_that_is_known_well(
    known: int, least: int, most: int
) -> None:
    """docs/gate.md has the measured shares: 70 % after 600 trials of the predecessor, and 0 % without any."""
    successes = round(0.97 * known)
    found = [found_after(RegressionWatch.after(successes, known), [0.92] * 600, seed) for seed in range(50)]
    assert least <= sum(1 for n in found if n) <= most


def test_a_fall_that_begins_late_is_found() -> None:
    found = [found_after(RegressionWatch.after(582, 600), [0.97] * 500 + [0.8] * 200, seed) for seed in range(30)]
    assert sum(1 for n in found if n > 500) >= 27


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.97])
def test_a_version_at_the_bound_itself_is_rarely_found(rate: float) -> None:
    """At the lower bound of the predecessor's rate the bet is fair: the probability is at most 2.5 %."""
    bound = lower_bound(round(rate * 600), 600, 0.975)
    found = [found_after(RegressionWatch.after(round(rate * 600), 600), [bound] * 600, seed) for seed in range(200)]
    assert sum(1 for n in found if n) <= 0.025 * 200 + 3 * math.sqrt(200 * 0.025 * 0.975)


def test_the_evidence_is_the_wealth_of_its_definition() -> None:
    watch, draw = RegressionWatch.after(90, 100), random.Random(1)
    results = [draw.random() < 0.8 for _ in range(60)]
    for success in results:
        watch.add(success)
    rate = lower_bound(90, 100, 0.975)
    expected = 1 - 1 / 2 - 1 / 6 - 1 / 12
    for share, begin in ((1 / 2, 0), (1 / 6, 25), (1 / 12, 50)):
        for times in (1.25, 1.6, 2.2, 4.0):
            failure = min(0.999, (1 - rate) * times)
            odds = [(1 - failure) / rate if success else failure / (1 - rate) for success in results[begin:]]
            expected += share * math.prod(odds) / 4
    assert watch.log_e == pytest.approx(math.log(expected))


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (0, 50)])
def test_without_a_rate_to_compare_with_nothing_is_found(successes: int, n: int) -> None:
    assert found_after(RegressionWatch.after(successes, n), [0.0] * 500, 1) == 0


def test_what_was_found_stays_found() -> None:
    watch = RegressionWatch.after(594, 600)
    for _ in range(30):
        watch.add(False)
    for _ in range(2000):
        watch.add(True)
    assert watch.found
