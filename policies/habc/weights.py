"""Loss weights of the windows: HABC's weight table and its gate (arXiv 2606.17043), and our exchange gate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from enpire.types import FloatArray, MaskArray
from policies.habc.segments import Part, Windows

GateForm = Literal["soft", "exchange", "viability", "damped_viability", "fixed", "hard", "off"]
SURE = 4
"""In the exchange gate, time saved counts with success_rate x p_v to this power: 0.66 at 0.9, 0.06 at 0.5."""
LARGEST_VISIT = 20.0
"""Largest ratio of visit weights: below p_v = 0.05 they are equal."""
SHARPNESS = 2.0
"""Argument of the exchange gate at the root mean square of the windows that it weights: there g is 1.96 or 0.04."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantages:
    """The critics' outputs for N windows; float32."""

    viability: FloatArray
    """(N,), p_v, probability of success, in [0, 1]."""
    viability_advantage: FloatArray
    """(N,), A_v, in logits."""
    efficiency_advantage: FloatArray
    """(N,), A_e, in decisions saved."""

    def at(self, rows: MaskArray) -> Advantages:
        """Those of the windows where `rows` (N,) is True."""
        return Advantages(
            viability=self.viability[rows],
            viability_advantage=self.viability_advantage[rows],
            efficiency_advantage=self.efficiency_advantage[rows],
        )

    @property
    def mixed(self) -> FloatArray:
        """(1 - p_v) A_v + p_v A_e (N,), the argument of the soft gate."""
        p = self.viability
        return np.asarray((1 - p) * self.viability_advantage + p * self.efficiency_advantage, np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRate:
    """The rate between success and time in the exchange gate. It has no unit and does not depend on `execute`."""

    time_value: float
    """Value of saving the time of a typical success, in nats of log p_v. At 0.7 it equals a doubled p_v."""
    typical_decisions: float
    """Median number of decisions of the policy's successes without an intervention; above 0."""
    success_rate: float = 1.0
    """Probability of success of a whole rollout of the policy, in [0, 1]."""
    spread: float = 1.0
    """Root mean square of the gain over the windows that the gate weights, in nats; above 0."""

    def gain(self, advantages: Advantages) -> FloatArray:
        """The change of log p_v plus the value of the time saved where success is likely (N,) float32, in nats.

        The change of log p_v counts in full at any p_v, so haste that fails later costs more than it saves. The
        efficiency head cannot know this cost, because it is trained on successes. A policy that often fails learns to
        succeed first: until then few failures at haste are in the data, and p_v does not know its cost either.
        """
        p = advantages.viability.astype(np.float64).clip(1e-9, 1 - 1e-9)
        later = np.log(p) - np.log1p(-p) + advantages.viability_advantage
        success = -np.logaddexp(0.0, -later) - np.log(p)
        saved = advantages.efficiency_advantage / self.typical_decisions
        return (success + self.time_value * (self.success_rate * p) ** SURE * saved).astype(np.float32)

    def argument(self, advantages: Advantages) -> FloatArray:
        """The argument of the gate (N,) float32: the gain in units of `spread`, times SHARPNESS."""
        return (SHARPNESS / self.spread * self.gain(advantages)).astype(np.float32)

    def scaled_to(self, advantages: Advantages) -> ExchangeRate:
        """This rate with the spread of these windows."""
        gain = self.gain(advantages)
        spread = float(np.sqrt(np.mean(np.square(gain, dtype=np.float64)))) if len(gain) else 0.0
        return replace(self, spread=spread if spread > 0 else 1.0)


def gate(advantages: Advantages, form: GateForm = "soft", rate: ExchangeRate | None = None) -> FloatArray:
    """The gate g = 1 + tanh(argument) (N,) float32, in (0, 2): the loss weight of a successful policy window.

    The forms and their arguments: `soft`, of arXiv 2606.17043, (1 - p_v) A_v + p_v A_e: with a low p_v it prefers
    actions that raise the probability of success, with a high p_v actions that save decisions; `exchange`, ours,
    `ExchangeRate.argument`; `damped_viability`, the soft one without time, (1 - p_v) A_v. Arms of the benchmark:
    `viability` is A_v alone, `fixed` half of each advantage, `hard` is 0 or 2 by the sign of the soft argument, `off`
    is filtered behaviour cloning with 1 everywhere.

    Args:
        advantages: of N windows.
        form: of the gate.
        rate: for `exchange`.
    """
    match form:
        case "soft":
            argument = advantages.mixed
        case "exchange":
            assert rate is not None
            argument = rate.argument(advantages)
        case "viability":
            argument = advantages.viability_advantage
        case "damped_viability":
            argument = (1 - advantages.viability) * advantages.viability_advantage
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


def gated(windows: Windows, rule: WeightRule) -> MaskArray:
    """Windows (N,) bool that the gate weights: the policy's successes, and interventions where the rule says so."""
    own = windows.policy
    if rule.partition:
        own = np.isin(windows.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION))
    return (own & windows.success) | ((windows.part == Part.INTERVENTION) & rule.reweight_interventions)


def actor_weights(windows: Windows, gates: FloatArray, rule: WeightRule) -> FloatArray:
    """Loss weights (N,) float32 before normalisation: 1 for human windows, the gate for the policy's successes, else 0.

    `gates`: (N,), in [0, 2].
    """
    return np.where(gated(windows, rule), gates, ~windows.policy).astype(np.float32)


def visit_weights(viability: FloatArray, own: MaskArray) -> FloatArray:
    """Sampling weights (N,) float32 that give the policy's successes the states that its rollouts visit.

    A state from which the policy succeeds with probability p_v is among its successes p_v times as often as among all
    its rollouts. So an actor that is cloned from successes has hardly seen the states in which it fails. The weights
    are 1 / p_v, at most LARGEST_VISIT, with mean 1 over the successes, and 1 elsewhere.

    Args:
        viability: (N,), p_v, in [0, 1].
        own: (N,) bool, the windows of the policy's successes.
    """
    weights = 1 / np.maximum(viability, 1 / LARGEST_VISIT, dtype=np.float64)
    mean = weights[own].mean() if own.any() else 1.0
    return np.where(own, weights / mean, 1.0).astype(np.float32)


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
