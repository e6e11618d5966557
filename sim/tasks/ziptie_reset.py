"""The reset of zip-tie cutting by the robot: put the cutter back into its holder and hover over it.

The right arm moves the cutter, and picks it up where it lies flat on the table; the left arm returns to where it
watches the tail. The feeder supplies new ties: it is a machine next to the robot. In simulation it discards what it
holds and presents a whole tail within one period, as soon as both grippers are out of its way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray, Start
from sim.bimanual.arm_goals import Hand, Hands
from sim.bimanual.kinematics import READY, Rows, from_angles, reach
from sim.bimanual.rig import GRIP_MM_S
from sim.tasks.ziptie_expert import (
    HOLD_MM,
    TOUCH_N,
    CutterState,
    carry,
    fetch,
    half_turned,
    holds,
    keep,
    read_cutter_state,
    upright,
)
from sim.tasks.ziptie_rig import SEAT_M, SEATED_MM, WATCHING, WATCHING_MM
from sim.tasks.ziptie_scene import OPEN_MM

_WIDE_MM = 46.0
_OVER_M = np.array([0.0, 0.0, 0.12])
"""Displacement from the seat at which the tips of the blades are clear of the holder and of a tail."""
_CLEAR_M = np.array([0.0, 0.0, 0.05])
_LEAN_RAD, _LEAST_M, _SWING_M = 0.5, 0.0155, 0.16
_SIDEWAYS = np.array([(0.0, -1.16, 2.19, -1.57, 1.57, -0.54), (-1.18, -1.29, 2.42, 1.93, 1.41, 0.41)])
"""Joints (rad) of a level gripper over the holder: pointing along +y, and along -x."""
_ROUND = np.array([-1.0, -1.0, 1.0])
"""Half a turn about the vertical axis; the halves of the cutter are equal."""
_THERE_M, _REST_TICKS, _FALL_TICKS, _PATIENCE_TICKS = 0.0025, 4, 30, 150


@dataclass(slots=True)
class _Work:
    """State of one lane's reset."""

    goal_m: Rows
    """(3,) in m: where the gripper must hover."""
    phase: str = "look"
    ticks: int = 0
    """Periods in this phase."""
    rested: int = 0


class ZiptieReset:
    """A state machine of phases; the phases of a lane depend on that lane alone."""

    def __init__(self) -> None:
        """No lane is being reset."""
        self._work: dict[int, _Work] = {}
        self._phases: dict[str, Callable[[_Work, CutterState, Hand], str]] = {
            "look": _look, "open": _open, "raise": _raise, "over": _over, "lower": _lower, "release": _release,
            "clear": _clear, "hover": _hover, "done": _hover, "unwind": _unwind, "fetch": _fetch, "pick": _pick,
            "swing": _swing,
        }  # fmt: skip

    def begin(self, lane: int, start: Start) -> None:
        """Set the start that one lane moves to."""
        self._work[lane] = _Work(goal_m=SEAT_M + 1e-3 * np.array(start.values[4:]))

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 14) in rad/s and mm/s, which lanes (n,) have rested at their start)."""
        sensed = state.astype(np.float64)
        hands = Hands(sensed)
        done = np.zeros(len(lanes), dtype=np.bool_)
        for row, lane in enumerate(int(lane) for lane in lanes):
            work, left = self._work[lane], hands.of(row, "left")
            watching = left.go_joints(WATCHING) < 0.05 and left.open_to(WATCHING_MM)
            after = self._phases[work.phase](work, read_cutter_state(sensed[row]), hands.of(row, "right"))
            work.ticks = work.ticks + 1 if after == work.phase else 0
            work.rested = work.rested + 1 if after == work.phase == "hover" and watching else 0
            work.phase = after
            done[row] = after == "done"
        commands = hands.commands()
        commands[done] = 0.0
        return commands, done


def _look(work: _Work, scene: CutterState, hand: Hand) -> str:
    """Choose the first phase: a held cutter goes back, one in its holder stays there."""
    lean = float(np.abs(scene.turned[:2]).max())
    if holds(scene, hand):
        return "open" if lean < _LEAN_RAD else "swing"
    if float(np.abs(scene.cutter_m - SEAT_M).max()) < 1e-3 * SEATED_MM and lean < _LEAN_RAD:
        return "clear"
    if lean < _LEAN_RAD:
        return "fetch"
    if float(np.abs(_frame(scene)[2, :2]).max()) > np.cos(_LEAN_RAD):
        return "pick"
    # A cutter that was just dropped still falls. One that leans on something needs an operator; the reset check fails.
    return "look" if work.ticks < _FALL_TICKS else "clear"


def _frame(scene: CutterState) -> Rows:
    """The cutter's axes (3, 3)."""
    return from_angles(scene.turned[None])[0]


def _fetch(work: _Work, scene: CutterState, hand: Hand) -> str:
    """Grasp a standing cutter as one in its holder."""
    fetch(scene, hand, np.zeros(3))
    if holds(scene, hand):
        return "open"
    return "fetch" if work.ticks < _PATIENCE_TICKS else "unwind"


def _pick(work: _Work, scene: CutterState, hand: Hand) -> str:
    """Grasp a cutter that lies on its side from above, so that it can be hung up later."""
    if holds(scene, hand):
        return "swing"
    turn = _from_above(scene)
    goal = np.array([scene.cutter_m[0], scene.cutter_m[1], max(float(scene.cutter_m[2]), _LEAST_M)])
    if hand.upward_n > TOUCH_N and hand.at_m[2] > goal[2] + 0.02:
        # The gripper came down on the holder, next to which the cutter lies out of reach.
        return "clear"
    if float(np.abs(hand.at_m - goal)[:2].max()) > 0.006:
        hand.open_to(_WIDE_MM)
        hand.go(goal + _CLEAR_M, turn)
    elif hand.go(goal, turn, 0.12) < 0.004:
        hand.grip_mm_s = -0.5 * GRIP_MM_S
    else:
        hand.open_to(_WIDE_MM)
    return "pick" if work.ticks < 2 * _PATIENCE_TICKS else "unwind"


def _swing(work: _Work, scene: CutterState, hand: Hand) -> str:
    """Move up and turn until the gripper is level and the cutter in it nearly upright."""
    _grip(scene, hand)
    if hand.at_m[2] < _SWING_M and hand.turn[2, 0] < -0.8:
        hand.go(np.array([*hand.at_m[:2], _SWING_M + 0.02]), hand.turn)
        return "swing" if work.ticks < _PATIENCE_TICKS else "unwind"
    there = hand.go_joints(_sideways(scene, hand)) < 0.1
    return "over" if there or work.ticks > 2 * _PATIENCE_TICKS else "swing"


def _levels(scene: CutterState) -> Rows:
    """The gripper's axes (4, 3, 3) around the cutter as it is now, in which it is level when that is upright."""
    turns = reach("right", _SIDEWAYS).turn
    return _frame(scene) @ np.concatenate([turns, _ROUND[:, None] * turns])


def _from_above(scene: CutterState) -> Rows:
    """The one (3, 3) of those that points down now."""
    turns = _levels(scene)
    return turns[int(np.argmin(turns[:, 2, 0]))]


def _sideways(scene: CutterState, hand: Hand) -> list[float]:
    """The posture in which the cutter, as it is held, hangs most nearly upright in its holder's direction."""
    alike = [float(np.trace(turn.T @ hand.turn)) for turn in _levels(scene)]
    return _SIDEWAYS[int(np.argmax(alike)) % len(_SIDEWAYS)].tolist()


def _grip(scene: CutterState, hand: Hand) -> None:
    """Hold the cutter: by its handles as for cutting, or across them, where the spring does not press."""
    if abs(float(hand.turn[:, 1] @ _frame(scene)[:, 0])) > 0.7:
        keep(hand)
    else:
        hand.squeeze(18.0)


def _open(work: _Work, scene: CutterState, hand: Hand) -> str:
    """Open blades that are shut, possibly around a tail."""
    keep(hand)
    return "raise" if hand.opening_mm > HOLD_MM - 2.0 or work.ticks > _PATIENCE_TICKS else "open"


def _raise(work: _Work, scene: CutterState, hand: Hand) -> str:
    """Move straight up, over everything."""
    _grip(scene, hand)
    up = np.array([*scene.cutter_m[:2], SEAT_M[2] + _OVER_M[2]])
    carry(scene, hand, up, float(scene.turned[2]))
    high = scene.cutter_m[2] > up[2] - 0.012
    return "over" if high or work.ticks > _PATIENCE_TICKS else "raise"


def _over(work: _Work, scene: CutterState, hand: Hand) -> str:
    _grip(scene, hand)
    carry(scene, hand, SEAT_M + _OVER_M, 0.0)
    near = float(np.abs(scene.cutter_m - SEAT_M - _OVER_M)[:2].max()) < 0.0015
    near &= max(*np.abs(scene.turned[:2]), abs(half_turned(float(scene.turned[2])))) < 0.05
    if work.ticks > _PATIENCE_TICKS:
        return "unwind"
    return "lower" if near else "over"


def _lower(work: _Work, scene: CutterState, hand: Hand) -> str:
    _grip(scene, hand)
    goal = SEAT_M - (0.0, 0.0, 0.001)
    carry(scene, hand, np.array([*goal[:2], max(goal[2], scene.cutter_m[2] - 0.03)]), 0.0, 0.12)
    if work.ticks > _PATIENCE_TICKS:
        return "raise"
    return "release" if scene.cutter_m[2] < SEAT_M[2] + 0.0012 else "lower"


def _release(work: _Work, scene: CutterState, hand: Hand) -> str:
    hand.open_to(_WIDE_MM)
    return "clear" if hand.opening_mm > OPEN_MM + 7.0 else "release"


def _clear(work: _Work, scene: CutterState, hand: Hand) -> str:
    """Move the open gripper up from the cutter."""
    hand.open_to(_WIDE_MM)
    if holds(scene, hand):
        return "open"
    up = np.array([*hand.at_m[:2], SEAT_M[2] + _CLEAR_M[2]])
    hand.go(up, hand.turn)
    if hand.at_m[2] < up[2] - 0.01 and work.ticks < _PATIENCE_TICKS:
        return "clear"
    return "hover" if hand.turn[2, 0] < -0.8 else "unwind"


def _hover(work: _Work, scene: CutterState, hand: Hand) -> str:
    """Move to the start and rest there."""
    hand.open_to(_WIDE_MM)
    off_m = hand.go(work.goal_m, upright(0.0))
    if off_m > _THERE_M:
        work.rested = -1
    if work.rested >= _REST_TICKS:
        return "done"
    return "hover" if work.ticks < _PATIENCE_TICKS else "unwind"


def _unwind(work: _Work, scene: CutterState, hand: Hand) -> str:
    """An arm at a joint limit starts again from a good posture."""
    if holds(scene, hand):
        _grip(scene, hand)
    return "look" if hand.go_joints(READY["right"]) < 0.1 or work.ticks > _PATIENCE_TICKS else "unwind"
