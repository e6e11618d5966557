"""The rate of a station: as fast as possible, or the task's rate on a monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Keeps the period between commands. With `period_s` 0 it never waits, for a fast simulation."""

    def __init__(self, period_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._period_s, self._clock = period_s, clock
        self._next_s = clock()
        self.late = 0
        """Periods that began more than one period late."""

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
        now = self._clock()
        if resting:
            self._next_s = now
        elif now < self._next_s:
            time.sleep(self._next_s - now)
        elif now - self._next_s > self._period_s:
            self.late += 1
            self._next_s = now
        self._next_s += self._period_s
