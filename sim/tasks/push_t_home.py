"""Push-T, the easy form: push a T block that lies within 6 cm and 0.5 rad of its goal onto it; with a home position.

It is in a file of its own because the digest of the verifier of Push-T covers the whole file `push_t.py`.
"""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray, Start
from sim.tasks.push_t import PushT, view_of
from sim.tasks.push_t_planner import PushPlanner, limit_speed

HOME_MM = (0.0, -240.0)
"""Pusher in the home position: before the table's middle, farther from it than at any start."""
_THERE_MM, _REST_TICKS = 4.0, 3


class PushTWithHome(PushT):
    """The task Push-T, whose pusher has a home position."""

    def home_skill(self) -> PushHome:
        """Move the pusher away from the T, around it, and rest before it."""
        return PushHome(self.spec.period_s)


class PushHome:
    """Move the pusher home, around the T, which stays where it is."""

    def __init__(self, period_s: float) -> None:
        """No lane is on its way."""
        self._period_s, self._rested = period_s, dict[int, int]()
        self._planner = PushPlanner(walk_mm_s=120.0)

    def begin(self, lane: int, start: Start) -> None:
        """Let one lane move home."""
        del start
        self._rested[lane] = 0

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 2) in mm/s, which lanes have rested at home for three periods)."""
        commands, done = np.zeros((len(lanes), 2), dtype=np.float32), np.zeros(len(lanes), dtype=np.bool_)
        home = np.array(HOME_MM)
        for row, lane in enumerate(int(lane) for lane in lanes):
            view = view_of(state[row])
            near = float(np.hypot(*(home - view.pusher_mm))) < _THERE_MM
            self._rested[lane] = self._rested[lane] + 1 if near else 0
            done[row] = self._rested[lane] >= _REST_TICKS
            if not done[row]:
                commands[row] = limit_speed(self._planner.walk(view, home, self._period_s))
        return commands, done
