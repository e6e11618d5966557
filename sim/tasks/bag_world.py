"""The sensed world of one lane of bag packing, with memory: where bag and objects are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.bimanual.arm_goals import Hand
from sim.bimanual.kinematics import Rows, Side, turning
from sim.bimanual.rig import force_of
from sim.tasks.bag_rig import BAG, FLAP, TILT, VIEWS, place_of, seen_of, turn_of, within_bag
from sim.tasks.bag_scene import HINGE_M, INNER_M, KNOB_M, RIM_M, WALL_HALF_M

TRAVEL_M = 0.13
"""Height of the gripper's point on its paths over the table."""
BRISK_M_S = 0.4
PATIENCE_TICKS = 110
"""Periods after which a phase is given up; it usually takes a third of that."""
FIRM_N, HELD_N = 12.0, 3.0
"""Force of the pads when they grasp, and least force while they hold."""

_THING_M = 0.016
_OUTER_M = tuple(half + 2 * WALL_HALF_M for half in INNER_M)


def downward(side: Side, yaw_rad: float, lean_rad: float = 0.0) -> Rows:
    """The tool's axes (3, 3) with the gripper pointing down, or leaning; at yaw 0 its fingers move along y."""
    base = turning(1, np.array([0.5 * np.pi - lean_rad]))[0]
    half_turn = np.pi if side == "right" else 0.0
    return turning(2, np.array([yaw_rad + half_turn]))[0] @ base


@dataclass(slots=True)
class World:
    """The sensors of one lane, with memory: where any camera last saw each object."""

    bag: Rows = field(default_factory=lambda: np.zeros(3))
    """(3,): x, y in m, yaw in rad."""
    tilt_rad: float = 0.0
    flap_rad: float = 0.0
    pressed_n: float = 0.0
    """Upward force on the right gripper."""
    places_m: Rows = field(default_factory=lambda: np.full((3, 3), np.nan))
    turns_rad: Rows = field(default_factory=lambda: np.zeros(3))
    seen_s: Rows = field(default_factory=lambda: np.zeros(3))
    """(3,): time for which a camera has seen each object."""
    _within: list[bool] = field(default_factory=lambda: [False] * 3)

    def sense(self, state: Rows) -> None:
        """Update from one state row (state_dim,)."""
        self.bag = state[BAG] * (1e-3, 1e-3, 1.0)
        self.tilt_rad, self.flap_rad = float(state[TILT]), float(state[FLAP])
        self.pressed_n = float(state[force_of("right")][2])
        for thing in range(3):
            seen = [float(state[seen_of(view, thing)]) for view in VIEWS]
            best = int(np.argmax(seen))
            self.seen_s[thing] = seen[best]
            if seen[best] > 0.0 or np.isnan(self.places_m[thing, 0]):
                self.places_m[thing] = 1e-3 * state[place_of(VIEWS[best], thing)]
                self.turns_rad[thing] = state[turn_of(thing)]
        local = self.local(self.places_m)
        self._within = ((np.abs(local[:, :2]) < np.array(INNER_M)).all(axis=1) & (local[:, 2] < RIM_M)).tolist()

    def at(self, x_m: float, y_m: float, z_m: float) -> Rows:
        """A place in the frame of the bag, expressed in the world: (3,) in m."""
        cosine, sine = np.cos(self.bag[2]), np.sin(self.bag[2])
        return np.array([self.bag[0] + cosine * x_m - sine * y_m, self.bag[1] + sine * x_m + cosine * y_m, z_m])

    def knob(self, flap_rad: float) -> Rows:
        """(3,) in m: the knob at an angle of the flap."""
        along, up = KNOB_M
        cosine, sine = np.cos(flap_rad), np.sin(flap_rad)
        return self.at(HINGE_M[0] + along * cosine - up * sine, 0.0, HINGE_M[2] + along * sine + up * cosine)

    def local(self, places_m: Rows) -> Rows:
        """Places (k, 3) in m of the world, expressed in the frame of the bag."""
        bag = self.bag * (1e3, 1e3, 1.0)
        return 1e-3 * within_bag(bag[None], 1e3 * places_m[None])[0]

    def room(self, place_m: Rows, except_for: int) -> float:
        """Distance in m of a place (3,) from the bag's walls and from all objects but one."""
        local = np.abs(self.local(place_m[None])[0, :2])
        within = float((np.array(INNER_M) - local).min())
        outside = float((local - np.array(_OUTER_M)).max())
        others = np.delete(self.places_m, except_for, axis=0)[:, :2] - place_m[:2]
        return min(max(within, outside), float(np.sqrt((others**2).sum(axis=1)).min()) - _THING_M)

    def inside(self, thing: int) -> bool:
        """Whether an object was last seen in the bag."""
        return self._within[thing]


def travel(hand: Hand, place_m: Rows, turn: Rows) -> float:
    """Move over a place (3,) at the height of travel, first straight up; returns the distance in m."""
    off_m = float(np.hypot(*(place_m[:2] - hand.at_m[:2])))
    low = float(hand.at_m[2]) < TRAVEL_M - 0.025 and off_m > 0.02
    x, y = hand.at_m[:2] if low else place_m[:2]
    far_m = hand.go(np.array([x, y, TRAVEL_M]), hand.turn if low else turn, BRISK_M_S)
    return far_m + (off_m if low else 0.0)


def retreat(hand: Hand, home: Sequence[float]) -> float:
    """Move straight up, then home in joint space; returns the error in rad, infinite while the hand is low."""
    if float(hand.at_m[2]) < TRAVEL_M - 0.025:
        hand.go(np.array([hand.at_m[0], hand.at_m[1], TRAVEL_M]), hand.turn)
        return np.inf
    return hand.go_joints(home)
