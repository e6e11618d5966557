"""Picks up a card that lies flat: grasp it across its width, then turn it upright with the left hand.

The right gripper opens wide, grasps both long edges of the card and presents it flat to the left gripper. The left
gripper takes it by its end, as in every hand-over, and turns it upright. Then the right gripper takes its upper edge.
"""

from __future__ import annotations

import numpy as np

from sim.bimanual.kinematics import PARKED, READY, Rows, from_angles, reach, rotation_between, solve
from sim.bimanual.rig import opening_of
from sim.tasks.gpu_moves import (
    OFFER_MM,
    PATIENCE_TICKS,
    REST_TICKS,
    TAKEN_M,
    Seen,
    Work,
    grip,
    squeezed,
    to_joints,
    to_pose,
    upper_side_of,
)
from sim.tasks.gpu_rig import GRIP_TURN
from sim.tasks.gpu_scene import BODY_HALF_M, GRASP_M, SLOT_M

_MOST_TRIES = 4
_ACROSS_M, _HELD_M = 0.0375, 0.045
"""Heights in the card's frame: middle of blade and body, where the open gripper descends, and grasp point."""
_OVER_M, _DOWN_M = 0.09, 0.0065
"""Heights of the gripper's point over the middle of the card: before and at the grasp."""
_UP_M = np.array([[0.0, 0.0, 0.12]])
"""Displacement of the gripper when it goes up."""
_OFFERED_M = np.array([0.0, 0.0, 1e-3 * OFFER_MM])
_ABOVE_M = np.array([0.0, 0.0, GRASP_M + 0.07])
"""Waiting position of the right gripper over the card."""
_WIDE_MM, _GONE_MM = 2e3 * BODY_HALF_M[2], 50.0
_NEAR_M, _NEAR_RAD, _NEAR_JOINTS_RAD = 0.004, 0.05, 0.03


def grasp_frame(upper_side: int, flip: int) -> Rows:
    """(3, 3): the tool's axes in the frame of a flat card: pointing at its upper side, fingers along its height."""
    return np.array([[0.0, 0.0, -upper_side * flip], [-upper_side, 0.0, 0.0], [0.0, flip, 0.0]], dtype=np.float64)


def flat_pose(upper_side: int) -> Rows:
    """The pose (1, 6) in mm and rad at which a card is presented flat, so that the left hand grasps its usual point."""
    aside_mm = 1e3 * (_HELD_M - TAKEN_M[2])
    return np.array([[0.0, upper_side * aside_mm, OFFER_MM + 1e3 * TAKEN_M[2], upper_side * np.pi / 2, 0.0, 0.0]])


def over(work: Work, seen: Seen) -> str:
    """Move over the table's middle, then over the card, in the posture for both grasp and hand-over."""
    grip(work, "right", 1.0)
    grip(work, "left", 1.0)
    if not work.joints:
        parked = to_joints(work, "left", seen, PARKED["left"])
        ready = to_joints(work, "right", seen, READY["right"])
        if max(parked, ready) > 0.1 and work.ticks < PATIENCE_TICKS:
            return "over"
        work.tries += 1
        if work.tries > _MOST_TRIES or not _plan(work, seen):
            return "beyond"
    there = to_joints(work, "right", seen, work.joints) < _NEAR_JOINTS_RAD
    open_wide = float(seen.state[0, opening_of("right")]) > _WIDE_MM + 15.0
    if work.ticks > 2 * PATIENCE_TICKS:
        return "ready"
    return "down" if there and open_wide else "over"


def _plan(work: Work, seen: Seen) -> bool:
    """Choose the orientation of the grasp; returns whether the arm can reach both grasp and hand-over."""
    work.upper_side, best = upper_side_of(seen), np.inf
    above = seen.card_m + (seen.card_turn @ np.array([0.0, work.upper_side * _OVER_M, _ACROSS_M])[:, None])[:, :, 0]
    for flip in (work.upper_side, -work.upper_side) if work.upper_side else ():
        taken = _posture(above, seen.card_turn @ grasp_frame(work.upper_side, flip))
        shown = _posture(*_shown(work.upper_side, flip))
        wound = max(abs(joints[-1]) for joints in (taken, shown)) if taken and shown else np.inf
        if wound < best:
            best, work.flip, work.joints = wound, flip, taken
    return bool(best < np.inf)


def _shown(upper_side: int, flip: int) -> tuple[Rows, Rows]:
    """Pose of the right gripper, (1, 3) in m and (1, 3, 3), when it presents a card flat."""
    pose = flat_pose(upper_side)
    turn = from_angles(pose[:, 3:])
    middle = np.array(SLOT_M) + 1e-3 * pose[:, :3] + (turn @ np.array([0.0, 0.0, _HELD_M])[:, None])[:, :, 0]
    return middle, turn @ grasp_frame(upper_side, flip)


def _posture(at_m: Rows, turn: Rows) -> tuple[float, ...]:
    """Joints (6) in rad of the right arm for a pose, with the smallest last joint; empty: it cannot reach the pose."""
    found: list[tuple[float, ...]] = []
    for wound in (0.0, 1.5, -1.5, 2.5, -2.5):
        joints = solve("right", at_m, turn, np.array([[*READY["right"][:-1], wound]]))
        now = reach("right", joints)
        near = np.abs(now.at_m - at_m).max() < _NEAR_M
        if near and np.abs(rotation_between(now.turn, turn)).max() < _NEAR_RAD:
            found.append(tuple(float(v) for v in joints[0]))
    return min(found, key=lambda joints: abs(joints[-1]), default=())


def down(work: Work, seen: Seen) -> str:
    """Move straight down over the card, with a finger at each long edge."""
    if work.upper_side == 0 or upper_side_of(seen) != work.upper_side:
        return "ready"
    place = seen.card_m + (seen.card_turn @ np.array([0.0, work.upper_side * _DOWN_M, _ACROSS_M])[:, None])[:, :, 0]
    there = to_pose(work, "right", seen, place, seen.card_turn @ grasp_frame(work.upper_side, work.flip))
    grip(work, "right", 1.0)
    return "clasp" if there or work.ticks > PATIENCE_TICKS // 2 else "down"


def clasp(work: Work, seen: Seen) -> str:
    """Close on the long edges."""
    if squeezed(work, seen, "right", _WIDE_MM):
        work.aim_m = seen.arms["right"].at_m + _UP_M
        return "up"
    return "clasp" if work.ticks < PATIENCE_TICKS else _again(work)


def up(work: Work, seen: Seen) -> str:
    """Move straight up with the card."""
    grip(work, "right", -0.2)
    now = seen.arms["right"]
    if to_pose(work, "right", seen, work.aim_m, now.turn):
        return "present"
    return "up" if _still_held(seen) and work.ticks < PATIENCE_TICKS else _again(work)


def present(work: Work, seen: Seen) -> str:
    """Move in joint space to the hand-over, with the card flat."""
    grip(work, "right", -0.2)
    if work.ticks == 0:
        work.joints = _posture(*_shown(work.upper_side, work.flip))
    if to_joints(work, "right", seen, work.joints) < _NEAR_JOINTS_RAD:
        work.rested, work.raised = 0, False
        return "offer"
    return "present" if _still_held(seen) and work.ticks < PATIENCE_TICKS else _again(work)


def clear(work: Work, seen: Seen) -> str:
    """The right gripper opens wide and goes up; the left one holds the card."""
    now = seen.arms["right"]
    if float(seen.state[0, opening_of("right")]) < _WIDE_MM + 12.0:
        grip(work, "right", 1.0)
        work.aim_m = now.at_m + _UP_M
        return "clear"
    there = to_pose(work, "right", seen, work.aim_m, now.turn)
    return "upright" if there or work.ticks > PATIENCE_TICKS else "clear"


def upright(work: Work, seen: Seen) -> str:
    """The left hand turns the card upright at the hand-over; the right one turns for the usual grasp."""
    offered = np.array([SLOT_M]) + _OFFERED_M
    if work.ticks == 0:
        work.joints = _posture(offered + _ABOVE_M, GRIP_TURN[None])
    there = to_pose(work, "left", seen, offered + TAKEN_M, np.eye(3)[None])
    if work.joints:
        there &= to_joints(work, "right", seen, work.joints) < _NEAR_JOINTS_RAD
    work.rested = work.rested + 1 if there else 0
    if work.rested < REST_TICKS and work.ticks < PATIENCE_TICKS:
        return "upright"
    work.upper_side, work.rested = 0, 0
    return "reach"


def _still_held(seen: Seen) -> bool:
    return float(seen.state[0, opening_of("right")]) > _GONE_MM


def _again(work: Work) -> str:
    work.upper_side, work.joints, work.rested = 0, (), 0
    return "ready"
