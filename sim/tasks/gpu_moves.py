"""What the phases of the reset of GPU insertion share: state of one lane, motions of its arms, checks of the grasp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from enpire.types import FloatArray
from sim.bimanual.kinematics import Reach, Rows, Side, from_angles, rotation_between
from sim.bimanual.rig import ACTION, GRIP_MM_S, JOINT_RAD_S, commands_of, joints_of, opening_of
from sim.bimanual.servo import towards
from sim.tasks.gpu_rig import ANGLES, CARD, GRIP_TURN
from sim.tasks.gpu_scene import BODY_HALF_M, GRASP_M, SLOT_M

OFFER_MM = 60.0
"""Height over the slot at which the card is handed over."""
TAKEN_M = np.array([-0.042, 0.0, 0.033])
"""Grasp point of the left gripper, in the card's frame."""
REST_TICKS = 3
PATIENCE_TICKS = 210
"""Periods after which a phase is given up; it usually takes half as long."""
_HELD_N, _SQUEEZE_TICKS = 10.0, 12
_ASKEW_M, _ASKEW_RAD = 0.005, 0.03
_FLAT = 0.75
_LOST_M, _SLIPPED_M = 0.03, 0.075
"""Largest distance of the card from the gripper that holds it: with open pads, and with pads that press."""


@dataclass(slots=True)
class Work:
    """State of one lane's reset."""

    goal: Rows
    phase: str = "ready"
    ticks: int = 0
    """Periods in this phase."""
    rested: int = 0
    raised: bool = False
    backed: bool = False
    """Whether the left gripper has moved back from the card that it held."""
    unwound: bool = False
    """Whether the arms have started again from good postures."""
    gone: int = 0
    """Periods for which a card that the right gripper holds has seemed lost."""
    tries: int = 0
    """Attempts to pick the card up from the table."""
    upper_side: int = 0
    """Upper side of a card that is held flat: 1 the side towards its y, -1 the other; 0: it is not flat."""
    flip: int = 1
    """Orientation of the gripper when it grasps a flat card: 1 or -1."""
    joints: tuple[float, ...] = ()
    """Goal of an arm in joint space, in rad."""
    aim_m: Rows = field(default_factory=lambda: np.zeros((1, 3)))
    """(1, 3): goal of a gripper in a straight line."""
    command: FloatArray = field(default_factory=lambda: np.zeros(len(ACTION), dtype=np.float32))
    twists: dict[Side, tuple[Rows, Rows]] = field(default_factory=dict[Side, tuple[Rows, Rows]])
    """Arms that move straight in this period -> the twist (1, 6; m/s, rad/s) and the point (1, 3) that it moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The sensors of one lane in this period; every array is a stack of one."""

    state: Rows
    arms: Mapping[Side, Reach]
    card_m: Rows
    """(1, 3): the card's position in the world."""
    card_turn: Rows
    """(1, 3, 3): its axes in the world."""


def arm(work: Work, side: Side, speeds: Rows) -> None:
    """Command joint speeds (1, 6) within the limits."""
    work.command[commands_of(side)] = np.clip(speeds, -JOINT_RAD_S, JOINT_RAD_S)[0]


def move(work: Work, seen: Seen, side: Side, twist: Rows, point_m: Rows | None = None) -> None:
    """Command a twist (1, 6) of the gripper, or of a point (1, 3) that it carries."""
    work.twists[side] = twist, seen.arms[side].at_m if point_m is None else point_m


def carry(work: Work, seen: Seen, twist: Rows) -> None:
    """Command a twist (1, 6) of the card that the right gripper holds."""
    move(work, seen, "right", twist, seen.card_m)


def grip(work: Work, side: Side, direction: float) -> None:
    """Open (1) or close (-1) a gripper, or slower."""
    work.command[commands_of(side).stop] = direction * GRIP_MM_S


def to_joints(work: Work, side: Side, seen: Seen, joints: tuple[float, ...]) -> float:
    """Move an arm in joint space; returns the largest error in rad."""
    error = np.array(joints) - seen.state[:, joints_of(side)]
    arm(work, side, 4.0 * error)
    return float(np.abs(error).max())


def to_pose(work: Work, side: Side, seen: Seen, at_m: Rows, turn: Rows) -> bool:
    """Move a gripper towards a pose, (1, 3) in m and (1, 3, 3); returns whether it is there."""
    now = seen.arms[side]
    move(work, seen, side, towards(now, at_m, turn, 0.15))
    off_m = float(np.abs(at_m - now.at_m).max())
    return off_m < 1.2e-3 and float(np.abs(rotation_between(now.turn, turn)).max()) < 0.015


def card_pose(state: Rows) -> tuple[Rows, Rows]:
    """Position (n, 3) in m and axes (n, 3, 3) of the card in the world; state (n, state_dim)."""
    return np.array(SLOT_M) + 1e-3 * state[:, CARD], from_angles(state[:, ANGLES])


def on_card(seen: Seen, place_m: Rows, frame: Rows) -> tuple[Rows, Rows]:
    """A pose in the frame of the card, (3,) in m and (3, 3), expressed in the world, (1, 3) and (1, 3, 3)."""
    return seen.card_m + (seen.card_turn @ place_m[:, None])[:, :, 0], seen.card_turn @ frame


def lost(seen: Seen) -> bool:
    """Whether the card is not in the right gripper."""
    wanted, _ = on_card(seen, np.array([0.0, 0.0, GRASP_M]), GRIP_TURN)
    away_m = float(np.sqrt(((seen.arms["right"].at_m - wanted) ** 2).sum()))
    return away_m > (_SLIPPED_M if pinched(seen, "right") else _LOST_M)


def pinched(seen: Seen, side: Side, wide_mm: float = 2e3 * BODY_HALF_M[1]) -> bool:
    """Whether the pads of a gripper press on something of the card's thickness, or of `wide_mm`."""
    opening_mm, pads_n = seen.state[0, opening_of(side) : opening_of(side) + 2]
    return abs(float(opening_mm) - wide_mm) < 3.0 and float(pads_n) < -_HELD_N


def squeezed(work: Work, seen: Seen, side: Side, wide_mm: float = 2e3 * BODY_HALF_M[1]) -> bool:
    """Close a gripper; returns whether it has pressed on the card for 12 periods."""
    grip(work, side, -1.0)
    work.rested = work.rested + 1 if work.ticks and pinched(seen, side, wide_mm) else 0
    return work.rested >= _SQUEEZE_TICKS


def askew(seen: Seen) -> bool:
    """Whether the right gripper holds the card far off its middle, or at an angle."""
    wanted, frame = on_card(seen, np.array([0.0, 0.0, GRASP_M]), GRIP_TURN)
    now = seen.arms["right"]
    off_m = float(np.abs(now.at_m - wanted).max())
    return off_m > _ASKEW_M or float(np.abs(rotation_between(now.turn, frame)).max()) > _ASKEW_RAD


def upper_side_of(seen: Seen) -> int:
    """Upper side of the card: 1 the side towards its y, -1 the other; 0: it stands or leans steeply."""
    upward = float(seen.card_turn[0, 2, 1])
    return int(np.sign(upward)) if abs(upward) > _FLAT else 0
