"""A policy of a code candidate: one object for each episode, one observation in, one chunk of actions out."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

HORIZON = 4
"""Actions in a chunk."""
EXECUTE = 4
"""Actions of a chunk that the robot executes before the next call of `act`."""


class Policy:
    """Ridge regression on the state, by the weights that learner.py wrote."""

    def __init__(self, version: Path, seed: int) -> None:
        """`version` is the folder with the files of learner.py; `seed` is the only source of randomness."""
        weights = np.load(version / "weights.npz")
        self.mean, self.scale, self.weights = weights["mean"], weights["scale"], weights["weights"]

    def act(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """observation["state"] (state_dim,) float32 -> actions (HORIZON, action_dim)."""
        scaled = (observation["state"] - self.mean) / self.scale
        features = np.concatenate([scaled, scaled**2, [1.0]])
        return (features @ self.weights).reshape(HORIZON, -1).astype(np.float32)
