"""Viability labels with their weights: how much each label counts, so that p_v is the probability of success.

Every visit of a state counts alike. Then p_v of a state is the share of its visits from which the policy succeeds. Long
failures have more windows than short successes because the policy is in these states more often. Only episodes that
were drawn as unsupervised before they began are labelled with their outcome, because they show how the policy ends by
itself. With `bootstrap` supervised ones are labelled with p_v later in the same part of the policy, and so are rollouts
that were stopped early.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray
from policies.habc.segments import Part, Windows, viability_labels
from policies.habc.settings import HabcSettings

UNBIASED = HabcSettings(balance_length=False, correct_interception=True, partition=True, label_supervised=False)
"""The settings under which the weights leave no known bias; p_v is measured with them, whatever it was trained with."""


def labels_supervised(windows: Windows, settings: HabcSettings) -> bool:
    """Whether supervised episodes are labelled with their outcomes: the recipe says so, or few others were collected.

    With `bootstrap` they need no outcomes.
    """
    if settings.label_supervised or not settings.partition:
        return True
    if settings.bootstrap:
        return False
    unsupervised = np.unique(windows.episode[windows.policy & ~windows.supervised])
    return len(unsupervised) < settings.few_unsupervised


def labels(windows: Windows, settings: HabcSettings) -> npt.NDArray[np.int8]:
    """Viability labels (N,) int8 under a recipe: 1 success, 0 failure, -1 no label."""
    return viability_labels(windows, settings.partition, labels_supervised(windows, settings))


def bootstrap_shares(windows: Windows, settings: HabcSettings) -> FloatArray:
    """Share (N,) float32 of p_v later in each label: 0 where the episode ends before the later state.

    It is 1 in supervised episodes that have no outcome as label, and `bootstrap` elsewhere.
    """
    shares = np.where(labels(windows, settings) < 0, float(settings.bootstrap > 0), settings.bootstrap)
    return np.where(windows.label_ends | ~windows.policy, 0, shares).astype(np.float32)


def label_weights(windows: Windows, settings: HabcSettings, kappa: float) -> FloatArray:
    """Weights (N,) float32 of the viability labels, 0 for windows without a label.

    A label counts less for each round that it is older than the newest, because it describes an earlier policy. The
    other factors correct for episodes that the data lack. Episodes of the early-stop control arm represent those that
    were stopped, except in rounds where `bootstrap` finds these in the data themselves. Where supervised episodes are
    labelled, failures without an intervention also represent the share `kappa` of failures that operators prevented.
    """
    complete = np.isin(windows.round, windows.round[windows.part == Part.BEFORE_STOP]) & (settings.bootstrap > 0)
    weights = np.where(complete, 1, windows.rollout_weight).astype(np.float32)
    if settings.balance_length:
        weights /= windows.length
    if settings.label_decay < 1 and windows.policy.any():
        age = windows.round[windows.policy].max() - windows.round
        weights *= np.float32(settings.label_decay) ** np.maximum(age, 0).astype(np.float32)
    if settings.correct_interception and labels_supervised(windows, settings):
        failure = ~windows.success & (windows.part == Part.AUTONOMOUS)
        weights = np.where(failure, weights / (1 - min(kappa, 0.95)), weights)
    labelled = windows.policy if settings.bootstrap else labels(windows, settings) >= 0
    return np.where(labelled, weights, 0).astype(np.float32)


def true_weights(windows: Windows, kappa: float) -> FloatArray:
    """Weights (N,) float32 of the labels that p_v is measured with: those of training, without its known biases."""
    return label_weights(windows, UNBIASED, kappa)
