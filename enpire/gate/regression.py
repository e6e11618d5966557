"""Whether a deployed version performs worse than earlier ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import NormalDist

from enpire.gate.intervals import lower_bound, wilson

CHANGE_DETECTOR = "the change detector"
"""Recorded as the one who paused a campaign in which no earlier version can replace a champion that fell."""
FALSE_ALARM = 0.05
"""Largest probability that a version which is no worse than what it is compared with is ever found to be worse."""
_FAILURES = (1.25, 1.6, 2.2, 4.0)
"""Alternatives: the failure rate is this many times the one before."""
_BLOCK = 25
"""Trials between two possible beginnings of a regression."""


@dataclass(slots=True)
class RegressionWatch:
    """Evidence that a deployed version succeeds less often than the version before it; read after every trial.

    A version that a rollback restored is compared with its own rate before. The exact lower bound of the rate is wrong
    with probability FALSE_ALARM / 2. Against it a gambler bets on more failures, from trial 1, 26, 51 and so on, with
    the share 1 / (k (k + 1)) of the wealth for the k-th beginning, so a late regression is found as well. The wealth
    reaches 2 / FALSE_ALARM with probability at most FALSE_ALARM / 2, however long the version runs (Ville's
    inequality). Source of the mixture over beginnings: Shin, Ramdas and Rinaldo 2024, "E-detectors".
    """

    rate: float
    """Lower bound of the success rate that the version is compared with, in [0, 1); at 0 nothing can be found."""
    trials: int = 0
    successes: int = 0
    wealth: list[float] = field(default_factory=lambda: [0.0] * len(_FAILURES))
    saved: float = 1.0
    """Share of the wealth for later beginnings."""
    found: bool = False

    @classmethod
    def after(cls, successes: int, n: int) -> RegressionWatch:
        """The watch of a version that is compared with `successes` in `n` trials of its predecessor, or its own."""
        return cls(rate=lower_bound(successes, n, 1 - FALSE_ALARM / 2) if n else 0.0)

    def add(self, success: bool) -> None:
        """Read one more trial of the version."""
        if self.trials % _BLOCK == 0:
            k = self.trials // _BLOCK + 1
            share = 1 / (k * (k + 1))
            self.saved -= share
            self.wealth = [one + share for one in self.wealth]
        self.trials += 1
        self.successes += success
        if self.rate > 0:
            self.wealth = [one * self._odds(times, success) for one, times in zip(self.wealth, _FAILURES, strict=True)]
        self.found = self.found or self.log_e >= math.log(2 / FALSE_ALARM)

    @property
    def log_e(self) -> float:
        """Log evidence that the version succeeds less often."""
        return math.log(max(math.fsum(self.wealth) / len(self.wealth) + self.saved, 1e-300))

    def _odds(self, times: float, success: bool) -> float:
        failure = min(0.999, (1 - self.rate) * times)
        return (1 - failure) / self.rate if success else failure / (1 - self.rate)


_CLEARLY = 2.0
"""Standard errors by which an earlier champion must be worse than the present one to count no longer."""


def lost_success(now: tuple[int, int], earlier: Iterable[tuple[int, int]], version: int = 4) -> float:
    """Success rate that the champion has lost against the best earlier champion, at least 0.

    Each faster champion may succeed a little less often (the gate's margin). This is subtracted from the next gate's
    margin, so that many such steps lose no more than one.

    From version 3 of the gate's rule on, it is the largest of r_j - r - c_J s_j over the J earlier champions: the
    measured rates of the earlier one and of the champion, and s_j, the standard error of their difference. The largest
    of several measured rates is too high on average. So c_J is the median of the largest of J standard normal numbers,
    2^(-1/J) = Phi(c_J): with one earlier champion it is 0, with two 0.54, with five 1.13. If no earlier champion was
    better, the result is above 0 with a probability of about 1/2 at most. An earlier champion that is clearly worse, by
    more than two standard errors, is none of the J.

    In version 2, the best earlier champion is the one with the highest lower Wilson bound, and that bound stands for
    its rate. So a loss smaller than the width of its interval was not subtracted. In version 1 nothing was.

    Args:
        now: (successes, trials) of the champion on hidden starts.
        earlier: the same of every earlier champion.
        version: of the gate's rule.
    """
    counts = [count for count in earlier if count[1]]
    if version < 2 or not now[1] or not counts:
        return 0.0
    rate = now[0] / now[1]
    if version < 3:
        return max(0.0, *(wilson(*count).low - rate for count in counts))
    losses = [(count[0] / count[1] - rate, _standard_error(now, count)) for count in counts]
    rivals = [(loss, error) for loss, error in losses if loss > -_CLEARLY * error]
    if not rivals:
        return 0.0
    allowance = NormalDist().inv_cdf(0.5 ** (1 / len(rivals)))
    return max(0.0, *(loss - allowance * error for loss, error in rivals))


def _standard_error(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Standard error of the difference of two measured rates, at their common rate (uniform prior), above 0."""
    rate = (one[0] + other[0] + 1) / (one[1] + other[1] + 2)
    return math.sqrt(rate * (1 - rate) * (1 / one[1] + 1 / other[1]))
