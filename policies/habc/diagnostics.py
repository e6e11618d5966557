"""Metrics that show the known failure modes of HABC."""

from __future__ import annotations

import math

import numpy as np

from enpire.types import FloatArray, MaskArray
from policies.habc.segments import Windows
from policies.habc.weights import Advantages, effective_sample_share

SATURATED = 1.5
"""A gate counts as saturated if its argument is beyond this."""


def auc(scores: FloatArray, positive: MaskArray) -> float:
    """Area under the ROC curve of scores (N,) for `positive` (N,) bool; ties count half; nan with one class only."""
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative:
        return float("nan")
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    del values
    ranks = np.cumsum(counts) - (counts - 1) / 2
    total = float(ranks[inverse][positive].sum())
    return (total - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def moving_and_stalled(windows: Windows, spread: FloatArray) -> tuple[MaskArray, MaskArray]:
    """Windows in the upper and in the lower quarter of the commanded effort, both (N,) bool.

    The effort is the root mean square of the commands over `spread` (action_dim,), their standard deviation. It stands
    for progress, for which there is no ground truth: a good efficiency head ranks moving windows above stalled ones.
    """
    count = np.maximum(windows.mask.sum(axis=1), 1)
    effort = np.sqrt((np.square(windows.chunk / spread).mean(axis=2) * windows.mask).sum(axis=1) / count)
    if not len(effort):
        empty = np.zeros(0, np.bool_)
        return empty, empty
    low, high = np.quantile(effort, (0.25, 0.75))
    return effort >= high, effort <= low


def efficiency_auc(windows: Windows, advantages: Advantages, held_out: MaskArray, spread: FloatArray) -> float:
    """AUC of A_e, moving against stalled windows, over successful held-out policy windows; nan without any."""
    rows = held_out & windows.success & windows.policy
    moving, stalled = moving_and_stalled(windows.at(rows), spread)
    chosen = moving != stalled
    return auc(advantages.efficiency_advantage[rows][chosen], moving[chosen])


def held_out_brier(windows: Windows, advantages: Advantages, counts: FloatArray) -> float:
    """Brier score: mean squared error of p_v over labelled windows of the newest round; nan without any.

    `counts`: (N,), the true weights of held-out labels, 0 elsewhere (`policies.habc.labels.true_weights`).
    """
    rows = _newest(windows, counts)
    if not rows.any():
        return float("nan")
    return float(np.average(np.square(advantages.viability[rows] - windows.success[rows]), weights=counts[rows]))


def calibration_error(windows: Windows, advantages: Advantages, counts: FloatArray) -> float:
    """Expected calibration error of p_v, ten bins, over labelled windows of the newest round; nan without any.

    `counts`: (N,), the true weights of held-out labels, 0 elsewhere (`policies.habc.labels.true_weights`).
    """
    rows = _newest(windows, counts)
    if not rows.any():
        return float("nan")
    p, count = advantages.viability[rows], counts[rows].astype(np.float64)
    bins = np.minimum((p * 10).astype(np.int64), 9)
    return float(np.abs(np.bincount(bins, count * (p - windows.success[rows]))).sum() / count.sum())


def _newest(windows: Windows, counts: FloatArray) -> MaskArray:
    """Windows (N,) bool of the policy's newest round that count."""
    newest = windows.round[windows.policy].max() if windows.policy.any() else -1
    return (counts > 0) & (windows.round == newest)


def p_v_at_start(windows: Windows, advantages: Advantages) -> float:
    """Mean p_v at the starts of the policy's newest rollouts, in [0, 1]; 0 without any."""
    rows = _newest(windows, np.ones(len(windows), np.float32)) & windows.policy & (windows.tick == 0)
    return float(advantages.viability[rows].mean()) if rows.any() else 0.0


def gate_metrics(windows: Windows, advantages: Advantages, gates: FloatArray, weights: FloatArray) -> dict[str, float]:
    """Distribution of p_v, largest logit, gate saturation and effective sample size over the policy's windows.

    `gates` and `weights`: (N,), of the N windows.
    """
    own = windows.policy
    if not own.any():
        return {}
    p = advantages.viability[own].astype(np.float64)
    clipped = np.clip(p, 1e-6, 1 - 1e-6)
    used = weights[own & (weights > 0)]
    return {
        "p_v_mean": float(p.mean()),
        "p_v_below_0.05": float((p < 0.05).mean()),
        "p_v_above_0.95": float((p > 0.95).mean()),
        "z_largest": float(np.abs(np.log(clipped / (1 - clipped))).max()),
        "gate_saturated": float((np.abs(gates[own] - 1) > math.tanh(SATURATED)).mean()),
        "gate_mean": float(used.mean()) if len(used) else float("nan"),
        "a_e_spread": float(advantages.efficiency_advantage[own & windows.success].std())
        if (own & windows.success).any()
        else 0.0,
        "effective_share": effective_sample_share(used),
    }
