"""Whoever takes the robot over begins where the one before left it: no step in the commands when the hand changes."""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray, TaskSpec

PERIODS = 6
"""Commands over which a hand-over is blended: 0.2 s at 30 Hz, as long as a person's reaction."""


class CommandBlender:
    """Blends the first commands after every hand-over, in straight line, from what the robot was sent last.

    Before its first command it is at rest: there a position is what is measured, and a speed is zero.
    The guard judges and clips what comes out, as any command; what it sent is recorded, under who holds the robot.
    """

    def __init__(self, lanes: int, spec: TaskSpec) -> None:
        self._measured = np.array(spec.measured, np.int64)
        self._held: MaskArray = np.zeros(lanes, np.bool_)
        self._last = np.full((lanes, spec.action_dim), np.nan, np.float32)
        """What was sent last; nan before the first command of an episode."""
        self._from = self._last.copy()
        self._since = np.full(lanes, PERIODS, np.int64)
        """Commands since the last hand-over; no more than `PERIODS`."""

    def begin(self, lane: int) -> None:
        """An episode begins, in the hands of its policy."""
        self._held[lane], self._since[lane], self._last[lane] = False, PERIODS, np.nan

    def blend(self, lanes: IntArray, held: MaskArray, wish: FloatArray, state: FloatArray) -> FloatArray:
        """What to command (n, action_dim).

        Args:
            lanes: (n,), those that get a command now.
            held: (n,), which of them a person holds.
            wish: (n, action_dim), what the holder of each wants.
            state: (n, state_dim), what is sensed of each.
        """
        rest = np.where(self._measured >= 0, state[:, self._measured], 0.0)
        last = np.where(np.isnan(self._last[lanes]), rest, self._last[lanes])
        changed = held != self._held[lanes]
        self._from[lanes[changed]], self._since[lanes[changed]], self._held[lanes] = last[changed], 0, held
        self._since[lanes] = np.minimum(self._since[lanes] + 1, PERIODS)
        share = (self._since[lanes] / PERIODS).astype(np.float32)[:, None]
        blended = self._from[lanes] + share * (wish - self._from[lanes])
        return np.where((share < 1.0) & ~np.isnan(blended), blended, wish)

    def sent(self, lanes: IntArray, command: FloatArray) -> None:
        """What these lanes were sent (n, action_dim)."""
        self._last[lanes] = command
