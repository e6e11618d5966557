"""Best of N: a flow policy samples several chunks, and a learned score picks the one to execute. numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enpire.files import parse
from enpire.types import FloatArray, IntArray, Observation
from policies.flow_policy import FlowPolicy, FlowVersion, read_added_network
from policies.normalise import fourier
from policies.perceptron import Perceptron

KIND, KEY = "best_of_n", "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The settings of the score in policy.json."""

    candidates: int
    """Chunks sampled for each decision."""
    frequencies: int
    """Octaves of the Fourier features of the state."""


def score_inputs(version: FlowVersion, about: Score, state: FloatArray, chunk: FloatArray) -> FloatArray:
    """The score's inputs (N, features) float32: state features and the normalised actions that are executed.

    `state`: (N, state_dim) and `chunk`: (N, horizon, action_dim), both in units of the robot.
    """
    sent = version.action.forward(chunk[:, : version.shape.execute]).reshape(len(chunk), -1)
    return np.concatenate([fourier(version.state.forward(state), about.frequencies), sent], axis=1).astype(np.float32)


class BestOfN:
    """The loaded policy."""

    def __init__(self, version: FlowVersion, about: Score, network: Perceptron) -> None:
        """`network`: from `score_inputs` to the score."""
        self._version, self._about, self._network = version, about, network
        self._flow = FlowPolicy(version)
        self.horizon, self.execute = self._flow.horizon, self._flow.execute

    def begin(self, lane: int, seed: int) -> None:
        """Start a new episode in this lane; `seed` is of its noise."""
        self._flow.begin(lane, seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The best-scored chunk of each lane: (len(lanes), horizon, action_dim) float32, units of the robot."""
        count = self._about.candidates
        proposed = self._flow.sample(observation, lanes, count)
        state = np.repeat(observation.state.astype(np.float32), count, axis=0)
        rows = score_inputs(self._version, self._about, state, proposed.reshape(-1, *proposed.shape[2:]))
        best = self._network(rows).reshape(len(lanes), count).argmax(axis=1)
        return proposed[np.arange(len(lanes)), best]


def load(folder: Path) -> BestOfN:
    """Load a version's folder; PolicyProblem or FileProblem if it does not fit."""
    version, added = read_added_network(folder, KIND, KEY)
    about = parse(Score, added.about, f"The version {folder}, score")
    shape = version.shape
    wide = shape.state_dim * (1 + 2 * about.frequencies) + shape.execute * shape.action_dim
    return BestOfN(version, about, Perceptron(added.weights, wide, 1))
