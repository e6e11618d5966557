"""Blends commands when control changes between policy and operator, so that the robot gets no step."""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray, TaskSpec

PERIODS = 6
"""Commands over which a change of control is blended: 0.2 s at 30 Hz, about a human reaction time."""


class CommandBlender:
    """Interpolates linearly from the last sent command to the requested ones after every change of control.

    Before the first command of an episode the robot is at rest: positions start from the measured value, speeds from 0.
    The guard checks and clips the blended command like any other; the recording names who is in control.
    """

    def __init__(self, lanes: int, spec: TaskSpec) -> None:
        self._measured = np.array(spec.measured, np.int64)
        self._held: MaskArray = np.zeros(lanes, np.bool_)
        self._last = np.full((lanes, spec.action_dim), np.nan, np.float32)
        """float32 (lanes, action_dim), the last sent command; nan before the first one of an episode."""
        self._from = self._last.copy()
        self._since = np.full(lanes, PERIODS, np.int64)
        """Commands since the last change of control, at most `PERIODS`."""

    def begin(self, lane: int) -> None:
        """An episode begins, with the policy in control."""
        self._held[lane], self._since[lane], self._last[lane] = False, PERIODS, np.nan

    def blend(self, lanes: IntArray, held: MaskArray, requested: FloatArray, state: FloatArray) -> FloatArray:
        """The commands to send, float32 (n, action_dim), in the units of the task.

        Args:
            lanes: int64 (n,), the lanes that get a command now.
            held: bool (n,), which of them the operator controls.
            requested: float32 (n, action_dim), the command of the policy or the operator.
            state: float32 (n, state_dim), the measured state.
        """
        rest = np.where(self._measured >= 0, state[:, self._measured], 0.0)
        last = np.where(np.isnan(self._last[lanes]), rest, self._last[lanes])
        changed = held != self._held[lanes]
        self._from[lanes[changed]], self._since[lanes[changed]], self._held[lanes] = last[changed], 0, held
        self._since[lanes] = np.minimum(self._since[lanes] + 1, PERIODS)
        share = (self._since[lanes] / PERIODS).astype(np.float32)[:, None]
        blended = self._from[lanes] + share * (requested - self._from[lanes])
        return np.where((share < 1.0) & ~np.isnan(blended), blended, requested)

    def sent(self, lanes: IntArray, command: FloatArray) -> None:
        """Note the commands that were sent to these lanes, float32 (n, action_dim)."""
        self._last[lanes] = command
