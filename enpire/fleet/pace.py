"""The rate of a station: as fast as it can, or the task's rate on a monotonic clock."""

from __future__ import annotations

import time


class Pace:
    """Keeps periods apart. With `period_s` 0 nothing waits (a simulation in its own time)."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._next_s = time.monotonic()
        self.late = 0
        """Periods that began more than one period late."""

    def spare_s(self) -> float:
        """Seconds that may be spent on something else before the next period."""
        return max(0.0, self._next_s - time.monotonic() - 0.001) if self._period_s else 0.0

    def keep(self, *, resting: bool) -> None:
        """Wait for the next period; a late one is counted, never made up for by hurrying.

        Args:
            resting: nothing moved in the period before, so there is no rate to keep yet.
        """
        if not self._period_s:
            return
        now = time.monotonic()
        if resting:
            self._next_s = now
        elif now < self._next_s:
            time.sleep(self._next_s - now)
        elif now - self._next_s > self._period_s:
            self.late += 1
            self._next_s = now
        self._next_s += self._period_s
