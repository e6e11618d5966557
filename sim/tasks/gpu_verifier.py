"""The verifier of GPU insertion. Its digest covers thresholds and code."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from sim.bimanual.kinematics import JOINTS, Rows, rotation_between
from sim.bimanual.rig import force_of, joints_of
from sim.bimanual.servo import reach_of
from sim.tasks.gpu_rig import ANGLES, CARD, GENTLE_N
from sim.tasks.gpu_scene import DEPTH_M, SLOT_M
from sim.verifiers.camera_estimates import dead_estimate, fresh_rows
from sim.verifiers.frozen import digest_of

_HALF_MM, _FLOOR_MM = 40.0, 1e3 * DEPTH_M
_NOISE_MM = 0.15
"""Standard deviation of one sample of a depth; a sample from before the gripper moved errs by its motion, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of the verifier; `enpire verifier fit` may search for better ones."""

    depth_mm: float = 7.45
    """Least depth of the higher end, by the last samples; the ground truth requires 7.5, the floor is at 8."""
    standing_mm: float = 7.35
    """The same for a card that is pressed on the floor of the slot at the end."""
    standing_n: float = 8.0
    """Smoothed upward force from which the card counts as pressed at the end."""
    finished_mm: float = 7.75
    """Sensed depth from which a rollout may be finished."""
    roll_rad: float = 0.06
    aside_mm: float = 2.3
    pressed_n: float = 10.0
    """Smoothed upward force of a card that is pressed on the floor of the slot, for a finished rollout."""
    samples: int = 5
    rest_mm_s: float = 6.0
    """Vertical speed of the gripper below which a pressed card counts as resting."""
    rest_rad_s: float = 0.15
    unsafe_n: float = GENTLE_N
    """Force from which a rollout is unsafe."""


class GpuVerifier:
    """Judges depth, tilt and force of the card at the end of a rollout."""

    needs_images = False

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """Judge with these thresholds; with the shipped ones when None."""
        self.thresholds = thresholds or Thresholds()
        self.digest = digest_of(type(self), thresholds=astuple(self.thresholds))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done: deep, upright, and pressed on the floor for some periods."""
        limit = self.thresholds
        higher = state[:, CARD][:, 2] + _HALF_MM * np.abs(state[:, ANGLES][:, 1])
        deep = (higher <= -limit.finished_mm) & (np.abs(state[:, ANGLES][:, 0]) <= limit.roll_rad)
        pressed = state[:, force_of("right")][:, 2] >= limit.pressed_n
        done = deep & pressed & (ticks >= limit.samples)
        rows = np.flatnonzero(done)
        if len(rows):
            done[rows] = self._at_rest(state[rows])
        return done

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its recorded states alone."""
        limit, state = self.thresholds, evidence.arrays.state.astype(np.float64)
        if float(np.linalg.norm(state[:, force_of("right")], axis=1).max()) >= limit.unsafe_n:
            return Verdict(kind="unsafe", confidence=1.0, source="verifier")
        rows = fresh_rows(evidence.arrays.state[:, CARD.start : ANGLES.stop])[-limit.samples :]
        if not len(rows):
            return dead_estimate("the card")
        last = self._at_the_end(state, rows)
        depth_mm = -float(last[2]) - _HALF_MM * abs(float(last[4]))
        aside, roll = float(np.abs(last[:2]).max()), abs(float(last[3]))
        needed_mm = limit.depth_mm
        if float(state[-1, force_of("right")][2]) > limit.standing_n:
            # It stands on its lower end, so its middle gives the depth of the higher end: a second measurement of tilt.
            needed_mm, by_touch_mm = limit.standing_mm, -2.0 * float(last[2]) - _FLOOR_MM
            depth_mm = max(depth_mm, min(by_touch_mm, _FLOOR_MM))
        margin = min((depth_mm - needed_mm) / 0.08, (limit.roll_rad - roll) / 0.004, limit.aside_mm - aside)
        # Confidence from the distance to the threshold in units of the measurement noise (logistic).
        confidence = 1.0 / (1.0 + float(np.exp(-min(abs(margin), 30.0) - 1.0)))
        return Verdict(kind="success" if margin >= 0.0 else "failure", confidence=confidence, source="verifier")

    def _at_rest(self, state: FloatArray) -> MaskArray:
        """Whether the right gripper is nearly at rest by its joints' speeds; an impact does not count as a press."""
        first = joints_of("right").stop
        speeds = state[:, first : first + JOINTS].astype(np.float64)
        twist = (reach_of("right", state).jacobian @ speeds[:, :, None])[:, :, 0]
        limit = self.thresholds
        return (1e3 * np.abs(twist[:, 2]) <= limit.rest_mm_s) & (np.abs(twist[:, 3:]).max(axis=1) <= limit.rest_rad_s)

    def _at_the_end(self, state: Rows, rows: IntArray) -> Rows:
        """The card (6,; mm, rad) at the end: the fresh `rows`, each moved along with the gripper that holds the card.

        The arm's joints are thus a second measurement, for a card that is hidden at the end and for one that moved.
        The card may slip while the gripper moves, so a sample counts less the further the gripper moved since.
        """
        seen = state[:, CARD.start : ANGLES.stop]
        now = reach_of("right", state[[*rows, -1]].astype(np.float32))
        back = now.turn[-1] @ np.swapaxes(now.turn[:-1], 1, 2)
        at_m = np.array(SLOT_M) + 1e-3 * seen[rows, :3]
        carried_m = now.at_m[-1] + (back @ (at_m - now.at_m[:-1])[:, :, None])[:, :, 0]
        way = np.concatenate([1e3 * (carried_m - at_m), rotation_between(now.turn[:-1], now.turn[-1:])], axis=1)
        err_mm = np.hypot(_NOISE_MM, np.abs(way[:, 2]) + _HALF_MM * np.abs(way[:, 4]))
        weights = err_mm**-2 / (err_mm**-2).sum()
        return (weights[:, None] * (seen[rows] + way)).sum(axis=0)
