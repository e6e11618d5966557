"""Says from the sensors whether the card is home. Frozen: the digest covers the thresholds and the rule's version."""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from sim.bimanual.rig import force_of
from sim.tasks.gpu_rig import ANGLES, CARD, GENTLE_N, SEATED_MM

_RULE = "card home: depth of both ends, roll, force; version 1"
_HALF_MM = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where the verifier draws its lines; `enpire verifier fit` may search for better ones."""

    depth_mm: float = SEATED_MM
    """Least depth of the higher end, mean of the last samples."""
    roll_rad: float = 0.06
    aside_mm: float = 2.0
    pressed_n: float = 6.0
    """Smoothed force from below of a card that stands on the floor of the slot and is pressed."""
    samples: int = 4
    unsafe_n: float = GENTLE_N
    """A force that no insertion may reach."""


class GpuVerifier:
    """Depth, tilt and force of the card over the last samples of a rollout."""

    needs_images = False

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """Judge with these thresholds, or with the shipped ones."""
        self.thresholds = thresholds or Thresholds()
        self.digest = hashlib.sha256(repr((_RULE, astuple(self.thresholds))).encode()).hexdigest()

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done: deep, upright, and pressed against the floor for some periods."""
        limit = self.thresholds
        higher = state[:, CARD][:, 2] + _HALF_MM * np.abs(state[:, ANGLES][:, 1])
        deep = (higher <= -limit.depth_mm) & (np.abs(state[:, ANGLES][:, 0]) <= limit.roll_rad)
        pressed = state[:, force_of("right")][:, 2] >= limit.pressed_n
        return deep & pressed & (ticks >= limit.samples)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its recorded states alone."""
        limit, state = self.thresholds, evidence.arrays.state.astype(np.float64)
        if float(np.linalg.norm(state[:, force_of("right")], axis=1).max()) >= limit.unsafe_n:
            return Verdict(kind="unsafe", confidence=1.0, source="verifier")
        last = state[-limit.samples :, CARD.start : ANGLES.stop].mean(axis=0)
        higher = float(last[2]) + _HALF_MM * abs(float(last[4]))
        aside = float(np.abs(last[:2]).max())
        margin = min(
            (-higher - limit.depth_mm) / 0.08, (limit.roll_rad - abs(float(last[3]))) / 0.004, limit.aside_mm - aside
        )
        # Two-sided confidence of a threshold against the noise of its own measurement (logistic, for lack of tails).
        confidence = 1.0 / (1.0 + float(np.exp(-min(abs(margin), 30.0) - 1.0)))
        return Verdict(kind="success" if margin >= 0.0 else "failure", confidence=confidence, source="verifier")
