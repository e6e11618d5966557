"""Signals of the known failure modes, as figures: what to look at when a round does not help."""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, MaskArray
from policies.habc.segments import Windows, viability_labels
from policies.habc.weights import Advantages, effective_sample_share

SATURATED = 1.5
"""A gate's argument beyond this hardly moves the gate any more."""


def auc(scores: FloatArray, positive: MaskArray) -> float:
    """Area under the ROC curve (Mann-Whitney, ties count half); nan without both kinds."""
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative:
        return float("nan")
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    del values
    ranks = np.cumsum(counts) - (counts - 1) / 2
    total = float(ranks[inverse][positive].sum())
    return (total - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def moving(windows: Windows, spread: FloatArray) -> tuple[MaskArray, MaskArray]:
    """(which windows moved, which stalled), both (N,): upper and lower quarter of the commanded effort.

    The effort is the root mean square of the commands in units of `spread` (action_dim,). Without ground truth this
    stands for progress: a good efficiency head tells a move from a pause.
    """
    count = np.maximum(windows.mask.sum(axis=1), 1)
    effort = np.sqrt((np.square(windows.chunk / spread).mean(axis=2) * windows.mask).sum(axis=1) / count)
    if not len(effort):
        empty = np.zeros(0, np.bool_)
        return empty, empty
    low, high = np.quantile(effort, (0.25, 0.75))
    return effort >= high, effort <= low


def efficiency_auc(windows: Windows, said: Advantages, held_out: MaskArray, spread: FloatArray) -> float:
    """AUC of A_e for "moving against stalled" over successful held-out policy windows; nan when there are none."""
    rows = held_out & windows.success & windows.policy
    went, stalled = moving(windows.at(rows), spread)
    chosen = went != stalled
    return auc(said.efficiency_advantage[rows][chosen], went[chosen])


def held_out_brier(windows: Windows, said: Advantages, counts: FloatArray, partition: bool) -> float:
    """Mean squared error of p_v over labelled windows, each counted `counts` (N,) times; nan when there are none.

    What is held out must count as it does in training: the labels of a supervised round are short of failures.
    """
    label = viability_labels(windows, partition)
    rows = (counts > 0) & (label >= 0)
    if not rows.any():
        return float("nan")
    return float(np.average(np.square(said.viability[rows] - label[rows]), weights=counts[rows]))


def calibration_error(windows: Windows, said: Advantages, counts: FloatArray, partition: bool) -> float:
    """Calibration error of p_v, ten bins, over labelled windows of the newest round; counted as for the Brier score."""
    label = viability_labels(windows, partition)
    rows = (counts > 0) & (label >= 0)
    rows &= windows.round == (windows.round[windows.policy].max() if windows.policy.any() else -1)
    if not rows.any():
        return float("nan")
    p, count = said.viability[rows], counts[rows].astype(np.float64)
    bins = np.minimum((p * 10).astype(np.int64), 9)
    return float(np.abs(np.bincount(bins, count * (p - label[rows]))).sum() / count.sum())


def gate_metrics(windows: Windows, said: Advantages, weights: FloatArray) -> dict[str, float]:
    """Histogram of p_v, largest logits, saturation and effective sample size over the policy's windows."""
    own = windows.policy
    if not own.any():
        return {}
    p = said.viability[own].astype(np.float64)
    argument = (1 - p) * said.viability_advantage[own] + p * said.efficiency_advantage[own]
    clipped = np.clip(p, 1e-6, 1 - 1e-6)
    used = weights[own & (weights > 0)]
    return {
        "p_v_mean": float(p.mean()),
        "p_v_below_0.05": float((p < 0.05).mean()),
        "p_v_above_0.95": float((p > 0.95).mean()),
        "z_largest": float(np.abs(np.log(clipped / (1 - clipped))).max()),
        "gate_saturated": float((np.abs(argument) > SATURATED).mean()),
        "gate_mean": float(used.mean()) if len(used) else float("nan"),
        "a_e_spread": float(said.efficiency_advantage[own & windows.success].std())
        if (own & windows.success).any()
        else 0.0,
        "effective_share": effective_sample_share(used),
    }
