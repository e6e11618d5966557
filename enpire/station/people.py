"""Demonstrations by people: what the robot does while the operator does not move it."""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, IntArray, Observation, TaskSpec

NO_OPERATOR = (
    "a person demonstrates here, and the station's file names no operator: set `operator: browser`, `lerobot` or "
    "`keyboard` (under `stations` of the campaign file for the stations that it starts)"
)


class HoldStill:
    """A policy that keeps every measured position and commands zero velocity until the operator takes over again."""

    def __init__(self, spec: TaskSpec) -> None:
        self.horizon = self.execute = spec.limit_ticks
        self._sensed = np.array(spec.measured)
        self._low, self._high = (np.array([getattr(one, end) for one in spec.action]) for end in ("low", "high"))

    def begin(self, lane: int, seed: int) -> None:
        """Nothing depends on the episode."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The present positions of all lanes (n,) for the rest of the episode: (n, horizon, action_dim) float32."""
        here = np.where(self._sensed >= 0, observation.state[:, self._sensed], 0.0)
        held = np.clip(here, self._low, self._high).astype(np.float32)
        return np.repeat(held[:, None], self.horizon, axis=1)
