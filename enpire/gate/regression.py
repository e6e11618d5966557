"""Whether a deployed version performs worse than the one before it."""

from __future__ import annotations

from enpire.gate.intervals import wilson

MIN_EPISODES = 100
"""Episodes of each of the two versions before a regression can be found."""
CONFIDENCE = 0.999
"""Confidence of the two intervals that must not overlap."""


def regressed(now: tuple[int, int], before: tuple[int, int]) -> bool:
    """Whether the success rate fell: the two Wilson intervals do not overlap.

    Args:
        now: (successes, episodes) of the version that runs.
        before: the same of the version before it.
    """
    if min(now[1], before[1]) < MIN_EPISODES:
        return False
    return wilson(*now, CONFIDENCE).high < wilson(*before, CONFIDENCE).low
