"""The verifier of the pin tasks. Its digest covers thresholds and code."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from sim.tasks.pin_rig import FORCE, TILT, TIP, VELOCITY
from sim.verifiers.camera_estimates import dead_estimate, fresh_rows
from sim.verifiers.frozen import digest_of

_PERIOD_S, _FLOOR_MM = 1.0 / 30.0, 8.0
_STOPPED = 0.6
"""Share of the force of a press of three periods from which the floor counts as reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of the verifier; `enpire verifier fit` may search for better ones."""

    depth_mm: float = 7.4
    """Least sensed depth of a pin that presses on the floor, at 8 mm."""
    finished_mm: float = 7.7
    """Sensed depth from which a rollout may be finished."""
    resting_mm: float = 7.85
    """Least sensed depth of a pin that does not press, so that one that stopped on its way down does not count."""
    aside_mm: float = 1.0
    """Largest sensed distance of the tip from the hole, per axis."""
    touching_n: float = 0.4
    """Smoothed upward contact force from which the pin counts as touching the floor."""
    tilt_rad: float = 0.06
    floor_n: float = 1.2
    """Smoothed upward contact force of a pin that was pressed on the floor for some periods."""
    floor_n_s_mm: float = 0.13
    """The same for each mm/s of commanded descent; an impact of one period does not reach it, a press does."""
    still_mm_s: float = 3.5
    """A pin that descends faster at the end, by its command, without a contact force, is still moving."""
    samples: int = 5
    """Number of the last fresh samples that count."""
    unsafe_n: float = 20.0
    """Contact force from which a rollout is unsafe."""


class PinVerifier:
    """Judges depth, tilt and force over the last samples of a rollout."""

    needs_images = False

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """Judge with these thresholds; with the shipped ones when None."""
        self.thresholds = thresholds or Thresholds()
        self.digest = digest_of(type(self), thresholds=astuple(self.thresholds))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look seated: deep, upright, and pressed on the floor for some periods.

        The force is smoothed, so it passes the threshold only after several periods on the floor.
        """
        limit = self.thresholds
        deep = state[:, TIP][:, 2] <= -limit.finished_mm
        deep &= np.abs(state[:, TIP][:, :2]).max(axis=1) <= limit.aside_mm
        upright = np.abs(state[:, TILT]).max(axis=1) <= limit.tilt_rad + 0.01
        sinking_mm_s = np.maximum(0.0, -state[:, VELOCITY][:, 2])
        pressed = state[:, FORCE][:, 2] >= np.maximum(limit.floor_n, limit.floor_n_s_mm * sinking_mm_s)
        return deep & upright & pressed & (ticks >= limit.samples)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its recorded states alone."""
        limit, state = self.thresholds, evidence.arrays.state
        force = np.abs(state[:, FORCE]).max()
        if force >= limit.unsafe_n:
            return Verdict(kind="unsafe", confidence=1.0, source="verifier")
        rows = fresh_rows(state[:, : TILT.stop])[-limit.samples :]
        if not len(rows):
            return dead_estimate("the pin")
        depth_mm, touching = self._depth_mm(state, rows), float(state[-1, FORCE][2]) >= limit.touching_n
        seen = state[rows]
        aside_mm, mean_tilt = float(np.abs(np.median(seen[:, TIP][:, :2], axis=0)).max()), seen[:, TILT].mean(axis=0)
        tilt_rad = float(np.hypot(mean_tilt[0], mean_tilt[1]))
        needed_mm = limit.depth_mm if touching else limit.resting_mm
        margin = min((depth_mm - needed_mm) / 0.08, (limit.tilt_rad - tilt_rad) / 0.006)
        margin = min(margin, (limit.aside_mm - aside_mm) / 0.08)
        if self._sinking(state[-1]):
            margin = min(margin, -1.0)
        # Confidence from the distance to the threshold in units of the measurement noise (logistic).
        confidence = 1.0 / (1.0 + float(np.exp(-min(abs(margin), 30.0) - 1.0)))
        return Verdict(kind="success" if margin >= 0.0 else "failure", confidence=confidence, source="verifier")

    def _sinking(self, last: FloatArray) -> bool:
        """Whether the pin is still commanded to descend at the end, and nothing has stopped it."""
        limit, speed = self.thresholds, -float(last[VELOCITY][2])
        return speed > limit.still_mm_s and float(last[FORCE][2]) < _STOPPED * limit.floor_n_s_mm * speed

    def _depth_mm(self, state: FloatArray, rows: IntArray) -> float:
        """Depth in mm at the end, from the last fresh `rows`, each advanced by the commanded descent until a contact.

        Touch is thus a second measurement, for a pin that is hidden at the end and for one that moved meanwhile.
        """
        limit = self.thresholds
        speed, force = -state[:, VELOCITY][:, 2], state[:, FORCE][:, 2]
        free = force < np.maximum(limit.touching_n, limit.floor_n_s_mm * speed)
        sunk_mm = np.cumsum(np.where(free, speed, 0.0)) * _PERIOD_S
        seen_mm = -state[rows, TIP][:, 2]
        return float(np.median(np.clip(seen_mm + sunk_mm[-1] - sunk_mm[rows], None, np.maximum(seen_mm, _FLOOR_MM))))
