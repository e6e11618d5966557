"""The median number of commands of successes: its exact interval, and the prediction for a confirmation."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from enpire.gate.intervals import at_least, predicted


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianCommands:
    """The median number of commands of some successes, with its interval."""

    n: int
    """Successes."""
    median: float | None
    """Mean of the middle two for an even number; None without successes."""
    low: int | None
    """Bounds of an interval that contains the true median with probability 95 % or more, whatever the distribution;
    None for fewer than six successes, from which no such interval can be made."""
    high: int | None


def median_commands(ticks: Sequence[int], confidence: float = 0.95) -> MedianCommands:
    """The median of the commands of successes, and its exact interval between two of them.

    The interval from the d-th smallest to the d-th largest misses the true median with a probability of at most
    2 P(X < d), where X is binomial with n trials at 1/2; d is the largest with which that is at most 1 - confidence.
    Source: Thompson 1936, "On confidence ranges for the median and other expectation distributions".
    """
    ordered, n = sorted(ticks), len(ticks)
    if not n:
        return MedianCommands(n=0, median=None, low=None, high=None)
    d = bisect_right(range(1, n // 2 + 1), 1 - confidence, key=lambda d: 2 * (1 - at_least(d, n, 0.5)))
    low, high = (ordered[d - 1], ordered[n - d]) if d else (None, None)
    return MedianCommands(n=n, median=statistics.median(ordered), low=low, high=high)


def fast_enough(median: float | None, commands: int) -> bool:
    """Whether a median number of commands is within a goal of `commands`; 0 is no limit."""
    return not commands or (median is not None and median <= commands)


def predicted_fast(ticks: Sequence[int], commands: int, n: int, rate: float) -> float:
    """Probability that the median of a confirmation's successes is at most `commands`; 1 where that is 0 (no limit).

    Beta-binomial prediction for the least number of successes with which the confirmation passes. More than half of
    them must need at most `commands`: for an even number that is one more than the median needs, the safe side.

    Args:
        ticks: commands of earlier successes of the same version.
        commands: largest allowed median.
        n: trials of the confirmation.
        rate: measured success rate at which it passes, in (0, 1].
    """
    if not commands:
        return 1.0
    successes = max(1, math.ceil(n * min(1.0, rate) - 1e-9))
    within = sum(one <= commands for one in ticks)
    return predicted(within, len(ticks), successes, (successes // 2 + 1) / successes)
