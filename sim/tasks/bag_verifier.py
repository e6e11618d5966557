"""The verifier of bag packing. Its digest covers thresholds and code.

An object counts as packed when both cameras last saw it in the bag, below the rim, and no gripper holds anything.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from sim.bimanual.kinematics import Rows
from sim.bimanual.rig import force_of, opening_of
from sim.tasks.bag_rig import BAG, GENTLE_N, TILT, TIPPED_RAD, VIEWS, place_of, seen_of, within_bag
from sim.tasks.bag_scene import FLOOR_M, INNER_M, RIM_M
from sim.verifiers.frozen import digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of the verifier; `enpire verifier fit` may search for better ones."""

    aside_x_mm: float = 1e3 * INNER_M[0]
    aside_y_mm: float = 1e3 * INNER_M[1]
    rim_mm: float = 1e3 * RIM_M
    """Largest height of the middle of an object inside."""
    tilt_rad: float = TIPPED_RAD
    held_n: float = 8.0
    """Force of the pads from which they hold something."""
    seen_s: float = 0.6
    """Time for which both cameras must have seen every object before a rollout may be finished."""
    samples: int = 4
    unsafe_n: float = GENTLE_N
    """Force from which a rollout is unsafe."""


def margins_mm(state: Rows, limit: Thresholds) -> Rows:
    """(n, 2, 3): depth in mm inside the bag at which each camera sees each object; negative outside."""
    places = np.stack(
        [np.stack([state[:, place_of(view, thing)] for thing in range(3)], axis=1) for view in VIEWS], axis=1
    )
    local = within_bag(state[:, BAG], places.reshape(len(state), 6, 3)).reshape(places.shape)
    return np.minimum.reduce(
        [
            limit.aside_x_mm - np.abs(local[..., 0]),
            limit.aside_y_mm - np.abs(local[..., 1]),
            limit.rim_mm - local[..., 2],
            local[..., 2] - 1e3 * FLOOR_M,
        ]
    )


def holding(state: Rows, limit: Thresholds) -> MaskArray:
    """Which rows (n, state_dim) show an object between the pads of the right gripper: (n,) bool."""
    opening = opening_of("right")
    return (state[:, opening + 1] <= -limit.held_n) & (state[:, opening] > 12.0)


class BagVerifier:
    """Judges by the last estimates of two cameras, the bag's tilt, and the right gripper."""

    needs_images = False

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """Judge with these thresholds; with the shipped ones when None."""
        self.thresholds = thresholds or Thresholds()
        self.digest = digest_of(type(self), thresholds=astuple(self.thresholds))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done: both cameras see every object in the bag now, and the right gripper is empty."""
        limit, rows = self.thresholds, state.astype(np.float64)
        inside = (margins_mm(rows, limit) > 3.0).all(axis=(1, 2))
        seen = np.stack([rows[:, seen_of(view, thing)] for view in VIEWS for thing in range(3)], axis=1)
        upright = rows[:, TILT] < limit.tilt_rad
        return inside & (seen >= limit.seen_s).all(axis=1) & upright & ~holding(rows, limit) & (ticks >= limit.samples)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its recorded states alone."""
        limit, state = self.thresholds, evidence.arrays.state.astype(np.float64)
        felt = max(float(np.linalg.norm(state[:, force_of(side)], axis=1).max()) for side in ("left", "right"))
        if felt >= limit.unsafe_n:
            return Verdict(kind="unsafe", confidence=1.0, source="verifier")
        last = np.median(state[-limit.samples :], axis=0, keepdims=True)
        margin = min(float(margins_mm(last, limit).min()) / 2.0, (limit.tilt_rad - float(last[0, TILT])) / 0.02)
        margin = -1.0 if holding(last, limit)[0] and margin > 0.0 else margin
        # Confidence from the distance to the threshold in units of the measurement noise (logistic).
        confidence = 1.0 / (1.0 + float(np.exp(-min(abs(margin), 30.0) - 1.0)))
        return Verdict(kind="success" if margin > 0.0 else "failure", confidence=confidence, source="verifier")
