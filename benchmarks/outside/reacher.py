"""Demonstrations of Gymnasium's two-joint arm: a servo on the fingertip's error, in each episode with another gain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray, IntArray, Observation

Vector = npt.NDArray[np.float64]

LINKS = (0.10, 0.11)
"""Lengths of the two links in m."""
GAINS = (0.1, 1.0)
"""Least and largest torque for one radian of error; with a small one the arm is late."""
DAMPING = 0.04
"""Torque against one rad/s."""
SMALL = 1e-4
"""Keeps the inverse of the Jacobian bounded where the arm is straight, in m²."""


class Servo:
    """Reaches the target in about half of the episodes."""

    horizon = execute = 1

    def __init__(self, seed: int) -> None:
        """`seed` decides the gains."""
        self._seed = seed
        self._gains: dict[int, float] = {}

    def begin(self, lane: int, seed: int) -> None:
        """A new rollout."""
        self._gains[lane] = float(np.random.default_rng([self._seed, seed]).uniform(*GAINS))

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Torques (n, 1, 2), in [-1, 1]."""
        return np.array([
            [self._torques(self._gains[int(lane)], row)]
            for lane, row in zip(lanes, observation.state.astype(np.float64), strict=True)
        ], np.float32)  # fmt: skip

    @staticmethod
    def _torques(gain: float, row: Vector) -> Vector:
        """Torques (2,) for one row of the state: cosines, sines, target, speeds, fingertip minus target."""
        (c0, c1), (s0, s1) = row[0:2], row[2:4]
        tip = LINKS[1] * np.array([c0 * c1 - s0 * s1, s0 * c1 + c0 * s1])
        whole = LINKS[0] * np.array([c0, s0]) + tip
        jacobian = np.array([[-whole[1], -tip[1]], [whole[0], tip[0]]])
        turn = np.linalg.solve(jacobian.T @ jacobian + SMALL * np.eye(2), -jacobian.T @ row[8:10])
        return np.clip(gain * turn - DAMPING * row[6:8], -1.0, 1.0)
