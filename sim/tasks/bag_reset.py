"""The reset of bag packing by the robot: take the objects out, put each at its place, then put the bag back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray, Start
from sim.bimanual.arm_goals import Hand, Hands
from sim.bimanual.kinematics import Rows
from sim.bimanual.rig import ACTION
from sim.tasks.bag_carry import Carry, PlaceGoal
from sim.tasks.bag_flap import Opener, Shift
from sim.tasks.bag_rig import HOME, TIPPED_RAD, wrapped
from sim.tasks.bag_scene import KNOB_MM, THINGS
from sim.tasks.bag_world import HELD_N, TRAVEL_M, World, downward, retreat, travel

_GOALS = (slice(3, 5), slice(6, 8), slice(8, 10))
"""Indices of each object's position (mm) in the start values; its direction (rad) follows, except for the can."""
_ASIDE_M = np.array([0.0, 0.13, 0.03])
"""Place where the right arm puts down what it holds when the reset begins."""
_OFF_M, _OFF_RAD = 0.004, 0.09
_BAG_OFF_M, _BAG_OFF_RAD = 0.0035, 0.03
_FAR_M = 0.045
_SOUGHT_TICKS = 40
_REST_TICKS = 3
_HOME_RAD = 0.1


@dataclass(slots=True)
class _Work:
    """State of one lane's reset."""

    goal: Rows
    phase: str = "free"
    rested: int = 0
    world: World = field(default_factory=World)
    opener: Opener = field(default_factory=Opener)
    shift: Shift = field(default_factory=Shift)
    carry: Carry | None = None
    lost: int = 0
    """Failed carries from the bag since it was moved."""

    def place_goal(self, thing: int, opened: bool = True) -> PlaceGoal:
        """Where an object belongs."""
        at = 1e-3 * self.goal[_GOALS[thing]]
        turn_rad = float(self.goal[_GOALS[thing].stop]) if thing != 1 else 0.0
        return PlaceGoal(goal_m=np.array([*at, THINGS[thing].half_m]), turn_rad=turn_rad, opened=opened)

    def off(self, thing: int) -> bool:
        """Whether an object is not where it belongs."""
        goal, place = self.place_goal(thing), self.world.places_m[thing]
        away = bool((np.abs(place[:2] - goal.goal_m[:2]) > _OFF_M).any())
        period = (0.5 * np.pi, 0.0, np.pi)[thing]
        turned = wrapped(np.array(self.world.turns_rad[thing] - goal.turn_rad), period) if period else 0.0
        return away or self.world.inside(thing) or abs(float(turned)) > _OFF_RAD

    def bag_off(self) -> bool:
        """Whether the bag is not where it belongs."""
        off = self.world.bag - self.goal[:3] * (1e-3, 1e-3, 1.0)
        return bool((np.abs(off[:2]) > _BAG_OFF_M).any()) or abs(float(off[2])) > _BAG_OFF_RAD

    def bag_far(self) -> bool:
        """Whether the bag is where the right arm may not reach into it."""
        off = self.world.bag[:2] - 1e-3 * self.goal[:2]
        return float(np.hypot(*off)) > _FAR_M


class BagReset:
    """A state machine of phases; the phases of a lane depend on that lane alone."""

    def __init__(self) -> None:
        """No lane is being reset."""
        self._work: dict[int, _Work] = {}
        self._phases: dict[str, Callable[[_Work, Hand, Hand], str]] = {
            "free": _free, "clear": _clear, "shut": _shut, "shift": _shift, "home": _home, "done": _home,
        }  # fmt: skip

    def begin(self, lane: int, start: Start) -> None:
        """Set the start that one lane moves to."""
        self._work[lane] = _Work(goal=np.array(start.values))

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 14) in rad/s and mm/s, which lanes (n,) have rested at their start).

        A bag that leans on a hand comes down again. One that has tipped over is never done: an operator must help.
        """
        done = np.zeros(len(lanes), dtype=np.bool_)
        if not len(lanes):
            return np.zeros((0, len(ACTION)), dtype=np.float32), done
        rows = state.astype(np.float64)
        hands = Hands(rows)
        for row, lane in enumerate(int(lane) for lane in lanes):
            work = self._work[lane]
            work.world.sense(rows[row])
            left, right = hands.of(row, "left"), hands.of(row, "right")
            if work.world.tilt_rad < TIPPED_RAD:
                work.phase = self._phases[work.phase](work, left, right)
            else:
                _release_all(work, left, right)
            done[row] = work.phase == "done"
        commands = hands.commands()
        commands[done] = 0.0
        return commands, done


class BagHome:
    """Shut the flap if the left hand holds it, then move both arms home; bag and objects stay where they are."""

    def __init__(self) -> None:
        """No lane is on its way."""
        self._work: dict[int, _Work] = {}

    def begin(self, lane: int, start: Start) -> None:
        """Let one lane move home."""
        self._work[lane] = _Work(goal=np.array(start.values))

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 14) in rad/s and mm/s, which lanes (n,) rest at home)."""
        rows, done = state.astype(np.float64), np.zeros(len(lanes), dtype=np.bool_)
        hands = Hands(rows)
        for row, lane in enumerate(int(lane) for lane in lanes):
            work = self._work[lane]
            work.world.sense(rows[row])
            _go_home(work, hands.of(row, "left"), hands.of(row, "right"))
            done[row] = work.rested >= _REST_TICKS
        commands = hands.commands()
        commands[done] = 0.0
        return commands, done


def _go_home(work: _Work, left: Hand, right: Hand) -> None:
    """One period of one lane; the right hand leaves the bag before the flap moves."""
    if work.phase == "free":
        holds_flap = left.holds(KNOB_MM, HELD_N) and work.world.tilt_rad < TIPPED_RAD
        work.phase, work.opener.phase = ("shut", "swing") if holds_flap else ("home", "over")
    right_rad = retreat(right, HOME["right"])
    if np.isinf(right_rad):
        return
    if work.phase == "shut":
        work.phase = "home" if work.opener.shut(work.world, left) else "shut"
        return
    away_rad = max(right_rad, retreat(left, HOME["left"]))
    work.rested = work.rested + 1 if away_rad < _HOME_RAD else 0


def _free(work: _Work, left: Hand, right: Hand) -> str:
    """Put down what the right arm still holds, at a free place."""
    if right.pads_n > -3.0 or right.opening_mm < 12.0:
        return "shut" if work.bag_far() else "clear"
    if work.rested == 0:
        work.rested = int(travel(right, _ASIDE_M, downward("right", -1.2)) < 0.01)
    elif right.go(_ASIDE_M, downward("right", -1.2), 0.15) < 0.005:
        right.open_to(46.0)
    if work.rested == 0:
        right.squeeze(12.0)
    return "free"


def _clear(work: _Work, left: Hand, right: Hand) -> str:
    """Move every object to its place, those on the table before those in the bag."""
    world = work.world
    off = sorted(
        (thing for thing in range(3) if work.off(thing)), key=lambda one: (world.seen_s[one] == 0.0, world.inside(one))
    )
    if work.carry is not None and work.carry.seeking and work.carry.thing not in off:
        work.carry = None
    if work.carry is None:
        if not off:
            work.rested = 0
            return "shut"
        work.carry = Carry(thing=off[0])
    # An object that no camera finds may be in the shut bag.
    sought = work.carry.phase == "look" and work.carry.ticks > _SOUGHT_TICKS
    wanted = sought or work.opener.phase != "over" or any(world.inside(thing) for thing in range(3))
    opened = work.opener.step(world, left) if wanted else True
    if world.inside(work.carry.thing) and work.carry.seeking and not opened:
        return "clear"
    result = work.carry.step(world, right, work.place_goal(work.carry.thing, opened))
    if result != "going":
        work.lost += result == "lost" and world.inside(work.carry.thing)
        work.carry = None
    return "shut" if work.lost > 1 and work.bag_off() else "clear"


def _shut(work: _Work, left: Hand, right: Hand) -> str:
    """The left arm shuts the flap; the right arm goes home meanwhile."""
    # A hand that is still in the bag would drag it along.
    if np.isinf(retreat(right, HOME["right"])) or not work.opener.shut(work.world, left):
        return "shut"
    work.shift, work.lost = Shift(), 0
    return "shift" if work.bag_off() else "home"


def _shift(work: _Work, left: Hand, right: Hand) -> str:
    """Move the bag to its place."""
    right.go_joints(HOME["right"])
    return "home" if work.shift.step(work.world, left, work.goal[:3] * (1e-3, 1e-3, 1.0)) else "shift"


def _home(work: _Work, left: Hand, right: Hand) -> str:
    """Move both arms home; retry what is still out of place."""
    away = max(left.go_joints(HOME["left"]), right.go_joints(HOME["right"]))
    left.open_to(26.0)
    right.open_to(26.0)
    work.rested = work.rested + 1 if away < 0.1 else 0
    if work.rested < 2 * _REST_TICKS:
        return "home"
    if any(work.off(thing) for thing in range(3)):
        return "clear"
    if work.bag_off():
        work.shift = Shift()
        return "shift"
    return "done"


def _release_all(work: _Work, left: Hand, right: Hand) -> None:
    """Open both grippers and go up slowly, so that a bag that a hand has lifted comes down."""
    for hand in (left, right):
        if hand.open_to(46.0):
            hand.go(np.array([*hand.at_m[:2], TRAVEL_M]), hand.turn, 0.05)
    work.opener, work.carry = Opener(), None
    work.phase = "clear"
