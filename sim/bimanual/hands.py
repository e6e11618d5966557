"""What both arms of several lanes shall do in one period, lane by lane, and the commands that come of it.

A scripted skill decides for each lane in turn where its grippers shall go; the kinematics are computed once for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from enpire.types import FloatArray
from sim.bimanual.kinematics import SIDES, Rows, Side, rotation_between
from sim.bimanual.rig import ACTION, GRIP_MM_S, JOINT_RAD_S, commands_of, force_of, joints_of, opening_of
from sim.bimanual.servo import both_reaches_of, speeds_for, towards

_GAIN_PER_S, _JOINT_GAIN_PER_S = 6.0, 4.0


@dataclass(slots=True)
class Hand:
    """One arm of one lane: where it is, and what it shall do in this period (as it stands: hold still)."""

    at_m: Rows
    """(3,): the point between the pads."""
    turn: Rows
    """(3, 3): axes of the tool."""
    joints: Rows
    """(6,) in rad."""
    opening_mm: float
    pads_n: float
    """Negative when the gripper presses on something."""
    upward_n: float = 0.0
    """Force that presses the gripper up, as where it came down on something."""
    goal_m: Rows | None = None
    goal_turn: Rows | None = None
    goal_joints: Rows | None = None
    speed_m_s: float = 0.0
    grip_mm_s: float = 0.0

    def go(self, at_m: Rows, turn: Rows, speed_m_s: float = 0.25) -> float:
        """Move straight towards a pose; how far it is, in m, 0.1 rad counting as 10 mm."""
        self.goal_m, self.goal_turn, self.speed_m_s = at_m, turn, speed_m_s
        off_rad = float(np.abs(rotation_between(self.turn[None], turn[None])).max())
        return float(np.sqrt(((at_m - self.at_m) ** 2).sum())) + 0.1 * off_rad

    def go_joints(self, joints: Sequence[float]) -> float:
        """Move in joint space; the largest error (rad)."""
        self.goal_joints = np.array(joints)
        return float(np.abs(self.goal_joints - self.joints).max())

    def open_to(self, opening_mm: float) -> bool:
        """Bring the fingers to an opening; whether they are there."""
        off_mm = opening_mm - self.opening_mm
        self.grip_mm_s = float(np.clip(8.0 * off_mm, -GRIP_MM_S, GRIP_MM_S))
        return abs(off_mm) < 3.0

    def squeeze(self, force_n: float) -> bool:
        """Close the fingers until both pads press so hard; whether they do."""
        firm = self.pads_n <= -force_n
        self.grip_mm_s = 0.0 if firm else -GRIP_MM_S
        return firm

    def holds(self, width_mm: float, force_n: float) -> bool:
        """Whether the pads press on something about as wide."""
        return self.pads_n <= -force_n and abs(self.opening_mm - width_mm) < 5.0


class Hands:
    """Both arms of some lanes; `of` gives one to a skill, `commands` what all of them come to."""

    def __init__(self, state: Rows) -> None:
        """Read the arms' part of state rows (n, state_dim)."""
        self._state = state
        self._now = both_reaches_of(state.astype(np.float32))
        self._hands: dict[tuple[int, Side], Hand] = {}

    def of(self, row: int, side: Side) -> Hand:
        """One arm of the row-th lane."""
        if (row, side) not in self._hands:
            state, opening, at = self._state[row], opening_of(side), self._row(row, side)
            self._hands[row, side] = Hand(
                at_m=self._now.at_m[at],
                turn=self._now.turn[at],
                joints=state[joints_of(side)],
                opening_mm=float(state[opening]),
                pads_n=float(state[opening + 1]),
                upward_n=float(state[force_of(side)][2]),
            )
        return self._hands[row, side]

    def commands(self) -> FloatArray:
        """(n, 14) within the limits; arms that nobody asked for hold still."""
        now, sent = self._now, np.zeros((len(self._state), len(ACTION)))
        at, turn, speed = now.at_m.copy(), now.turn.copy(), np.zeros(len(now.at_m))
        for (row, side), hand in self._hands.items():
            if hand.goal_m is not None and hand.goal_turn is not None:
                index = self._row(row, side)
                at[index], turn[index], speed[index] = hand.goal_m, hand.goal_turn, hand.speed_m_s
        speeds = speeds_for(now, towards(now, at, turn, speed, _GAIN_PER_S))
        for (row, side), hand in self._hands.items():
            if hand.goal_joints is not None:
                speeds[self._row(row, side)] = _JOINT_GAIN_PER_S * (hand.goal_joints - hand.joints)
            sent[row, commands_of(side).stop] = hand.grip_mm_s
        for side, limited in zip(SIDES, np.split(np.clip(speeds, -JOINT_RAD_S, JOINT_RAD_S), 2), strict=True):
            sent[:, commands_of(side)] = limited
        return sent.astype(np.float32)

    def _row(self, row: int, side: Side) -> int:
        """Where an arm of the row-th lane stands among the rows of both arms."""
        return SIDES.index(side) * len(self._state) + row
