"""Evidence that a candidate is faster: a bet on the mean logarithm of the time ratio, in pairs where both succeed.

The logarithm counts a factor, not a sign: a candidate that is a little faster in most pairs and three times slower in
the others is slower on average. One pair counts as a factor of at most `LARGEST`: a bet needs bounded values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.gate.e_values import log_mean

LARGEST = 8.0
"""Largest factor by which one pair counts as faster or slower."""
_BOUND = math.log(LARGEST)
_STAKES = (np.arange(32) + 0.5) / 32


@dataclass(frozen=True, slots=True)
class SpeedEvidence:
    """The evidence of some pairs in which both sides succeeded; it may be read after every pair.

    Wealth of a gambler who bets that the mean of x = log(champion's ticks / candidate's ticks) exceeds
    log(1 + least_gain): the product of 1 + stake (x - bound) / (log LARGEST + bound), averaged over stakes in (0, 1).
    Source: betting confidence sequences, Waudby-Smith and Ramdas 2023.
    """

    pairs: int = 0
    total: float = 0.0
    """Sum of x, in nats."""
    logs: tuple[float, ...] = (0.0,) * len(_STAKES)
    """Logarithm of the wealth of each stake."""
    squares: float = 0.0
    """Sum of x squared."""

    def add(self, champion_ticks: int, candidate_ticks: int, least_gain: float) -> SpeedEvidence:
        """The evidence with one more pair."""
        ratio = math.log(max(champion_ticks, 1) / max(candidate_ticks, 1))
        found = min(_BOUND, max(-_BOUND, ratio))
        logs = np.asarray(self.logs) + _growth(found, least_gain)
        return SpeedEvidence(self.pairs + 1, self.total + found, tuple(logs.tolist()), self.squares + found**2)

    @property
    def gain(self) -> float:
        """Geometric mean of the time ratios, minus 1: 0.1 when the champion needs 10 % more time. 0 without pairs."""
        return math.expm1(self.total / self.pairs) if self.pairs else 0.0

    def log_e(self) -> float:
        """Log evidence, in nats, that the gain exceeds the least gain."""
        return log_mean(np.asarray(self.logs))

    def log_e_at_best(self, more: int, least_gain: float) -> float:
        """Log evidence after `more` further pairs that all gain as much as a pair can."""
        return log_mean(np.asarray(self.logs) + more * _growth(_BOUND, least_gain))

    def log_e_forecast(self, more: int, least_gain: float) -> float:
        """Log evidence after `more` further pairs with the upper end of the 95 % interval of the mean of x so far."""
        if not self.pairs:
            return self.log_e_at_best(more, least_gain)
        mean = self.total / self.pairs
        error = math.sqrt(max(0.0, self.squares / self.pairs - mean**2) / self.pairs)
        return log_mean(np.asarray(self.logs) + more * _growth(min(_BOUND, mean + 1.96 * error), least_gain))


def _growth(x: float, least_gain: float) -> npt.NDArray[np.float64]:
    bound = math.log1p(least_gain)
    return np.log1p(_STAKES * (x - bound) / (_BOUND + bound))
