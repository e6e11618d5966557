"""Loss weights of the windows: HABC's weight table and its soft gate (arXiv 2606.17043)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from enpire.types import FloatArray, MaskArray
from policies.habc.segments import Part, Windows

GateForm = Literal["soft", "viability", "fixed", "hard", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantages:
    """The critics' outputs for N windows; float32."""

    viability: FloatArray
    """(N,), p_v, probability of success, in [0, 1]."""
    viability_advantage: FloatArray
    """(N,), A_v, in logits."""
    efficiency_advantage: FloatArray
    """(N,), A_e, in decisions saved."""

    @property
    def mixed(self) -> FloatArray:
        """(1 - p_v) A_v + p_v A_e (N,), the argument of the soft gate."""
        p = self.viability
        return np.asarray((1 - p) * self.viability_advantage + p * self.efficiency_advantage, np.float32)


def gate(advantages: Advantages, form: GateForm = "soft") -> FloatArray:
    """The soft gate g = 1 + tanh((1 - p_v) A_v + p_v A_e) (N,) float32, in (0, 2); arXiv 2606.17043.

    With a low p_v the gate prefers actions that raise the probability of success; with a high p_v, actions that save
    decisions. The other forms are arms of the benchmark: `viability` uses A_v alone, `fixed` half of each advantage,
    `hard` 0 or 2 by the sign, `off` is filtered behaviour cloning with 1 everywhere.
    """
    match form:
        case "soft":
            argument = advantages.mixed
        case "viability":
            argument = advantages.viability_advantage
        case "fixed":
            argument = 0.5 * advantages.viability_advantage + 0.5 * advantages.efficiency_advantage
        case "hard":
            return np.where(advantages.mixed > 0, np.float32(2), np.float32(0)).astype(np.float32)
        case "off":
            return np.ones_like(advantages.viability)
    # Beyond 9 float32 rounds tanh to exactly 1 or -1; the clip keeps the gate inside the open interval.
    return (1 + np.tanh(argument.clip(-8, 8))).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightRule:
    """The options of the weight table."""

    reweight_interventions: bool = False
    """IR: intervention windows have the gate as their weight instead of 1."""
    partition: bool = True
    """False: policy windows before an intervention are weighted like the others ("naive labels")."""


def actor_weights(windows: Windows, gates: FloatArray, rule: WeightRule) -> FloatArray:
    """Loss weights (N,) float32 before normalisation: 1 for human windows, the gate for the policy's successes, else 0.

    `gates`: (N,), in [0, 2].
    """
    own = np.isin(windows.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION))
    if not rule.partition:
        own = windows.policy
    weights = np.where(own & windows.success, gates, 0)
    weights = np.where(windows.part == Part.INTERVENTION, gates if rule.reweight_interventions else 1, weights)
    return np.where(windows.demonstration, 1, weights).astype(np.float32)


def normalised(weights: FloatArray, demonstration: MaskArray) -> FloatArray:
    """Normalise a minibatch's weights (B,): those above 0 get mean 1, except demonstrations, which do not change.

    `demonstration`: (B,) bool.
    """
    counted = ~demonstration & (weights > 0)
    if not counted.any():
        return weights
    mean = weights[counted].mean(dtype=np.float64)
    return np.where(counted, weights / mean, weights).astype(np.float32)


def effective_sample_share(weights: FloatArray) -> float:
    """Kish's effective sample size of weights (N,), over the number of weights above 0: in (0, 1], or 0 without any."""
    counted = weights[weights > 0].astype(np.float64)
    return float(counted.sum() ** 2 / (np.square(counted).sum() * len(counted))) if len(counted) else 0.0
