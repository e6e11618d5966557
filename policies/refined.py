"""A refined policy: a small network changes the chunks of a frozen flow policy, which it is kept near. numpy only.

After RL Token (Xu et al., Physical Intelligence, 2026, pi.website/research/rlt): the network sees what the frozen
policy knows of the observation, and the chunk that the frozen policy would send.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enpire.files import parse
from enpire.types import FloatArray, IntArray, Observation
from policies.flow_policy import FlowPolicy, FlowVersion, read_added_network
from policies.normalise import Scale
from policies.perceptron import Perceptron

KIND, KEY = "refined", "refining"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refining:
    """The settings of the refining network in policy.json, of a flow policy or a LeRobot policy."""

    spread: float
    """Standard deviation of the noise on the refined actions, in standard deviations of each command: exploration."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        if not 0 <= self.spread <= 1:
            raise ValueError(f"spread is {self.spread}; it must be in [0, 1].")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refiner:
    """A trained actor that refines chunks."""

    features: Scale
    """Of what the frozen policy knows, (width,)."""
    action: Scale
    """(action_dim,), units of the robot."""
    network: Perceptron
    """From normalised features and the reference chunk to the difference from it."""
    spread: float

    def refine(self, features: FloatArray, chunk: FloatArray, noise: FloatArray) -> FloatArray:
        """Refined actions (n, execute, action_dim), units of the robot.

        Args:
            features: (n, width), as the frozen policy exposes them.
            chunk: (n, execute, action_dim), the reference, units of the robot.
            noise: (n, execute * action_dim), standard normal.
        """
        reference = self.action.forward(chunk).reshape(noise.shape).astype(np.float32)
        rows = np.concatenate([self.features.forward(features).astype(np.float32), reference], axis=1)
        sent = (reference + self.network(rows) + np.float32(self.spread) * noise).astype(np.float32)
        return self.action.inverse(sent.reshape(chunk.shape))


class Refined:
    """The loaded policy."""

    def __init__(self, version: FlowVersion, refiner: Refiner) -> None:
        """`refiner`: trained beside the flow policy of `version`."""
        self._flow, self._refiner = FlowPolicy(version), refiner
        self.horizon, self.execute = self._flow.horizon, self._flow.execute
        self._draws: dict[int, np.random.Generator] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Start a new episode in this lane; `seed` is of its noise."""
        self._flow.begin(lane, seed)
        self._draws[lane] = np.random.default_rng((seed, 1))

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks (len(lanes), horizon, action_dim) float32, units of the robot; only executed actions are refined.

        PolicyProblem if `observation.state` is not (len(lanes), state_dim), or a lane has not begun an episode.
        """
        chunk = self._flow.act(observation, lanes)
        sent = chunk[:, : self.execute]
        noise = np.zeros((len(lanes), self.execute * sent.shape[2]), np.float32)
        for row, lane in enumerate(lanes):
            noise[row] = self._draws[int(lane)].standard_normal(noise.shape[1], np.float32)
        chunk[:, : self.execute] = self._refiner.refine(self._flow.features(observation.state), sent, noise)
        return chunk


def load(folder: Path) -> Refined:
    """Load a version's folder; PolicyProblem or FileProblem if it does not fit."""
    version, added = read_added_network(folder, KIND, KEY)
    about = parse(Refining, added.about, f"The version {folder}, refining")
    weights = dict(added.weights)
    scale = Scale.pop("features", weights, str(folder))
    sent = version.shape.execute * version.shape.action_dim
    network = Perceptron(weights, len(scale.mean) + sent, sent)
    return Refined(version, Refiner(features=scale, action=version.action, network=network, spread=about.spread))
