"""The robot-time stack: every moment of every lane is in exactly one phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from enpire.types import PHASES, Phase


class RobotTime:
    """Wall seconds by phase, mean over the lanes of a station; the values add up to its age."""

    def __init__(self, lanes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._phase: list[Phase] = ["wait-order"] * lanes
        self._since_s = [clock()] * lanes
        self._spent_s: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)

    def switch(self, lanes: Iterable[int], phase: Phase) -> None:
        """These lanes are in another phase from now on."""
        now = self._clock()
        for lane in lanes:
            if self._phase[lane] != phase:
                self._spent_s[self._phase[lane]] += now - self._since_s[lane]
                self._phase[lane], self._since_s[lane] = phase, now

    def phase(self, lane: int) -> Phase:
        """The phase of a lane."""
        return self._phase[lane]

    def most(self) -> Phase:
        """The phase that most lanes are in."""
        return max(PHASES, key=self._phase.count)

    def seconds(self) -> Mapping[Phase, float]:
        """Seconds by phase up to now, mean over the lanes."""
        now = self._clock()
        total = dict(self._spent_s)
        for phase, since in zip(self._phase, self._since_s, strict=True):
            total[phase] += now - since
        return {phase: seconds / len(self._phase) for phase, seconds in total.items() if seconds > 0.0}
