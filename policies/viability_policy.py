"""A flow policy that also predicts the success of its rollout, with HABC's viability head. numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enpire.errors import PolicyProblem
from enpire.files import parse
from enpire.types import FloatArray, IntArray, Observation
from policies.flow_policy import FlowPolicy, FlowVersion, read_added_network
from policies.normalise import Scale, fourier
from policies.perceptron import Perceptron

KIND, KEY = "foreseeing", "viability"
STATE = "state"
"""Name of the scale of the state among the head's tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViabilityHead:
    """The settings of the viability head in policy.json."""

    frequencies: int
    """Octaves of the Fourier features of the state."""
    logit_limit: float
    """z_v is clipped to [-limit, limit]; 0 means no limit."""


class ViabilityPolicy(FlowPolicy):
    """The loaded policy. Its actions are those of its flow policy, bit for bit."""

    def __init__(self, version: FlowVersion, about: ViabilityHead, network: Perceptron, state: Scale) -> None:
        """`network`: from Fourier features of the state, normalised with the scale `state`, to z_v."""
        super().__init__(version)
        self._state, self._about, self._network = state, about, network

    def viability(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """p_v = sigmoid(z_v) (len(lanes),) float32, in [0, 1], from the critic trained with this actor.

        PolicyProblem if `observation.state` is not (len(lanes), state_dim).
        """
        self._check(observation, lanes)
        rows = fourier(self._state.forward(observation.state.astype(np.float32)), self._about.frequencies)
        logits = self._network(rows)[:, 0]
        if self._about.logit_limit:
            logits = np.clip(logits, -self._about.logit_limit, self._about.logit_limit)
        return (1 / (1 + np.exp(-logits))).astype(np.float32)


def load(folder: Path) -> ViabilityPolicy:
    """Load a version's folder; PolicyProblem or FileProblem if it does not fit."""
    version, added = read_added_network(folder, KIND, KEY)
    about = parse(ViabilityHead, added.about, f"The version {folder}, viability")
    wide = version.shape.state_dim * (1 + 2 * about.frequencies)
    layers, state = dict(added.weights), version.state
    if f"{STATE}.mean" in layers:  # earlier versions have no scale of their own: their head sees what the actor sees
        state = Scale.pop(STATE, layers, f"The version {folder}, viability,")
        if len(state.mean) != version.shape.state_dim:
            raise PolicyProblem(f"The version {folder}: the viability head is for another state; train it again.")
    return ViabilityPolicy(version, about, Perceptron(layers, wide, 1), state)
