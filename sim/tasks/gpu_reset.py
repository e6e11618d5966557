"""The reset of GPU insertion by the robot: unplug the card, hand it over for a better grasp when it is askew, hover.

The right arm holds the card by its upper edge; the left arm takes it by its end while the right one grasps it again. A
card that lies flat is picked up first (`gpu_pickup`); one that hangs too steeply for a hand-over is laid down.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray, Start
from sim.bimanual.kinematics import PARKED, READY, SIDES, Reach, Side, turning
from sim.bimanual.rig import ACTION, JOINT_RAD_S, commands_of, force_of, joints_of, opening_of
from sim.bimanual.servo import both_reaches_of, speeds_for
from sim.tasks import gpu_pickup
from sim.tasks.gpu_expert import card_twist
from sim.tasks.gpu_moves import (
    OFFER_MM,
    PATIENCE_TICKS,
    REST_TICKS,
    TAKEN_M,
    Seen,
    Work,
    askew,
    card_pose,
    carry,
    grip,
    lost,
    move,
    on_card,
    squeezed,
    to_joints,
    to_pose,
    upper_side_of,
)  # fmt: skip
from sim.tasks.gpu_rig import ANGLES, CARD, GRIP_TURN
from sim.tasks.gpu_scene import GRASP_M, SLOT_M

_OFFER = np.array([[0.0, 0.0, OFFER_MM, 0.0, 0.0, 0.0]])
"""Pose (1, 6) of the card at the hand-over (mm, rad)."""
_WAITING = (1.313, -1.11, 2.256, 1.335, -1.466, -0.412)
"""Joints (rad) of the left arm while it waits for the card, its gripper pointing along it."""
_RAISED = (-1.0, -1.5, 1.9, 1.335, -1.466, -0.412)
"""Joints (rad) at which the left arm turns its wrist on the way there, clear of the table."""
_BACK_M = 0.07
"""Distance of the left gripper before and after the hand-over."""
_ASIDE = turning(2, np.array([0.0]))[0]
"""(3, 3): the left tool's axes at the hand-over: pointing along the card, fingers on both sides."""
_OPEN_MM = 36.0
_STEEP_RAD, _TOO_STEEP_RAD = 0.2, 0.8
_AWAY_RAD = 0.4
"""Yaw of the left arm from which it is clear of a card at the hand-over."""
_NEAR = np.array([0.6, 0.6, 0.6, 0.014, 0.014, 0.014])
_LAY_MM = np.array([0.0, -130.0])
"""Place before the slot where a card that cannot be handed over is laid down."""
_TOUCH_N, _TIP_TICKS = 8.0, 36
_HOLDS = frozenset({"lift", "offer", "hover", "carry_off", "lay", "tip"})
"""Phases in which the right gripper holds the card, upright or nearly so."""
_LOSES = 6
"""Periods for which a held card must seem lost."""


class GpuReset:
    """A state machine of phases; the phases of a lane depend on that lane alone."""

    def __init__(self) -> None:
        """No lane is being reset."""
        self._work: dict[int, Work] = {}
        self._phases: dict[str, Callable[[Work, Seen], str]] = {
            "ready": _ready, "lift": _lift, "reach": _reach, "offer": _offer, "approach": _approach, "take": _take,
            "open_right": _open_right, "regrasp": _regrasp, "close": _close, "release": _release, "withdraw": _withdraw,
            "hover": _hover, "done": _hover, "unwind": _unwind, "beyond": _beyond, "carry_off": _carry_off,
            "lay": _lay, "tip": _tip, "back_off": _back_off, "over": gpu_pickup.over, "down": gpu_pickup.down,
            "clasp": gpu_pickup.clasp, "up": gpu_pickup.up, "present": gpu_pickup.present,
            "clear": gpu_pickup.clear, "upright": gpu_pickup.upright,
        }  # fmt: skip

    def begin(self, lane: int, start: Start) -> None:
        """Set the start that one lane moves to."""
        self._work[lane] = Work(goal=np.array(start.values)[None])

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 14) in rad/s and mm/s, which lanes (n,) rest at their start or are given up)."""
        sensed, arms = state.astype(np.float64), both_reaches_of(state)
        card_m, card_turn = card_pose(sensed)
        works = [self._work[int(lane)] for lane in lanes]
        for row, work in enumerate(works):
            one = slice(row, row + 1)
            both: dict[Side, Reach] = {side: arms.of([len(works) * index + row]) for index, side in enumerate(SIDES)}
            self._phase(work, Seen(state=sensed[one], arms=both, card_m=card_m[one], card_turn=card_turn[one]))
        commands = np.array([work.command for work in works]).reshape(-1, len(ACTION))
        # Straight motions are computed for all lanes at once.
        moves: list[tuple[int, Side]] = [(row, side) for row, work in enumerate(works) for side in work.twists]
        if moves:
            now = arms.of([len(works) * SIDES.index(side) + row for row, side in moves])
            twist, point_m = (np.concatenate([works[row].twists[side][part] for row, side in moves]) for part in (0, 1))
            speeds = np.clip(speeds_for(now, twist, point_m), -JOINT_RAD_S, JOINT_RAD_S)
            for (row, side), limited in zip(moves, speeds, strict=True):
                commands[row, commands_of(side)] = limited
        done = np.array([work.phase in ("done", "beyond") for work in works], dtype=np.bool_)
        commands[done] = 0.0
        return commands, done

    def _phase(self, work: Work, seen: Seen) -> None:
        """One period of one lane; its commands are in its work."""
        work.command[:] = 0.0
        work.twists.clear()
        work.gone = work.gone + 1 if work.phase in _HOLDS and not work.upper_side and lost(seen) else 0
        if work.gone >= _LOSES:
            work.phase, work.gone, work.ticks, work.rested = "ready", 0, 0, 0
        after = self._phases[work.phase](work, seen)
        work.ticks = work.ticks + 1 if after == work.phase else 0
        work.phase = after


def _ready(work: Work, seen: Seen) -> str:
    """Move an arm in an odd posture over the table's middle first, in joint space."""
    if lost(seen):
        work.upper_side, work.joints = 0, ()
        return "over" if upper_side_of(seen) else "reach"
    off = np.abs(np.array(READY["right"]) - seen.state[:, joints_of("right")])
    if work.ticks == 0 and float(off.max()) < 0.5:
        return "lift"
    grip(work, "right", -0.5)
    return "lift" if to_joints(work, "right", seen, READY["right"]) < 0.08 else "ready"


def _lift(work: Work, seen: Seen) -> str:
    """Lift the card, upright once it is clear of the slot; retry a stuck card from another posture."""
    height = float(seen.state[0, CARD.start + 2])
    goal = seen.state[:, CARD.start : ANGLES.stop].copy()
    goal[:, 2] = 30.0
    if height > 3.0:
        goal[:, 3:] = 0.0
    carry(work, seen, card_twist(seen.state, goal, 5.0, 0.08))
    grip(work, "right", -0.2)
    work.rested, work.raised = 0, False
    # The left arm parks meanwhile; from there its path to the hand-over is clear.
    if to_joints(work, "left", seen, PARKED["left"]) > 0.2 or height < 22.0:
        return "lift" if work.ticks < PATIENCE_TICKS else "unwind"
    odd = np.abs(np.array(READY["right"]) - seen.state[:, joints_of("right")]).max() > 0.35
    if odd and not work.unwound:
        return "unwind"
    if abs(_swing_rad(seen)) > _TOO_STEEP_RAD:
        return "carry_off"
    return "offer" if askew(seen) else "withdraw"


def _reach(work: Work, seen: Seen) -> str:
    """Open over a lost card, then grasp it where it stands; a flat card is picked up first."""
    if upper_side_of(seen) and work.ticks > REST_TICKS:
        work.joints = ()
        return "over"
    grip(work, "right", 1.0)
    at, turn = on_card(seen, np.array([0.0, 0.0, GRASP_M + 0.05]), GRIP_TURN)
    there = to_pose(work, "right", seen, at, turn)
    if there and float(seen.state[0, opening_of("right")]) > _OPEN_MM:
        return "regrasp"
    return "reach" if work.ticks < PATIENCE_TICKS else "unwind"


def _beyond(work: Work, seen: Seen) -> str:
    del work, seen  # The card is out of reach.
    return "beyond"


def _offer(work: Work, seen: Seen) -> str:
    """Move the card to the hand-over, upright or flat, and the left gripper to its side."""
    goal = gpu_pickup.flat_pose(work.upper_side) if work.upper_side else _OFFER.copy()
    # A card that hangs at a steep angle is offered at that angle: the right wrist cannot correct it.
    swing_rad = 0.0 if work.upper_side else _swing_rad(seen)
    goal[0, 4] = -swing_rad if abs(swing_rad) > _STEEP_RAD else 0.0
    waiting = (*_WAITING[:-1], _WAITING[-1] + work.upper_side * np.pi / 2)
    carry(work, seen, card_twist(seen.state, goal, 5.0, 0.1))
    grip(work, "left", 1.0)
    still = (np.abs(seen.state[0, CARD.start : ANGLES.stop] - goal[0]) < 4 * _NEAR).all()
    # First in joint space, then straight to a card at rest: on a straight path the forearm may reach its joint limit.
    if not work.raised:
        work.raised = to_joints(work, "left", seen, _RAISED) < 0.3
    elif not work.rested:
        work.rested = int(to_joints(work, "left", seen, waiting) < 0.05 and still)
    elif still:
        at, turn = on_card(seen, TAKEN_M - (_BACK_M, 0.0, 0.0), _ASIDE)
        there = to_pose(work, "left", seen, at, turn)
        work.rested = work.rested + 1 if there else 1
    if work.rested > REST_TICKS:
        return "approach"
    if work.ticks < 3 * PATIENCE_TICKS // 2:
        return "offer"
    return "carry_off" if work.unwound or work.upper_side else "unwind"


def _swing_rad(seen: Seen) -> float:
    """Pitch in rad of the right tool relative to the card that it holds."""
    held = np.swapaxes(seen.card_turn, 1, 2) @ seen.arms["right"].turn @ GRIP_TURN.T
    return float(np.arctan2(held[0, 0, 2], held[0, 2, 2]))


def _approach(work: Work, seen: Seen) -> str:
    at, turn = on_card(seen, TAKEN_M, _ASIDE)
    there = to_pose(work, "left", seen, at, turn)
    return "take" if there else _patient(work, "approach")


def _take(work: Work, seen: Seen) -> str:
    return "open_right" if squeezed(work, seen, "left") else _patient(work, "take")


def _open_right(work: Work, seen: Seen) -> str:
    if work.upper_side:
        return "clear"
    grip(work, "right", 1.0)
    return "regrasp" if float(seen.state[0, opening_of("right")]) > 28.0 else "open_right"


def _regrasp(work: Work, seen: Seen) -> str:
    at, turn = on_card(seen, np.array([0.0, 0.0, GRASP_M]), GRIP_TURN)
    return "close" if to_pose(work, "right", seen, at, turn) else _patient(work, "regrasp")


def _close(work: Work, seen: Seen) -> str:
    return "release" if squeezed(work, seen, "right") else _patient(work, "close")


def _release(work: Work, seen: Seen) -> str:
    grip(work, "left", 1.0)
    return "withdraw" if float(seen.state[0, opening_of("left")]) > _OPEN_MM else "release"


def _withdraw(work: Work, seen: Seen) -> str:
    """Move the left gripper back along the card if it is near, then lift the card if it is in the slot."""
    now = seen.arms["left"]
    left = seen.state[0, joints_of("left")]
    if np.abs(np.array(PARKED["left"]) - left).max() > 0.5:
        if not work.backed and float(now.at_m[0, 0]) > SLOT_M[0] + TAKEN_M[0] - _BACK_M + 0.005:
            back = np.concatenate([np.array([[-0.12, 0.0, 0.0]]), np.zeros((1, 3))], axis=1)
            move(work, seen, "left", back)
            return "withdraw"
        # Then back on the path that it came, without turning the wrist, which would hit the card.
        work.backed = True
        to_joints(work, "left", seen, _RAISED)
        if float(left[0]) > _AWAY_RAD:
            return "withdraw"
    work.backed = False
    return "lift" if float(seen.state[0, CARD.start + 2]) < 5.0 else "hover"


def _hover(work: Work, seen: Seen) -> str:
    """Move the card to its start and rest there; the left arm parks meanwhile."""
    carry(work, seen, card_twist(seen.state, work.goal, 5.0, 0.08))
    away = to_joints(work, "left", seen, PARKED["left"])
    near = (np.abs(seen.state[0, CARD.start : ANGLES.stop] - work.goal[0]) < _NEAR).all()
    work.rested = work.rested + 1 if near and away < 0.1 else 0
    if work.rested >= REST_TICKS:
        return "done"
    return "hover" if work.ticks < PATIENCE_TICKS else "unwind"


def _unwind(work: Work, seen: Seen) -> str:
    """Arms at a joint limit start again from good postures."""
    away = max(to_joints(work, "right", seen, READY["right"]), to_joints(work, "left", seen, PARKED["left"]))
    work.rested, work.unwound, work.upper_side, work.joints = 0, True, 0, ()
    return "ready" if away < 0.1 or work.ticks > PATIENCE_TICKS else "unwind"


def _patient(work: Work, phase: str) -> str:
    """Stay in the phase, or start again when it takes too long."""
    return phase if work.ticks < PATIENCE_TICKS else "unwind"


def _carry_off(work: Work, seen: Seen) -> str:
    """Move a card that cannot be handed over before the slot, as it hangs."""
    goal = seen.state[:, CARD.start : ANGLES.stop].copy()
    goal[0, :3] = (*_LAY_MM, OFFER_MM)
    carry(work, seen, card_twist(seen.state, goal, 5.0, 0.1))
    to_joints(work, "left", seen, PARKED["left"])
    near = (np.abs(seen.state[0, CARD] - goal[0, :3]) < 5.0).all()
    return "lay" if near or work.ticks > PATIENCE_TICKS else "carry_off"


def _lay(work: Work, seen: Seen) -> str:
    """Move down until the card touches the table."""
    carry(work, seen, np.array([[0.0, 0.0, -0.04, 0.0, 0.0, 0.0]]))
    touches = float(seen.state[0, force_of("right")][2]) > _TOUCH_N
    return "tip" if touches or work.ticks > PATIENCE_TICKS else "lay"


def _tip(work: Work, seen: Seen) -> str:
    """Lean the card to one side, so that it falls flat."""
    lean = 0.6 * seen.arms["right"].turn[:, :, 2]
    carry(work, seen, np.concatenate([np.array([[0.0, 0.0, 0.01]]), lean], axis=1))
    return "back_off" if work.ticks > _TIP_TICKS else "tip"


def _back_off(work: Work, seen: Seen) -> str:
    """Open the gripper and go up; the card falls flat."""
    grip(work, "right", 1.0)
    if float(seen.state[0, opening_of("right")]) > _OPEN_MM:
        move(work, seen, "right", np.array([[0.0, 0.0, 0.1, 0.0, 0.0, 0.0]]))
    work.upper_side, work.joints = 0, ()
    return "ready" if work.ticks > 60 else "back_off"
