"""Skills of the left arm in bag packing: open and hold the flap, shut it, and move the bag by its handle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.bimanual.arm_goals import Hand
from sim.bimanual.kinematics import Rows
from sim.tasks.bag_scene import HANDLE_M, HANDLE_MM, KNOB_MM
from sim.tasks.bag_world import FIRM_N, HELD_N, PATIENCE_TICKS, TRAVEL_M, World, downward, travel

OPEN_RAD, AJAR_RAD = 1.6, 1.4
"""Angle to which the flap is opened, and angle from which objects pass it."""
_LEAN_RAD = 0.25
"""Lean of the gripper at the knob, so that its camera looks into the bag."""


@dataclass(slots=True)
class Opener:
    """The left arm grasps the knob of the flap, opens the flap, and holds it."""

    phase: str = "over"
    ticks: int = 0
    firm: int = 0
    opened: bool = False

    def step(self, world: World, hand: Hand) -> bool:
        """Run one period; returns whether the bag is open."""
        before = self.phase
        turn = downward("left", float(world.bag[2]), _LEAN_RAD)
        if self.phase == "over":
            self._over(world, hand, turn)
        elif self.phase == "down":
            self._down(world, hand, turn)
        else:
            self._swing(world, hand)
        self.ticks = self.ticks + 1 if before == self.phase else 0
        return self.phase == "swing" and world.flap_rad > AJAR_RAD

    def _over(self, world: World, hand: Hand, turn: Rows) -> None:
        self.firm, self.opened = 0, False
        near_m = float(np.sqrt(((world.knob(world.flap_rad) - hand.at_m) ** 2).sum()))
        if near_m < 0.02 and hand.holds(KNOB_MM, HELD_N):
            self.phase = "swing"
            return
        # Open the fingers first: an object between them would move along.
        ready = hand.open_to(36.0)
        if hand.opening_mm > KNOB_MM + 6.0:
            far_m = hand.go(world.knob(world.flap_rad) + np.array([0.0, 0.0, 0.04]), turn)
            self.phase = "down" if ready and far_m < 0.012 else "over"

    def _down(self, world: World, hand: Hand, turn: Rows) -> None:
        far_m = hand.go(world.knob(world.flap_rad), turn)
        if self.ticks > PATIENCE_TICKS:
            self.phase = "over"
        elif far_m < 0.005 or self.firm:
            self.firm = self.firm + 1 if hand.squeeze(FIRM_N) else max(self.firm, 1)
            if hand.opening_mm < KNOB_MM - 6.0:
                self.phase = "over"
            elif self.firm > 4:
                self.phase = "swing"

    def _swing(self, world: World, hand: Hand) -> None:
        # With an open flap, the arm holds still: if it followed the sensed bag, it would drag the bag along.
        if world.flap_rad < (AJAR_RAD if self.opened else OPEN_RAD - 0.05):
            self._turn_flap(world, hand, min(world.flap_rad + 0.4, OPEN_RAD))
            self.opened = False
        else:
            self.opened = True
        self._kept(world, hand)

    def _turn_flap(self, world: World, hand: Hand, flap_rad: float) -> None:
        """Move along the path of the knob, relative to the hand; an absolute goal would drag the bag along."""
        way_m = world.knob(flap_rad) - world.knob(world.flap_rad)
        hand.go(hand.at_m + way_m, downward("left", float(world.bag[2]), _LEAN_RAD), 0.2)

    def _kept(self, world: World, hand: Hand) -> None:
        """Start again when the knob has slipped out of the pads."""
        hand.squeeze(FIRM_N)
        away_m = float(np.sqrt(((world.knob(world.flap_rad) - hand.at_m) ** 2).sum()))
        if hand.opening_mm < KNOB_MM - 6.0 or away_m > 0.03:
            self.phase = "over"

    def shut(self, world: World, hand: Hand) -> bool:
        """Run one period towards a shut bag and a free hand above it; returns whether that is reached."""
        if self.phase == "swing" and world.flap_rad > 0.15:
            self._turn_flap(world, hand, max(world.flap_rad - 0.4, 0.0))
            self._kept(world, hand)
            return False
        self.phase, self.ticks = "over", 0
        if hand.opening_mm < KNOB_MM + 10.0:
            hand.open_to(36.0)
            return False
        return hand.go(np.array([hand.at_m[0], hand.at_m[1], TRAVEL_M]), hand.turn) < 0.02


@dataclass(slots=True)
class Shift:
    """The left arm grasps the bag by its handle and moves it to a pose."""

    phase: str = "over"
    ticks: int = 0
    firm: int = 0

    def step(self, world: World, hand: Hand, goal: Rows) -> bool:
        """One period towards a pose (3,: x, y in m, yaw in rad) of the bag; returns whether bag and hand are done."""
        before = self.phase
        handle, turn = world.at(*HANDLE_M), downward("left", float(world.bag[2]))
        if before == "over":
            there = travel(hand, handle, turn) < 0.008
            self.phase = "down" if hand.open_to(32.0) and there else "over"
        elif before == "down":
            self.phase = "grip" if hand.go(handle, turn, 0.15) < 0.004 else "down"
        elif before == "grip":
            self.firm = self.firm + 1 if hand.squeeze(FIRM_N) else 0
            self.phase = "slide" if self.firm > 3 else "over" if hand.opening_mm < 0.4 * HANDLE_MM else "grip"
        elif before == "slide":
            self._slide(world, hand, goal)
        elif before == "open":
            hand.open_to(32.0)
            self.phase = "rise" if hand.opening_mm > 24.0 else "open"
        self.ticks = self.ticks + 1 if self.phase == before else 0
        if self.ticks > PATIENCE_TICKS:
            self.phase, self.ticks = "open" if before in ("slide", "grip") else "rise", 0
        return before == "rise" and hand.go(np.array([*hand.at_m[:2], TRAVEL_M]), hand.turn) < 0.02

    def _slide(self, world: World, hand: Hand, goal: Rows) -> None:
        """Move the hand with the handle by the error of the bag."""
        there = World(bag=goal)
        off_m, off_rad = there.at(*HANDLE_M) - world.at(*HANDLE_M), float(goal[2] - world.bag[2])
        yaw_rad = float(np.arctan2(-hand.turn[0, 1], hand.turn[1, 1]))
        off_m[2] = HANDLE_M[2] - hand.at_m[2]
        hand.go(hand.at_m + off_m, downward("left", yaw_rad + off_rad), 0.1)
        near = float(np.hypot(off_m[0], off_m[1])) < 0.002 and abs(off_rad) < 0.02
        self.firm = self.firm + 1 if near else 0
        if hand.opening_mm < 0.4 * HANDLE_MM:
            self.phase = "rise"
        elif self.firm > 5:
            self.phase = "open"
