"""A frozen LeRobot policy whose chunks a small network refines, as `policies.refined` does for the flow policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from policies.lerobot_features import LerobotFeatures, read_beside
from policies.lerobot_files import REFINING_FILE, Parts
from policies.normalise import Scale
from policies.perceptron import Perceptron
from policies.refined import Refiner


class RefinedLerobot(LerobotFeatures):
    """The loaded policy."""

    def __init__(self, parts: Parts, refiner: Refiner) -> None:
        """`refiner`: trained beside the policy of `parts`."""
        self._refiner: Refiner | None = None
        super().__init__(parts)
        self._refiner = refiner

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks (len(lanes), horizon, action_dim) float32 with refined executed actions; as `LerobotPolicy.act`."""
        chunks = super().act(observation, lanes)
        if self._refiner is None:
            return chunks
        for row, lane in enumerate(lanes):
            sent = chunks[row : row + 1, : self.execute]
            noise = self._noise[int(lane)].standard_normal((1, sent.size), np.float32)
            chunks[row, : self.execute] = self._refiner.refine(self._features(self._batch([int(lane)])), sent, noise)[0]
        return chunks


def refined(parts: Parts, folder: Path) -> RefinedLerobot:
    """The policy of a version with refining; PolicyProblem if its network does not fit."""
    path, about = folder / REFINING_FILE, parts.about.refining
    if about is None:
        raise PolicyProblem(f"{folder} has no `refining` in policy.json; train the version again.")
    weights = read_beside(path)
    features, action = (Scale.pop(name, weights, str(path)) for name in ("features", "action"))
    sent = parts.about.execute * len(action.mean)
    network = Perceptron(weights, len(features.mean) + sent, sent)
    return RefinedLerobot(parts, Refiner(features=features, action=action, network=network, spread=about.spread))
