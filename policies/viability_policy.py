"""A flow policy that also says how likely its rollout is to succeed: HABC's viability head beside the actor.

It is numpy only, like the flow policy itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enpire.files import parse
from enpire.types import FloatArray, IntArray, Observation
from policies.flow_policy import FlowPolicy, FlowVersion, read_added_network
from policies.normalise import fourier
from policies.perceptron import Perceptron

KIND, KEY = "foreseeing", "viability"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViabilityHead:
    """What policy.json says about the viability head."""

    frequencies: int
    """Octaves of the state's features."""
    logit_limit: float
    """z_v is clipped to this; 0 means no limit."""


class ViabilityPolicy(FlowPolicy):
    """The policy; it acts exactly as its flow policy alone."""

    def __init__(self, version: FlowVersion, about: ViabilityHead, network: Perceptron) -> None:
        """A flow version and the network from its state's features to z_v."""
        super().__init__(version)
        self._state, self._about, self._network = version.state, about, network

    def viability(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """p_v (len(lanes),) = sigmoid(z_v), as the critic that trained beside this actor says."""
        self._check(observation, lanes)
        rows = fourier(self._state.forward(observation.state.astype(np.float32)), self._about.frequencies)
        logits = self._network(rows)[:, 0]
        if self._about.logit_limit:
            logits = np.clip(logits, -self._about.logit_limit, self._about.logit_limit)
        return (1 / (1 + np.exp(-logits))).astype(np.float32)


def load(folder: Path) -> ViabilityPolicy:
    """Load a version's folder; PolicyProblem or FileProblem say what does not fit."""
    version, beside = read_added_network(folder, KIND, KEY)
    about = parse(ViabilityHead, beside.about, f"The version {folder}, viability")
    wide = version.shape.state_dim * (1 + 2 * about.frequencies)
    return ViabilityPolicy(version, about, Perceptron(beside.weights, wide, 1))
