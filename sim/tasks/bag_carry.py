"""Pick and place with the right arm in bag packing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sim.bimanual.arm_goals import Hand
from sim.bimanual.kinematics import Rows
from sim.tasks.bag_rig import HOME, wrapped
from sim.tasks.bag_scene import FLOOR_M, THINGS
from sim.tasks.bag_world import BRISK_M_S, FIRM_N, HELD_N, PATIENCE_TICKS, TRAVEL_M, World, downward, retreat, travel

_EASY_RAD = -1.2
"""The right tool's yaw in the middle of its wrist's range."""
_PADS_M = 0.0145
"""Least height of the gripper's point over the support of the object."""
_SPARE_MM = 10.0
"""Opening of the fingers beyond the width of the object."""
_PAD_HALF_M, _ROOM_M = 0.004, 0.009
"""Half the thickness of a pad, and the free space that a pad needs."""
_WAITING_M = np.array([0.13, 0.0, 0.0])
"""Displacement from the goal at which the hand waits, clear of the flap, until the bag is open."""
_DOWN_M_S, _DOWN_PER_S, _LAST_M_S = 0.15, 2.0, 0.015
"""Speed of going down: at most, per metre that is left, and at the end."""
_JAM_N = 14.0
"""Upward force from which a pad counts as standing on something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceGoal:
    """Where an object must be placed."""

    goal_m: Rows
    """(3,): the middle of the object."""
    turn_rad: float
    """Direction of the object there, as in `turn_of`."""
    opened: bool = True
    """Whether the bag is open, or the place is not in it."""


@dataclass(slots=True, kw_only=True)
class Carry:
    """Pick and place of one object; each phase returns the next one."""

    thing: int
    phase: str = "look"
    ticks: int = 0
    firm: int = 0
    yaw_rad: float = _EASY_RAD
    crosswise: bool = False
    """Whether the object is grasped across its other two sides."""
    above_m: float = 0.0
    """Height of the gripper's point over the middle of the held object."""

    @property
    def seeking(self) -> bool:
        """Whether the hand is not at the object yet."""
        return self.phase in ("look", "over")

    @property
    def width_mm(self) -> float:
        """Width of the object between the pads."""
        thing = THINGS[self.thing]
        return thing.length_mm if self.crosswise else thing.width_mm

    def step(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Run one period; returns `going`, `done` or `lost`."""
        before = self.phase
        if not wanted.opened and before not in ("look", "over", "bring") and _over_bag(world, hand):
            return "going"
        after = _PHASES[before](self, world, hand, wanted)
        waits = before == "bring" and not wanted.opened
        self.ticks = self.ticks + 1 if after == before and not waits else 0
        if after in ("done", "lost"):
            return after
        self.phase = after
        return "lost" if self.ticks > PATIENCE_TICKS else "going"

    def look(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Move out of the cameras' view until one sees the object."""
        self._open(hand)
        if world.seen_s[self.thing] > 0.0:
            self._choose(world)
            return "over"
        retreat(hand, HOME["right"])
        return "look"

    def over(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Move over the object, with open fingers turned to its sides."""
        self.yaw_rad = self._towards(world.turns_rad[self.thing], self.yaw_rad)
        ready = self._open(hand)
        there = travel(hand, world.places_m[self.thing], downward("right", self.yaw_rad)) < 0.006
        return "down" if there and ready else "over"

    def down(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Go down around the object, with the pads clear of its support."""
        self.yaw_rad = self._towards(world.turns_rad[self.thing], self.yaw_rad)
        place = world.places_m[self.thing]
        floor_m = FLOOR_M if world.inside(self.thing) else 0.0
        height_m = max(float(place[2]) + 0.001, floor_m + _PADS_M)
        goal = np.array([place[0], place[1], height_m])
        self.above_m, self.firm = height_m - float(place[2]), 0
        if world.pressed_n > _JAM_N:
            return "lost"
        return "grip" if _descend(hand, goal, downward("right", self.yaw_rad)) < 0.004 else "down"

    def grip(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Close the fingers until they hold the object."""
        self.firm = self.firm + 1 if hand.squeeze(FIRM_N) else 0
        if hand.opening_mm < self.width_mm - 6.0:
            return "lost"
        return "lift" if self.firm > 3 else "grip"

    def lift(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Move straight up."""
        goal = np.array([hand.at_m[0], hand.at_m[1], TRAVEL_M])
        there = hand.go(goal, downward("right", self.yaw_rad), BRISK_M_S) < 0.025
        return self._kept(hand, "bring" if there else "lift")

    def bring(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Move over the goal, or wait next to it until the bag is open."""
        goal = wanted.goal_m if wanted.opened else wanted.goal_m + _WAITING_M
        there = travel(hand, goal, downward("right", self._goal_yaw(wanted))) < 0.005
        return self._kept(hand, "lower" if there and wanted.opened else "bring")

    def lower(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Go down until the object nearly stands, or stands on something."""
        goal = wanted.goal_m + np.array([0.0, 0.0, self.above_m + 0.003])
        there = _descend(hand, goal, downward("right", self._goal_yaw(wanted))) < 0.004
        return self._kept(hand, "open" if there or world.pressed_n > _JAM_N else "lower")

    def open(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Open the fingers."""
        self._open(hand)
        return "rise" if hand.opening_mm > self.width_mm + _SPARE_MM - 4.0 else "open"

    def rise(self, world: World, hand: Hand, wanted: PlaceGoal) -> str:
        """Move straight up."""
        goal = np.array([hand.at_m[0], hand.at_m[1], TRAVEL_M])
        return "done" if hand.go(goal, hand.turn, BRISK_M_S) < 0.04 else "rise"

    def _open(self, hand: Hand) -> bool:
        return hand.open_to(self.width_mm + _SPARE_MM)

    def _choose(self, world: World) -> None:
        """Choose the sides of the object next to which the pads have more space."""
        rooms: list[float] = []
        for crosswise in (False, True):
            self.crosswise = crosswise
            turn_rad = world.turns_rad[self.thing] + (0.5 * np.pi if crosswise else 0.0)
            reach_m = 0.5e-3 * (self.width_mm + _SPARE_MM) + _PAD_HALF_M
            way = reach_m * np.array([np.cos(turn_rad), np.sin(turn_rad), 0.0])
            place = world.places_m[self.thing]
            rooms.append(min(*(world.room(place + side * way, self.thing) for side in (-1.0, 1.0)), _ROOM_M))
        self.crosswise = rooms[1] > rooms[0]
        self.yaw_rad = self._towards(world.turns_rad[self.thing], _EASY_RAD)

    def _kept(self, hand: Hand, after: str) -> str:
        """The next phase, or `lost` when the pads have closed or do not press any more."""
        hand.squeeze(FIRM_N)
        gone = hand.opening_mm < self.width_mm - 6.0 or hand.pads_n > -HELD_N
        return "lost" if gone else after

    def _goal_yaw(self, wanted: PlaceGoal) -> float:
        return self._towards(wanted.turn_rad, _EASY_RAD)

    def _towards(self, turn_rad: float, near_rad: float) -> float:
        """The tool's yaw in rad that puts the pads across a direction of the object, nearest to `near_rad`."""
        across_rad = turn_rad if self.crosswise else turn_rad - 0.5 * np.pi
        return near_rad + float(wrapped(np.array(across_rad - near_rad), np.pi))


_PHASES: Mapping[str, Callable[[Carry, World, Hand, PlaceGoal], str]] = {
    "look": Carry.look, "over": Carry.over, "down": Carry.down, "grip": Carry.grip, "lift": Carry.lift,
    "bring": Carry.bring, "lower": Carry.lower, "open": Carry.open, "rise": Carry.rise,
}  # fmt: skip


def _descend(hand: Hand, goal_m: Rows, turn: Rows) -> float:
    """Go down to a place (3,), slower near it; returns the distance in m. Delayed commands must not press."""
    off_m = float(np.sqrt(((goal_m - hand.at_m) ** 2).sum()))
    return hand.go(goal_m, turn, min(_DOWN_M_S, _LAST_M_S + _DOWN_PER_S * off_m))


def _over_bag(world: World, hand: Hand) -> bool:
    """Whether the hand is within reach of the falling flap."""
    local = np.abs(world.local(hand.at_m[None])[0, :2])
    return bool((local < (0.09, 0.12)).all())
