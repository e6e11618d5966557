"""How long stations usually stay in a phase, so that a tile can say when it is too long."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping

import numpy as np

KEPT = 500
ENOUGH = 40
"""Stays seen before a percentile is told: the 99th of fewer would be their maximum."""
TOLD_EVERY_S = 5.0


class PhaseClocks:
    """Follows the phases of all stations. Belongs to one thread."""

    def __init__(self, told_every_s: float = TOLD_EVERY_S) -> None:
        self._told_every_s = told_every_s
        self._now: dict[str, tuple[str, float, int]] = {}
        self._stays: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._told: dict[str, tuple[float, float]] = {}
        self._told_s = 0.0

    def since_ms(self, station: str, phase: str) -> int:
        """Note what a station does now; the wall-clock millisecond at which this was first seen."""
        before = self._now.get(station)
        if before is not None and before[0] == phase:
            return before[2]
        now_s, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        if before is not None:
            self._stays[before[0]].append(now_s - before[1])
        self._now[station] = (phase, now_s, now_ms)
        return now_ms

    def usual_s(self) -> Mapping[str, tuple[float, float]]:
        """phase -> seconds at the 95th and the 99th percentile of its stays, where enough were seen."""
        if time.monotonic() > self._told_s + self._told_every_s:
            self._told_s = time.monotonic()
            for phase, stays in self._stays.items():
                if len(stays) >= ENOUGH:
                    slow, stuck = np.percentile(np.array(stays), [95, 99])
                    self._told[phase] = (round(float(slow), 2), round(float(stuck), 2))
        return dict(self._told)
