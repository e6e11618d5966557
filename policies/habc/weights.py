"""How much each window counts when the actor imitates it: the table of HABC and its soft gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from enpire.types import FloatArray, MaskArray
from policies.habc.segments import Part, Windows

GateForm = Literal["soft", "viability", "fixed", "hard", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantages:
    """What the critics say about the windows, row by row (N,)."""

    viability: FloatArray
    """p_v, probability of success, in [0, 1]."""
    viability_advantage: FloatArray
    """A_v, in logits."""
    efficiency_advantage: FloatArray
    """A_e, in decisions saved."""


def gate(advantages: Advantages, form: GateForm = "soft") -> FloatArray:
    """The gate g = 1 + tanh((1 - p_v) A_v + p_v A_e), in (0, 2); eq. of arXiv 2606.17043.

    Where failure is near, g asks for what keeps success possible; where success is sure, for what saves time.
    Other forms are arms of the benchmark: `viability` drops A_e, `fixed` mixes half and half, `hard` keeps or
    drops, `off` is filtered behaviour cloning.
    """
    p, gain, speed = advantages.viability, advantages.viability_advantage, advantages.efficiency_advantage
    match form:
        case "soft":
            argument = (1 - p) * gain + p * speed
        case "viability":
            argument = gain
        case "fixed":
            argument = 0.5 * gain + 0.5 * speed
        case "hard":
            return np.where((1 - p) * gain + p * speed > 0, np.float32(2), np.float32(0)).astype(np.float32)
        case "off":
            return np.ones_like(p)
    # float32 rounds tanh to exactly ±1 beyond 9: the limit keeps the gate inside the open interval.
    return (1 + np.tanh(argument.clip(-8, 8))).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightRule:
    """The choices that the table leaves to the recipe."""

    reweight_interventions: bool = False
    """IR: intervention windows count by the gate instead of 1."""
    partition: bool = True
    """False: policy windows before an intervention count like any other ("naive labels")."""


def actor_weights(windows: Windows, gates: FloatArray, rule: WeightRule) -> FloatArray:
    """Weights (N,) before normalisation: 1 for people, the gate for the policy's successes, 0 for the rest."""
    own = np.isin(windows.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION))
    if not rule.partition:
        own = windows.policy
    weights = np.where(own & windows.success, gates, 0)
    weights = np.where(windows.part == Part.INTERVENTION, gates if rule.reweight_interventions else 1, weights)
    return np.where(windows.demonstration, 1, weights).astype(np.float32)


def normalised(weights: FloatArray, demonstration: MaskArray) -> FloatArray:
    """Scale the non-demonstration weights above 0 of one minibatch (B,) to mean 1; all others stay as they are."""
    counted = ~demonstration & (weights > 0)
    if not counted.any():
        return weights
    mean = weights[counted].mean(dtype=np.float64)
    return np.where(counted, weights / mean, weights).astype(np.float32)


def effective_sample_share(weights: FloatArray) -> float:
    """Effective sample size over the number of weights above 0 (Kish), in (0, 1]; 0 when there are none."""
    counted = weights[weights > 0].astype(np.float64)
    return float(counted.sum() ** 2 / (np.square(counted).sum() * len(counted))) if len(counted) else 0.0
