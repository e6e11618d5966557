"""Demonstrations of Gymnasium's lander: its own heuristic, misled by an altimeter that is wrong in each episode."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from gymnasium.envs.box2d.lunar_lander import heuristic

from enpire.types import FloatArray, IntArray, Observation

MOST_CLIMB = 0.25
"""Largest error of the vertical speed, in the lander's unit. The pilot falls faster than it believes."""
MOST_HEIGHT = 0.2
"""Largest error of the height, in the lander's unit. The pilot believes to be lower than it is, and hovers."""
_CONTINUOUS = SimpleNamespace(unwrapped=SimpleNamespace(continuous=True))
"""The part of the environment that the heuristic asks for."""


class Pilot:
    """Lands in about half of the episodes. Each has errors of its own: some demonstrations are hasty, some hover."""

    horizon = execute = 1

    def __init__(self, seed: int) -> None:
        """`seed` decides the errors."""
        self._seed = seed
        self._errors: dict[int, FloatArray] = {}

    def begin(self, lane: int, seed: int) -> None:
        """A new rollout."""
        error = np.zeros(8, np.float32)
        which, size = np.random.default_rng([self._seed, seed]).random(2)
        if which < 0.5:
            error[3] = size * MOST_CLIMB
        else:
            error[1] = -size * MOST_HEIGHT
        self._errors[lane] = error

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Main and side engine (n, 1, 2), in [-1, 1]."""
        seen = observation.state[:, :8]
        return np.array([
            [np.clip(heuristic(_CONTINUOUS, row + self._errors[int(lane)]), -1.0, 1.0)]
            for lane, row in zip(lanes, seen, strict=True)
        ], np.float32)  # fmt: skip
