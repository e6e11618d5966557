"""What search rollouts show: the scores of versions on common train starts, and the gain of one over another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

Z80 = 1.2816
"""Normal quantile of a two-sided 80 % interval."""
LEAST_PAIRS = 10
"""Common starts below which nothing is known about a gain."""
COMPARED = 16
"""Starts on which two versions must succeed alike, tick for tick, to count as one."""


def score(success: bool, ticks: int, limit_ticks: int) -> float:
    """Score of a rollout in [0, 1]: 0 for a failure, from 1/2 (at the time limit) to 1 (at once) for a success."""
    return 1.0 - 0.5 * min(1.0, ticks / limit_ticks) if success else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Mean difference of two versions' scores on the starts that both acted on, with its 80 % interval."""

    n: int = 0
    mean: float = 0.0
    low: float = -1.0
    high: float = 1.0

    @property
    def promising(self) -> bool:
        """Whether the gain is above half its distance to the lower bound: enough for a branch that ends anyway."""
        return self.mean > 0 and self.low > -self.mean


@dataclass(slots=True)
class Searched:
    """The search rollouts of one version."""

    issued: int = 0
    """Number of starts ordered, in the sequence that all versions share."""
    results: dict[int, tuple[bool, int]] = field(default_factory=dict[int, tuple[bool, int]])
    """Index of the train start -> (success, ticks)."""
    robot_s: float = 0.0

    @property
    def mean_s(self) -> float:
        """Mean robot time of a rollout, in seconds; 0 without a rollout."""
        return self.robot_s / len(self.results) if self.results else 0.0

    def acts_like(self, other: Searched) -> bool:
        """Whether both acted alike on all common starts, and succeeded on at least `COMPARED` of them.

        Two versions that always fail at the time limit may act differently.
        """
        common = self.results.keys() & other.results.keys()
        if len(common) < COMPARED or any(self.results[start] != other.results[start] for start in common):
            return False
        return sum(self.results[start][0] for start in common) >= COMPARED


def gain(version: Searched, champion: Searched, limit_ticks: int) -> Gain:
    """The gain of a version over the champion, on common starts."""
    return _mean_difference(version, champion, lambda success, ticks: score(success, ticks, limit_ticks))


def success_gain(version: Searched, champion: Searched) -> Gain:
    """The same for success alone: the difference of the success rates on common starts."""
    return _mean_difference(version, champion, lambda success, ticks: float(success))


def _mean_difference(version: Searched, champion: Searched, scored: Callable[[bool, int], float]) -> Gain:
    """The mean difference of the scores on common starts.

    Half a squared difference of 1 is added to their sum, so that a few equal results are not taken for certainty.
    """
    common = version.results.keys() & champion.results.keys()
    n = len(common)
    if n < LEAST_PAIRS:
        return Gain(n=n)
    differences = [scored(*version.results[start]) - scored(*champion.results[start]) for start in sorted(common)]
    mean = math.fsum(differences) / n
    variance = (math.fsum((one - mean) ** 2 for one in differences) + 0.5) / n
    half = Z80 * math.sqrt(variance / n)
    return Gain(n=n, mean=mean, low=max(-1.0, mean - half), high=min(1.0, mean + half))
