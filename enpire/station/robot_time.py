"""The robot-time stack: every moment of every lane is in exactly one phase."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

from enpire.types import PHASES, Phase


class RobotTime:
    """Wall seconds by phase, mean over the lanes of a station; the values add up to its age."""

    period_s: float = 0.0
    """Seconds in which a robot executes one command; 0 for a fast simulation, which stands while a policy decides."""

    def __init__(self, lanes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._commanded_s = [-math.inf] * lanes
        """When each lane got its last command; minus infinity before the first of a rollout."""
        self._phase: list[Phase] = ["wait-order"] * lanes
        self._since_s = [clock()] * lanes
        self._spent_s: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)

    def switch(self, lanes: Iterable[int], phase: Phase) -> None:
        """These lanes are in another phase from now on."""
        now = self._clock()
        for lane in lanes:
            self._switch(lane, phase, now)

    def commanded(self, lanes: Iterable[int]) -> None:
        """These lanes got a command now."""
        now = self._clock()
        for lane in lanes:
            self._commanded_s[lane] = now

    def decided(self, lanes: Iterable[int], asked_s: float, ready: Iterable[bool]) -> None:
        """The policies of these rolling lanes were asked at `asked_s` and have answered; `ready`: there is a command.

        A robot still executes its last command for one period. After that it stands and waits for its policy.
        """
        now = self._clock()
        for lane, has_command in zip(lanes, ready, strict=True):
            stands_s = max(asked_s, self._commanded_s[lane] + self.period_s)
            if stands_s < now or not has_command:
                self._switch(lane, "wait-policy", min(now, stands_s))
            if has_command:
                self._switch(lane, "rollout", now)

    def _switch(self, lane: int, phase: Phase, at_s: float) -> None:
        if self._phase[lane] == phase:
            return
        if phase == "reset":
            self._commanded_s[lane] = -math.inf
        at_s = max(at_s, self._since_s[lane])
        self._spent_s[self._phase[lane]] += at_s - self._since_s[lane]
        self._phase[lane], self._since_s[lane] = phase, at_s

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
