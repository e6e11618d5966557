"""RECAP's value function: a distribution over what an episode still returns (arXiv 2511.14759)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from enpire.types import FloatArray, IntArray
from policies.flow_network import SmallNetwork
from policies.optimizer import AveragedAdam, CosineSchedule

AVERAGE = 0.98
"""Decay of the moving average of the network's weights, per step; values come from the average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnBins:
    """Equally wide bins from the lowest possible return to 0."""

    lowest: float
    """In decisions, below 0."""
    count: int = 201

    @property
    def centres(self) -> FloatArray:
        """Returns (count,) float32 that the bins stand for, in decisions, the lowest first."""
        return np.linspace(self.lowest, 0, self.count, dtype=np.float32)

    def of(self, returns: FloatArray) -> IntArray:
        """The bin (N,) int of each return (N,), in decisions."""
        place = (self.count - 1) * (1 - returns.astype(np.float64) / self.lowest)
        return np.rint(place).astype(np.int64).clip(0, self.count - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTraining:
    """Size and training of the network."""

    hidden: int
    steps: int
    batch: int
    learning_rate: float
    seed: int


class ReturnDistribution:
    """A network from state features to the logits of the bins, trained by cross-entropy."""

    def __init__(self, features: Tensor, returns: FloatArray, bins: ReturnBins, training: ValueTraining) -> None:
        """Train on N states.

        Args:
            features: (N, features) float32.
            returns: (N,), what each episode returned from there to its end, in decisions (Monte Carlo).
            bins: of the returns.
            training: size, steps and seed.
        """
        hidden = training.hidden
        self._network = SmallNetwork((features.shape[1], hidden, hidden, bins.count), training.seed)
        self._centres = torch.from_numpy(bins.centres)
        first = training.learning_rate
        schedule = CosineSchedule(first=first, last=0.05 * first, steps=training.steps)
        optimizer = AveragedAdam(self._network.parameters(), schedule, AVERAGE)
        wanted = torch.from_numpy(bins.of(returns))
        for step in range(training.steps):
            random = np.random.default_rng((training.seed, 12, step))
            rows = torch.from_numpy(random.integers(len(returns), size=training.batch))
            loss = torch.nn.functional.cross_entropy(self._network(features[rows]), wanted[rows])
            optimizer.minimise(loss, step)
        optimizer.use_average()

    def value(self, features: Tensor) -> FloatArray:
        """Expected return (N,) float32, in decisions, of state features (N, features)."""
        with torch.no_grad():
            return (torch.softmax(self._network(features), dim=1) @ self._centres).numpy()
