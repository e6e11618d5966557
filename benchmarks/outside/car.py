"""Demonstrations of Gymnasium's mountain car: pushes in the direction of motion; each episode has its own force."""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, IntArray, Observation

WEAKEST = 0.25
"""Least share of the full force. A weak push needs more swings than the time limit allows."""


class Pump:
    """Reaches the hill in time in about half of the episodes."""

    horizon = execute = 4

    def __init__(self, seed: int) -> None:
        """`seed` decides the forces."""
        self._seed = seed
        self._forces: dict[int, float] = {}

    def begin(self, lane: int, seed: int) -> None:
        """A new rollout."""
        self._forces[lane] = float(np.random.default_rng([self._seed, seed]).uniform(WEAKEST, 1.0))

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Force (n, 4, 1), in [-1, 1]."""
        force = np.array([self._forces[int(lane)] for lane in lanes])
        push = np.where(observation.state[:, 1] >= 0, force, -force)
        return np.repeat(push[:, None, None], self.horizon, axis=1).astype(np.float32)
