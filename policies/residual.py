"""A residual policy: a frozen flow policy samples a chunk, and a small network corrects it. numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enpire.errors import PolicyProblem
from enpire.files import parse
from enpire.types import FloatArray, IntArray, Observation
from policies.flow_policy import FlowPolicy, FlowVersion, read_added_network
from policies.normalise import fourier
from policies.perceptron import Perceptron

KIND, KEY = "residual", "residual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The settings of the correcting network in policy.json."""

    reach: float
    """Largest correction, in standard deviations of each command."""
    frequencies: int
    """Octaves of the Fourier features of the state."""


def correction_inputs(version: FlowVersion, about: Correction, state: FloatArray, chunk: FloatArray) -> FloatArray:
    """The network's inputs (N, features) float32.

    `state`: (N, state_dim), units of the robot; `chunk`: (N, execute * action_dim), normalised actions of the base.
    """
    features = fourier(version.state.forward(state.astype(np.float32)), about.frequencies)
    return np.concatenate([features, chunk], axis=1).astype(np.float32)


class Residual:
    """The loaded policy."""

    def __init__(self, version: FlowVersion, about: Correction, network: Perceptron) -> None:
        """`network`: from `correction_inputs` to corrections before tanh."""
        self._version, self._about, self._network = version, about, network
        self._flow = FlowPolicy(version)
        self.horizon, self.execute = self._flow.horizon, self._flow.execute

    def begin(self, lane: int, seed: int) -> None:
        """Start a new episode in this lane; `seed` is of its noise."""
        self._flow.begin(lane, seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Corrected chunks for the lanes: (len(lanes), horizon, action_dim) float32, units of the robot."""
        chunk = self._version.action.forward(self._flow.act(observation, lanes))
        sent = chunk[:, : self.execute].reshape(len(lanes), -1)
        rows = correction_inputs(self._version, self._about, observation.state, sent)
        corrected = sent + np.float32(self._about.reach) * np.tanh(self._network(rows))
        chunk[:, : self.execute] = corrected.reshape(chunk[:, : self.execute].shape)
        return self._version.action.inverse(chunk)


def load(folder: Path) -> Residual:
    """Load a version's folder; PolicyProblem or FileProblem if it does not fit."""
    version, added = read_added_network(folder, KIND, KEY)
    about = parse(Correction, added.about, f"The version {folder}, residual")
    if not 0 < about.reach < 10:
        raise PolicyProblem(
            f"{folder}: reach is {about.reach}; a residual policy's must be above 0 and below 10. "
            "Train the version again."
        )
    shape = version.shape
    sent = shape.execute * shape.action_dim
    network = Perceptron(added.weights, shape.state_dim * (1 + 2 * about.frequencies) + sent, sent)
    return Residual(version, about, network)
