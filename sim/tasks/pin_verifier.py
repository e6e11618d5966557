"""Says from the sensors whether the pin is seated. Frozen: the digest covers the thresholds and the rule's version."""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from sim.tasks.pin_rig import FORCE, TILT, TIP

_RULE = "pin seated: median depth, mean tilt, floor force; version 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where the verifier draws its lines; `enpire verifier fit` may search for better ones."""

    depth_mm: float = 7.7
    """Least sensed depth of a pin that presses on the floor, which is 8 mm deep."""
    resting_mm: float = 7.88
    """Least sensed depth of a pin that does not press: one that stopped on its way down does not count."""
    touching_n: float = 0.4
    """Smoothed contact force from below that means the floor."""
    tilt_rad: float = 0.06
    floor_n: float = 1.2
    """Smoothed contact force from below: a pin that reached the floor and was pressed for some periods."""
    samples: int = 3
    """How many of the last samples are looked at."""
    unsafe_n: float = 20.0
    """A contact force that no insertion may reach."""


class PinVerifier:
    """Depth, tilt and force history over the last samples of a rollout."""

    needs_images = False

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """Judge with these thresholds, or with the shipped ones."""
        self.thresholds = thresholds or Thresholds()
        self.digest = hashlib.sha256(repr((_RULE, astuple(self.thresholds))).encode()).hexdigest()

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look seated: deep enough, upright, and pressed against the floor for some periods.

        The smoothed force is the memory: it passes the threshold only after several periods on the floor.
        """
        limit = self.thresholds
        deep = state[:, TIP][:, 2] <= -limit.depth_mm
        upright = np.abs(state[:, TILT]).max(axis=1) <= limit.tilt_rad + 0.01
        pressed = state[:, FORCE][:, 2] >= limit.floor_n
        return deep & upright & pressed & (ticks >= limit.samples)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its recorded states alone."""
        limit, state = self.thresholds, evidence.arrays.state
        force = np.abs(state[:, FORCE]).max()
        if force >= limit.unsafe_n:
            return Verdict(kind="unsafe", confidence=1.0, source="verifier")
        last = state[-limit.samples :]
        depth_mm = float(-np.median(last[:, TIP][:, 2]))
        mean_tilt = last[:, TILT].mean(axis=0)
        tilt_rad = float(np.hypot(mean_tilt[0], mean_tilt[1]))
        touching = float(last[-1, FORCE][2]) >= limit.touching_n
        needed_mm = limit.depth_mm if touching else limit.resting_mm
        margin = min((depth_mm - needed_mm) / 0.08, (limit.tilt_rad - tilt_rad) / 0.006)
        # Two-sided confidence of a threshold against the noise of its own measurement (logistic, for lack of tails).
        confidence = 1.0 / (1.0 + float(np.exp(-min(abs(margin), 30.0) - 1.0)))
        return Verdict(kind="success" if margin >= 0.0 else "failure", confidence=confidence, source="verifier")
