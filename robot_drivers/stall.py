"""Finds joints that stall: far from their command and not moving, so that their motors push at full current."""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, MaskArray, TaskSpec
from robot_drivers.safety import Limits

MOVES = 0.25
"""A joint moves if it has covered this share of its limit since it began to be far from its command."""


class StallWatch:
    """The joints of all lanes with a limit in `Limits.stall`, from one observation to the next."""

    def __init__(self, spec: TaskSpec, limits: Limits, lanes: int) -> None:
        self._names = [item.name for item in spec.action if item.name in limits.stall]
        self._units = [item.unit for item in spec.action if item.name in limits.stall]
        actions = [item.name for item in spec.action]
        self._action = [actions.index(name) for name in self._names]
        self._state = [spec.measured[index] for index in self._action]
        self._most = np.array([limits.stall[name] for name in self._names], np.float64)
        self._most_s = limits.stall_s
        self._since_s = np.full((lanes, len(self._names)), np.inf)
        """When each joint was last near its command, or moving [s]."""
        self._place = np.zeros((lanes, len(self._names)))
        """Where it was then, in the unit of the action."""

    def begin(self, lane: int) -> None:
        """Forget what was seen of a lane."""
        self._since_s[lane] = np.inf

    def note(self, stamp_ns: int, state: FloatArray, commanded: FloatArray) -> MaskArray:
        """Take one observation.

        Args:
            stamp_ns: clock of the observation.
            state: (lanes, state_dim), in the units of the spec.
            commanded: (lanes, action_dim), the last action that was sent; nan where there is none.

        Returns:
            (lanes, joints) bool: which joints have stalled for `Limits.stall_s`.
        """
        now_s, here = stamp_ns / 1e9, state[:, self._state].astype(np.float64)
        with np.errstate(invalid="ignore"):
            far = np.abs(commanded[:, self._action] - here) > self._most
            moved = np.abs(here - self._place) > MOVES * self._most
        fresh = ~far | moved | np.isinf(self._since_s)
        self._since_s = np.where(fresh, now_s, self._since_s)
        self._place = np.where(fresh, here, self._place)
        stalled: MaskArray = far & ~fresh & (now_s - self._since_s >= self._most_s)
        return stalled

    def sentence(self, stalled: MaskArray, state: FloatArray, commanded: FloatArray) -> str:
        """Which joint (joints,) of a lane stalls, with its position and its command."""
        number = int(np.flatnonzero(stalled)[0])
        here, there = float(state[self._state[number]]), float(commanded[self._action[number]])
        unit = self._units[number]
        return (
            f"{self._names[number]} stalls: it is at {here:.4g} {unit}, its command is {there:.4g} {unit}, and it has "
            f"not moved for {self._most_s:g} s"
        )
