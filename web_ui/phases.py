"""How long stations usually are in each phase, so that a tile can mark a phase that takes too long."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping

import numpy as np

HOUR_MS = 3_600_000
STAYS = 5000
"""Most phases of a station that its timeline keeps."""
KEPT = 500
"""Times kept for each phase, the newest."""
ENOUGH = 40
"""Times measured before percentiles are given; the 99th of fewer would be their maximum."""
UPDATE_EVERY_S = 5.0
"""Seconds between updates of the percentiles."""


class PhaseClocks:
    """Follows the phases of all stations. Not thread-safe."""

    def __init__(self, update_every_s: float = UPDATE_EVERY_S) -> None:
        self._update_every_s = update_every_s
        self._now: dict[str, tuple[str, float, int]] = {}
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._stays: defaultdict[str, deque[tuple[int, str]]] = defaultdict(lambda: deque(maxlen=STAYS))
        self._percentiles: dict[str, tuple[float, float]] = {}
        self._updated_s = 0.0

    def since_ms(self, station: str, phase: str) -> int:
        """Record the phase of a station; returns the wall-clock time at which it was first seen, in milliseconds."""
        before = self._now.get(station)
        if before is not None and before[0] == phase:
            return before[2]
        now_s, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        if before is not None:
            self._times[before[0]].append(now_s - before[1])
        self._now[station] = (phase, now_s, now_ms)
        self._stays[station].append((now_ms, phase))
        return now_ms

    def stays(self, station: str) -> list[tuple[int, str]]:
        """The phases of the last hour: (wall-clock time of their beginning in milliseconds, phase), oldest first."""
        first_ms = time.time_ns() // 1_000_000 - HOUR_MS
        stays = list(self._stays.get(station, ()))
        return [stay for index, stay in enumerate(stays) if index + 1 == len(stays) or stays[index + 1][0] > first_ms]

    def usual_s(self) -> Mapping[str, tuple[float, float]]:
        """phase -> 95th and 99th percentile of the time in it, in seconds, where enough were measured."""
        if time.monotonic() > self._updated_s + self._update_every_s:
            self._updated_s = time.monotonic()
            for phase, times in self._times.items():
                if len(times) >= ENOUGH:
                    slow, stuck = np.percentile(np.array(times), [95, 99])
                    self._percentiles[phase] = (round(float(slow), 2), round(float(stuck), 2))
        return dict(self._percentiles)
