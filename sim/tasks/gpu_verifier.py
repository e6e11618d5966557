"""Says from the sensors whether the card is home. Frozen: the digest covers the thresholds and the rule's version."""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from sim.bimanual.kinematics import JOINTS, Rows, rotation_between
from sim.bimanual.rig import force_of, joints_of
from sim.bimanual.servo import reach_of
from sim.tasks.gpu_rig import ANGLES, CARD, GENTLE_N
from sim.tasks.gpu_scene import SLOT_M
from sim.verifiers.sight import clear_rows

_RULE = "card home: depth of both ends, roll, force; carried by the gripper; version 2"
_HALF_MM = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where the verifier draws its lines; `enpire verifier fit` may search for better ones."""

    depth_mm: float = 7.3
    """Least depth of the higher end, mean of the last samples: the truth asks for 7.5, the floor is at 8."""
    margin_mm: float = 0.45
    """A rollout is called finished only this much deeper."""
    roll_rad: float = 0.06
    aside_mm: float = 2.0
    pressed_n: float = 10.0
    """Smoothed force from below of a card that stands on the floor of the slot and is pressed."""
    samples: int = 5
    rest_mm_s: float = 6.0
    """Vertical speed of the gripper below which a pressed card counts as standing."""
    rest_rad_s: float = 0.15
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
        deep = (higher <= -limit.depth_mm - limit.margin_mm) & (np.abs(state[:, ANGLES][:, 0]) <= limit.roll_rad)
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
        last = self._at_the_end(state)
        higher = float(last[2]) + _HALF_MM * abs(float(last[4]))
        aside, roll = float(np.abs(last[:2]).max()), abs(float(last[3]))
        margin = min((-higher - limit.depth_mm) / 0.08, (limit.roll_rad - roll) / 0.004, limit.aside_mm - aside)
        # Two-sided confidence of a threshold against the noise of its own measurement (logistic, for lack of tails).
        confidence = 1.0 / (1.0 + float(np.exp(-min(abs(margin), 30.0) - 1.0)))
        return Verdict(kind="success" if margin >= 0.0 else "failure", confidence=confidence, source="verifier")

    def _at_rest(self, state: FloatArray) -> MaskArray:
        """Whether the right gripper hardly moves up, down or round, by its joints' speeds: a blow is no press."""
        first = joints_of("right").stop
        speeds = state[:, first : first + JOINTS].astype(np.float64)
        twist = (reach_of("right", state).jacobian @ speeds[:, :, None])[:, :, 0]
        limit = self.thresholds
        return (1e3 * np.abs(twist[:, 2]) <= limit.rest_mm_s) & (np.abs(twist[:, 3:]).max(axis=1) <= limit.rest_rad_s)

    def _at_the_end(self, state: Rows) -> Rows:
        """The card (6,) at the end: its mean in the frame of the gripper that holds it, carried on by the gripper.

        So the arm's joints are a second view: of a card that something hides at the end, and of one that still moved.
        """
        seen = state[:, CARD.start : ANGLES.stop]
        rows = clear_rows(seen.astype(np.float32))[-self.thresholds.samples :]
        now = reach_of("right", state[[*rows, -1]].astype(np.float32))
        back = now.turn[-1] @ np.swapaxes(now.turn[:-1], 1, 2)
        at_m = np.array(SLOT_M) + 1e-3 * seen[rows, :3]
        carried_m = now.at_m[-1] + (back @ (at_m - now.at_m[:-1])[:, :, None])[:, :, 0]
        turned = seen[rows, 3:] + rotation_between(now.turn[:-1], now.turn[-1:])
        return np.concatenate([1e3 * (carried_m.mean(axis=0) - SLOT_M), turned.mean(axis=0)])
