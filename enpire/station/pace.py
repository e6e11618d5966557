"""The rate of a station: as fast as possible, or the task's rate on a monotonic clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

MEASURED = 100
"""Newest periods of which the rate and the jitter are measured."""


class Pace:
    """Keeps the period between commands. With `period_s` 0 it never waits, for a fast simulation."""

    def __init__(self, period_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._period_s, self._clock = period_s, clock
        self._next_s = clock()
        self.late = 0
        """Periods that began more than one period late."""
        self._lengths_s: deque[float] = deque(maxlen=MEASURED)
        self._began_s: float | None = None

    def spare_s(self) -> float:
        """Seconds left for other work before the next period."""
        return max(0.0, self._next_s - self._clock() - 0.001) if self._period_s else 0.0

    def keep(self, *, resting: bool) -> None:
        """Wait for the next period. A late period is counted; later periods are not shortened to catch up.

        Args:
            resting: nothing moved in the period before, so there is no rate to keep yet.
        """
        if not self._period_s:
            return
        self._keep(resting=resting)
        began_s = self._clock()
        if self._began_s is not None and not resting:
            self._lengths_s.append(began_s - self._began_s)
        self._began_s = began_s

    def measured(self) -> tuple[float, float]:
        """(periods per second, 95th percentile of how far a period differs from its length in ms), of the newest ones.

        (0, 0) before there are enough of them, and without a rate.
        """
        found = list(self._lengths_s)
        if len(found) < MEASURED // 4:
            return 0.0, 0.0
        off = sorted(abs(length - self._period_s) for length in found)
        return len(found) / max(1e-9, sum(found)), 1000 * off[int(0.95 * (len(off) - 1))]

    def _keep(self, *, resting: bool) -> None:
        now = self._clock()
        if resting:
            self._next_s = now
        elif now < self._next_s:
            time.sleep(self._next_s - now)
        elif now - self._next_s > self._period_s:
            self.late += 1
            self._next_s = now
        self._next_s += self._period_s
