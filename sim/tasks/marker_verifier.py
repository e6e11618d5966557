"""The verifier of the marker task. Its digest covers thresholds and code."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from sim.so101.kinematics import tips
from sim.tasks.marker_rig import ARM, CUP_M, GRIPPER, RIM_M, STICK_M
from sim.verifiers.frozen import digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of the verifier; `enpire verifier fit` may search for better ones."""

    deep_mm: float = 19.0
    """Least depth of the tip below the rim, as the joints say."""
    aside_mm: float = 21.0
    """Largest distance of the tip from the cup's axis; the cup has 25 mm."""
    holds_percent: float = 5.0
    """Least opening of jaws that still hold the marker; it keeps them at 8 %."""
    finished_mm: float = 22.0
    """Depth from which a rollout may be finished."""
    samples: int = 5
    """Least number of commands before a rollout may be finished."""


class MarkerVerifier:
    """Computes the marker's tip from the sensed joints: deep in the cup, with the marker still in the jaws.

    The joints do not show whether the cup was moved: put it where the task says, and fix it there.
    """

    needs_images = False

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """Judge with these thresholds; with the shipped ones when None."""
        self.thresholds = thresholds or Thresholds()
        self.digest = digest_of(type(self), thresholds=astuple(self.thresholds))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done: a tip well below the rim, inside the cup."""
        deep_mm, aside_mm = tip_in_cup(state)
        limit = self.thresholds
        inside = (deep_mm >= limit.finished_mm) & (aside_mm <= limit.aside_mm)
        return inside & (state[:, GRIPPER] >= limit.holds_percent) & (ticks >= limit.samples)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its last recorded state."""
        # The noise of the encoders moves the tip by half a millimetre, so the last sample is enough.
        limit, last = self.thresholds, evidence.arrays.state[-1:]
        deep_mm, aside_mm = (float(values[0]) for values in tip_in_cup(last))
        if float(last[0, GRIPPER]) < limit.holds_percent:
            reason = "The jaws are closed: the marker was dropped."
            return Verdict(kind="failure", confidence=0.9, source="verifier", reason=reason)
        margin_mm = min(deep_mm - limit.deep_mm, limit.aside_mm - aside_mm)
        confidence = 1.0 / (1.0 + float(np.exp(-min(abs(margin_mm) / 1.5, 30.0) - 1.0)))
        return Verdict(kind="success" if margin_mm >= 0.0 else "failure", confidence=confidence, source="verifier")


def tip_in_cup(state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(depth of the tip below the rim, distance from the cup's axis), (n,) each in mm, for states (n, 6)."""
    at_m = tips(state[:, ARM].astype(np.float64), STICK_M).at_m
    aside_m = np.hypot(at_m[:, 0] - CUP_M[0], at_m[:, 1] - CUP_M[1])
    return (1e3 * (RIM_M - at_m[:, 2])).astype(np.float32), (1e3 * aside_m).astype(np.float32)
