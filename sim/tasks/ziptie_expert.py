"""The scripted expert of zip-tie cutting: take the cutter, align its blades with the tail, close, look, and retry.

It has no memory: its actions follow from the sensed state. Shut blades mean that a cut was tried. The hand then moves
aside, so that the camera sees the tail, and opens the blades if the tail is still there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.bimanual.arm_goals import Hand
from sim.bimanual.demonstrator import ArmBehaviour, ArmEpisode, Demonstrator
from sim.bimanual.kinematics import Rows, from_angles, turning
from sim.bimanual.rig import GRIP_MM_S
from sim.tasks.ziptie_rig import CUTTER, SEAT_M, TAIL, TURNED, WATCHING, YAW
from sim.tasks.ziptie_scene import GRIP_TURN, MOUTH_M, OPEN_MM, SHUT_MM

VARIED = ArmBehaviour(
    speed=(0.25, 0.75), pause=(0.0, 0.12), pause_decisions=(2.0, 12.0), slack=(1.0, 3.5), aim_m=0.002, tremor_rad_s=0.02
)

HOLD_MM, HELD_N = 29.0, 3.0
"""Opening at which the cutter is carried (the blades are apart, the spring presses on the pads), and least force."""
BITE_M = 0.062
"""Height of the cutter's middle over the tail at a cut."""
TRAVEL_M, CLEAR_M = 0.178, 0.028
"""Least heights of the cutter's middle on its paths: over the table, and over the point of the cut."""
FALLEN_MM = 65.0
"""Distance below the mouth from which a tail counts as severed."""
_ACROSS_M, _ALONG_M, _TURNED_RAD, _DEPTH_M = 0.0015, 0.004, 0.05, 0.004
_SHUT_N = 14.0
TOUCH_N = 12.0
"""Upward force on a gripper from which it has come down on an obstacle."""
_ASIDE_M = np.array([0.085, -0.045, 0.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CutterState:
    """Cutter and tail as one lane's sensors give them, in m and rad."""

    cutter_m: Rows
    turned: Rows
    """Roll, pitch, yaw (3,)."""
    tail_m: Rows
    tail_yaw: float

    @property
    def fallen(self) -> bool:
        """Whether the tail was last seen below its feeder."""
        return bool(self.tail_m[2] < MOUTH_M[2] - 1e-3 * FALLEN_MM)

    @property
    def bite_m(self) -> Rows:
        """(3,) in m: where the cutter's middle must be for a cut."""
        return self.tail_m + np.array([0.0, 0.0, BITE_M])

    @property
    def seated(self) -> bool:
        """Whether the cutter is in its holder or straight above it."""
        return bool(np.abs(self.cutter_m[:2] - SEAT_M[:2]).max() < 0.02)

    def off(self) -> Rows:
        """(3,) in m: the cutter relative to the point of the cut: across the tail, along it, and up."""
        off = self.cutter_m - self.bite_m
        cosine, sine = np.cos(self.tail_yaw), np.sin(self.tail_yaw)
        return np.array([cosine * off[0] + sine * off[1], cosine * off[1] - sine * off[0], off[2]])


def read_cutter_state(state: Rows) -> CutterState:
    """Read one state row (state_dim,)."""
    return CutterState(
        cutter_m=1e-3 * state[CUTTER], turned=state[TURNED], tail_m=1e-3 * state[TAIL], tail_yaw=float(state[YAW])
    )


def half_turned(angle_rad: float) -> float:
    """The equivalent angle nearest to zero: a cutter has two equal halves."""
    return angle_rad - np.pi * round(angle_rad / np.pi)


def aligned(scene: CutterState, aim_m: Rows | float = 0.0, slack: float = 1.0) -> bool:
    """Whether the blades are over the tail, or around it, so that they may go down or close."""
    across, along, up = scene.off() - aim_m
    widened = slack if up > 0.012 else 2.0 * slack
    turned = abs(half_turned(float(scene.turned[2]) - scene.tail_yaw))
    return abs(across) < _ACROSS_M * widened and abs(along) < _ALONG_M * widened and turned < _TURNED_RAD * widened


def upright(yaw_rad: float) -> Rows:
    """The gripper's axes (3, 3) when it holds an upright cutter at a yaw."""
    return turning(2, np.array([half_turned(yaw_rad)]))[0] @ GRIP_TURN


def holds(scene: CutterState, hand: Hand) -> bool:
    """Whether the gripper holds the cutter: the spring presses, and the cutter is between the pads."""
    pressed = hand.pads_n <= -HELD_N and SHUT_MM - 3.5 < hand.opening_mm < OPEN_MM - 0.8
    return pressed and float(np.abs(hand.at_m - scene.cutter_m).max()) < 0.02


def carry(scene: CutterState, hand: Hand, at_m: Rows, yaw_rad: float, speed_m_s: float = 0.25) -> float:
    """Move the gripper so that the cutter in it gets to a place (3,), upright; returns the distance to go in m.

    The two halves of the cutter are equal, so the nearer of two directions is used.
    """
    yaw_rad += np.pi * round((float(scene.turned[2]) - yaw_rad) / np.pi)
    turned = from_angles(np.array([[0.0, 0.0, yaw_rad], scene.turned]))
    return hand.go(hand.at_m + at_m - scene.cutter_m, turned[0] @ turned[1].T @ hand.turn, speed_m_s)


def fetch(scene: CutterState, hand: Hand, aim_m: Rows, slack: float = 1.0) -> bool:
    """Grasp an upright cutter: move above it, go down, and close the pads on its handles.

    Returns whether the gripper came down on the handles and goes up again.
    """
    goal = scene.cutter_m + aim_m
    turn = upright(float(scene.turned[2]))
    off = hand.at_m - goal
    aside_m = float(np.abs(off[:2]).max())
    if hand.upward_n > TOUCH_N:
        hand.go(hand.at_m + np.array([0.0, 0.0, 0.03]), turn)
        hand.open_to(OPEN_MM + 14.0)
        return True
    if (aside_m > 0.003 * slack and off[2] > 0.02) or aside_m > 0.008 * slack:
        hand.go(np.array([goal[0], goal[1], max(goal[2] + 0.045, hand.at_m[2] if aside_m > 0.03 else 0.0)]), turn)
        hand.open_to(OPEN_MM + 14.0)
    elif hand.go(goal, turn, 0.15) < 0.003 * slack:
        hand.grip_mm_s = -0.5 * GRIP_MM_S
    else:
        hand.open_to(OPEN_MM + 14.0)
    return False


def lift(scene: CutterState, hand: Hand) -> None:
    """Pull the cutter straight up, out of its holder."""
    keep(hand)
    carry(scene, hand, np.array([scene.cutter_m[0], scene.cutter_m[1], TRAVEL_M + 0.03]), float(scene.turned[2]))


def keep(hand: Hand) -> None:
    """Hold the cutter at the opening at which it is carried."""
    hand.grip_mm_s = float(np.clip(8.0 * (HOLD_MM - hand.opening_mm), -GRIP_MM_S, GRIP_MM_S))


class ZiptieExpert(Demonstrator):
    """A policy over the sensed state alone."""

    def _decide(self, episode: ArmEpisode, state: Rows, left: Hand, right: Hand) -> None:
        left.go_joints(WATCHING)
        scene = read_cutter_state(state)
        if not holds(scene, right):
            if not scene.fallen and fetch(scene, right, episode.aim_m * (1.0, 1.0, 0.0), episode.slack):
                episode.aim_m, episode.slack = (
                    0.7 * episode.aim_m,
                    max(1.0, 0.7 * episode.slack),
                )  # The next try is more careful.
            return
        travel_m = max(TRAVEL_M, float(scene.bite_m[2]) + CLEAR_M)
        if right.opening_mm < SHUT_MM + 1.5 or scene.fallen:
            _withdraw(scene, right, travel_m)
        elif scene.seated and scene.cutter_m[2] < travel_m - 0.01:
            lift(scene, right)
        else:
            _cut(scene, right, episode, travel_m)


def _withdraw(scene: CutterState, hand: Hand, travel_m: float) -> None:
    """Move up and aside with shut blades, so that the cameras see the tail; open them if it is still there."""
    off = scene.off()
    if off[2] < CLEAR_M - 0.008 and np.hypot(off[0], off[1]) < 0.04:
        carry(scene, hand, np.array([scene.cutter_m[0], scene.cutter_m[1], travel_m + 0.01]), float(scene.turned[2]))
        hand.squeeze(_SHUT_N)
        return
    goal = scene.bite_m + _ASIDE_M
    goal[2] = travel_m
    there = carry(scene, hand, goal, float(scene.turned[2]), 0.3) < 0.02
    if there and not scene.fallen:
        hand.grip_mm_s = GRIP_MM_S
    else:
        hand.squeeze(_SHUT_N)


def _cut(scene: CutterState, hand: Hand, episode: ArmEpisode, travel_m: float) -> None:
    """Move over the tail, go down until it is between the blades, and close them."""
    aim_m = episode.aim_m * (1.0, 1.0, 0.0)
    up, good = float(scene.off()[2]), aligned(scene, aim_m, episode.slack)
    goal = scene.bite_m + aim_m
    biting = hand.opening_mm < HOLD_MM - 1.5 and up < 0.01
    if biting or (good and up < _DEPTH_M):
        carry(scene, hand, np.array([*scene.cutter_m[:2], goal[2]]), float(scene.turned[2]), 0.05)
        hand.grip_mm_s = -GRIP_MM_S
        return
    keep(hand)
    if not good:
        goal[2] = travel_m
    carry(scene, hand, goal, scene.tail_yaw, 0.12 if good else 0.25)
