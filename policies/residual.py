"""A residual policy: a frozen flow policy proposes, a small network corrects what is sent. numpy only."""

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
    """What policy.json says about the correcting network."""

    reach: float
    """Largest correction, in standard deviations of each command."""
    frequencies: int
    """Octaves of the state's features."""


def correction_inputs(version: FlowVersion, about: Correction, state: FloatArray, chunk: FloatArray) -> FloatArray:
    """What the network sees of states (N, state_dim) and normalised proposals (N, execute * action_dim)."""
    seen = fourier(version.state.forward(state.astype(np.float32)), about.frequencies)
    return np.concatenate([seen, chunk], axis=1).astype(np.float32)


class Residual:
    """The policy."""

    def __init__(self, version: FlowVersion, about: Correction, network: Perceptron) -> None:
        """A flow version and the network that corrects its chunks."""
        self._version, self._about, self._network = version, about, network
        self._flow = FlowPolicy(version)
        self.horizon, self.execute = self._flow.horizon, self._flow.execute

    def begin(self, lane: int, seed: int) -> None:
        """A new episode begins in this lane."""
        self._flow.begin(lane, seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Corrected chunks for the lanes named, (len(lanes), horizon, action_dim)."""
        chunk = self._version.action.forward(self._flow.act(observation, lanes))
        sent = chunk[:, : self.execute].reshape(len(lanes), -1)
        rows = correction_inputs(self._version, self._about, observation.state, sent)
        moved = sent + np.float32(self._about.reach) * np.tanh(self._network(rows))
        chunk[:, : self.execute] = moved.reshape(chunk[:, : self.execute].shape)
        return self._version.action.inverse(chunk)


def load(folder: Path) -> Residual:
    """Load a version's folder; PolicyProblem or FileProblem say what does not fit."""
    version, beside = read_added_network(folder, KIND, KEY)
    about = parse(Correction, beside.about, f"The version {folder}, residual")
    if not 0 < about.reach < 10:
        raise PolicyProblem(f"{folder}: the reach of a residual policy is above 0 and below 10, not {about.reach}.")
    shape = version.shape
    sent = shape.execute * shape.action_dim
    network = Perceptron(beside.weights, shape.state_dim * (1 + 2 * about.frequencies) + sent, sent)
    return Residual(version, about, network)
