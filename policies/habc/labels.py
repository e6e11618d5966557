"""Weights of the viability labels: how much each label counts, so that p_v is the probability of success.

Every visit of a state counts alike. Then p_v of a state is the share of its visits from which the policy succeeds. Long
failures have more windows than short successes because the policy is in these states more often.
"""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray
from policies.habc.segments import Part, Windows, viability_labels
from policies.habc.settings import HabcSettings

UNBIASED = HabcSettings(balance_length=False, correct_interception=True, partition=True)
"""The settings under which the weights leave no known bias; p_v is measured with them, whatever it was trained with."""


def label_weights(windows: Windows, settings: HabcSettings, kappa: float) -> FloatArray:
    """Weights (N,) float32 of the viability labels, 0 for windows without a label.

    They correct for episodes that the data lack. Episodes of the early-stop control arm represent those that were
    stopped. Failures without an intervention represent the share `kappa` of failures that operators prevented.
    """
    weights = windows.rollout_weight.astype(np.float32)
    if settings.balance_length:
        weights /= windows.length
    if settings.correct_interception:
        failure = ~windows.success & (windows.part == Part.AUTONOMOUS)
        weights = np.where(failure, weights / (1 - min(kappa, 0.95)), weights)
    return np.where(viability_labels(windows, settings.partition) >= 0, weights, 0).astype(np.float32)


def true_weights(windows: Windows, kappa: float) -> FloatArray:
    """Weights (N,) float32 of the labels that p_v is measured with: those of training, without its known biases."""
    return label_weights(windows, UNBIASED, kappa)
