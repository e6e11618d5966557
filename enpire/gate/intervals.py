"""Intervals for proportions: for a number of trials fixed in advance, and for one that is read while it grows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

from enpire.errors import UsageError
from enpire.types import Interval


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Two-sided Wilson score interval of a proportion, for `n` fixed in advance; [0, 1] when n is 0.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    _check(successes, n, confidence)
    if n == 0:
        return Interval(successes=0, n=0, low=0.0, high=1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / n
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return Interval(successes=successes, n=n, low=low, high=high)


def newcombe(one: Interval, other: Interval) -> tuple[float, float]:
    """(low, high) of the difference of two independent proportions, `one` minus `other`, from their Wilson intervals.

    Source: Newcombe 1998, "Interval estimation for the difference between independent proportions", method 10.
    """
    delta = one.rate - other.rate
    below = math.hypot(one.rate - one.low, other.high - other.rate)
    above = math.hypot(one.high - one.rate, other.rate - other.low)
    return max(-1.0, delta - below), min(1.0, delta + above)


def lower_bound(successes: int, n: int, confidence: float = 0.95) -> float:
    """Exact one-sided lower bound of a proportion, for `n` fixed in advance.

    The rate at which at least `successes` of `n` has probability 1 - confidence (Clopper and Pearson 1934).
    """
    _check(successes, n, confidence)
    if successes == 0:
        return 0.0
    alpha = 1 - confidence
    if successes == n:
        return alpha ** (1 / n)
    return crossing(lambda rate: at_least(successes, n, rate) - alpha, 0.0, successes / n)


@lru_cache(maxsize=64)
def successes_for_bound(n: int, bound: float, confidence: float = 0.95) -> int:
    """Least number of successes in `n` trials whose exact lower bound reaches `bound`; n + 1 if none does."""
    return bisect_left(range(n + 1), bound, key=lambda successes: lower_bound(successes, n, confidence))


def upper_bound(successes: int, n: int, confidence: float = 0.95) -> float:
    """Exact one-sided upper bound of a proportion, `n` fixed in advance; 1 when n is 0 (Clopper and Pearson 1934)."""
    return 1.0 - lower_bound(n - successes, n, confidence)


def sequence(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """A confidence sequence: an interval that may be read after every trial and covers the true rate at all times.

    Rates whose likelihood is at least (1 - confidence) times the likelihood averaged over all rates (uniform prior):
    by Ville's inequality the true rate is ever outside with probability at most 1 - confidence. Source: Robbins 1970,
    "Statistical methods related to the law of the iterated logarithm".
    """
    _check(successes, n, confidence)
    failures = n - successes
    floor = math.log(1 - confidence) + _log_beta(successes + 1, failures + 1)

    def excess(rate: float) -> float:
        return _log_likelihood(successes, failures, rate) - floor

    middle = successes / n if n else 0.5
    low = crossing(excess, 0.0, middle) if successes else 0.0
    high = crossing(lambda rate: -excess(rate), middle, 1.0) if failures else 1.0
    return Interval(successes=successes, n=n, low=low, high=high)


def at_least(successes: int, n: int, rate: float) -> float:
    """Probability of at least `successes` successes in `n` independent trials at `rate`."""
    terms = range(successes, n + 1)
    return math.fsum(math.exp(log_choose(n, k) + _log_likelihood(k, n - k, rate)) for k in terms)


@lru_cache(maxsize=64)
def predicted(successes: int, n: int, trials: int, rate: float) -> float:
    """Probability that at least the share `rate` of `trials` further trials succeeds, after `successes` of `n` did.

    Beta-binomial with a uniform prior over the true rate (Laplace 1774, rule of succession, for many trials).
    """
    _check(successes, n, 0.5)
    before = _log_beta(successes + 1, n - successes + 1)
    terms = (
        math.exp(log_choose(trials, k) + _log_beta(successes + k + 1, n - successes + trials - k + 1) - before)
        for k in range(math.ceil(trials * rate - 1e-9), trials + 1)
    )
    return math.fsum(terms)


def log_choose(n: int, k: int) -> float:
    """Natural logarithm of the number of ways to choose k of n."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def crossing(rising: Callable[[float], float], low: float, high: float) -> float:
    """The zero of an increasing function in [low, high], by bisection to 1e-12."""
    while high - low > 1e-12:
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _log_likelihood(successes: int, failures: int, rate: float) -> float:
    if (successes and rate <= 0) or (failures and rate >= 1):
        return -math.inf
    return (successes * math.log(rate) if successes else 0.0) + (failures * math.log1p(-rate) if failures else 0.0)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _check(successes: int, n: int, confidence: float) -> None:
    if not 0 <= successes <= n:
        raise UsageError(f"{successes} successes of {n} trials are not possible: give 0 <= successes <= trials.")
    if not 0 < confidence < 1:
        raise UsageError(f"A confidence of {confidence} is not possible: give a number between 0 and 1, such as 0.95.")
