"""Goals of both arms of several lanes for one period, and the commands that follow from them.

A scripted skill sets the goals of each lane in turn; the kinematics are computed once for all lanes.
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
    """One arm of one lane: where it is, and its goal in this period; without a goal it holds still."""

    at_m: Rows
    """(3,) in m: the point between the pads."""
    turn: Rows
    """(3, 3): axes of the tool."""
    joints: Rows
    """(6,) in rad."""
    opening_mm: float
    pads_n: float
    """Force of the pads in N; negative when the gripper presses on an object."""
    upward_n: float = 0.0
    """Upward force on the gripper in N, as when it came down on an obstacle."""
    goal_m: Rows | None = None
    goal_turn: Rows | None = None
    goal_joints: Rows | None = None
    speed_m_s: float = 0.0
    grip_mm_s: float = 0.0

    def go(self, at_m: Rows, turn: Rows, speed_m_s: float = 0.25) -> float:
        """Move straight to a pose, (3,) in m and (3, 3); returns the distance in m, 0.1 rad counted as 10 mm."""
        self.goal_m, self.goal_turn, self.speed_m_s = at_m, turn, speed_m_s
        off_rad = float(np.abs(rotation_between(self.turn[None], turn[None])).max())
        return float(np.sqrt(((at_m - self.at_m) ** 2).sum())) + 0.1 * off_rad

    def go_joints(self, joints: Sequence[float]) -> float:
        """Move in joint space to (6,) in rad; returns the largest error in rad."""
        self.goal_joints = np.array(joints)
        return float(np.abs(self.goal_joints - self.joints).max())

    def open_to(self, opening_mm: float) -> bool:
        """Move the fingers to an opening; returns whether it is reached within 3 mm."""
        off_mm = opening_mm - self.opening_mm
        self.grip_mm_s = float(np.clip(8.0 * off_mm, -GRIP_MM_S, GRIP_MM_S))
        return abs(off_mm) < 3.0

    def squeeze(self, force_n: float) -> bool:
        """Close the fingers until the pads press with `force_n`; returns whether they do."""
        firm = self.pads_n <= -force_n
        self.grip_mm_s = 0.0 if firm else -GRIP_MM_S
        return firm

    def holds(self, width_mm: float, force_n: float) -> bool:
        """Whether the pads press with at least `force_n` on an object of `width_mm`, within 5 mm."""
        return self.pads_n <= -force_n and abs(self.opening_mm - width_mm) < 5.0


class Hands:
    """Both arms of some lanes: `of` gives one arm, `commands` gives the commands of all."""

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
        """(n, 14) float32 within the limits, in rad/s and mm/s; arms without a goal hold still."""
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
        """Index of an arm of the row-th lane among the rows of both arms."""
        return SIDES.index(side) * len(self._state) + row
