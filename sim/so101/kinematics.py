"""The SO-101 arm in numbers: joints, ranges, lengths, and where its jaws are.

The lengths are those of the public CAD model of the arm (TheRobotStudio, SO-ARM100). Angles are LeRobot's: degrees from
the middle of each joint's range. With all at zero the upper arm stands up and the forearm and the hand point forwards.
The origin is the middle of the base's rear edge, on the table; x points forwards, y to the left, z up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")
"""LeRobot's names, from the base to the hand; the sixth motor is `gripper`."""
RANGES_DEG = ((-110.0, 110.0), (-100.0, 100.0), (-96.0, 96.0), (-95.0, 95.0), (-157.0, 157.0))
JAW_RAD = (-0.1745, 1.7453)
"""Angle of the moving jaw at 0 % and at 100 % of LeRobot's `gripper.pos`."""
PAN_M = 0.0388
"""The vertical axis of the first joint is this far forwards."""
SHOULDER_M, UPPER_M, FOREARM_M = (0.0304, 0.1166), (0.0280, 0.1126), (0.1349, 0.0052)
"""(forwards, up) at zero: from the first axis on the table to the second, and from there to the third and fourth."""
ROLL_M, JAWS_M = 0.0611, 0.0981
"""Forwards at zero: from the fourth axis to the hand, and from there to the place between the jaws."""
FINGER_M = 0.0109
"""The fixed finger ends this far beyond the place between the jaws."""
JAWS_DOWN_M = 0.0079
"""At zero, the place between the jaws is this far below the axis of the hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tips:
    """The tip of a stick between the jaws, at a right angle to the hand, for n arms."""

    at_m: Rows
    """(n, 3)."""
    pitch_deg: Rows
    """(n,): how far the hand points below the horizontal."""
    roll_deg: Rows
    """(n,): turn of the hand; at 90 the tip points down when the pitch is zero."""


def tips(joints_deg: Rows, stick_m: float) -> Tips:
    """Forward kinematics: joints (n, 5) in degrees; `stick_m` from between the jaws to the tip."""
    pan, lift, elbow, wrist, roll = np.radians(joints_deg).T
    pitch = lift + elbow + wrist
    sine, cosine = np.sin(roll), np.cos(roll)
    upward = -JAWS_DOWN_M * cosine - stick_m * sine
    sideways = stick_m * cosine - JAWS_DOWN_M * sine
    ahead, height = SHOULDER_M
    for length_m, turned in ((UPPER_M, lift), (FOREARM_M, lift + elbow), ((ROLL_M + JAWS_M, upward), pitch)):
        ahead = ahead + length_m[0] * np.cos(turned) + length_m[1] * np.sin(turned)
        height = height - length_m[0] * np.sin(turned) + length_m[1] * np.cos(turned)
    x = PAN_M + ahead * np.cos(pan) + sideways * np.sin(pan)
    y = sideways * np.cos(pan) - ahead * np.sin(pan)
    return Tips(at_m=np.column_stack([x, y, height]), pitch_deg=np.degrees(pitch), roll_deg=joints_deg[:, 4])


def joints_for(wanted: Tips, stick_m: float) -> Rows:
    """Inverse kinematics with the elbow up: joints (n, 5) in degrees, within their ranges.

    A tip that the arm cannot reach gets the joints of the nearest stretched arm.
    """
    pitch, roll = np.radians(wanted.pitch_deg), np.radians(wanted.roll_deg)
    upward = -JAWS_DOWN_M * np.cos(roll) - stick_m * np.sin(roll)
    sideways = stick_m * np.cos(roll) - JAWS_DOWN_M * np.sin(roll)
    x, y = wanted.at_m[:, 0] - PAN_M, wanted.at_m[:, 1]
    ahead = np.sqrt(np.maximum(x * x + y * y - sideways * sideways, 1e-9))
    pan = np.arctan2(sideways, ahead) - np.arctan2(y, x)
    hand_m = ROLL_M + JAWS_M
    wrist_ahead = ahead - hand_m * np.cos(pitch) - upward * np.sin(pitch) - SHOULDER_M[0]
    wrist_height = wanted.at_m[:, 2] + hand_m * np.sin(pitch) - upward * np.cos(pitch) - SHOULDER_M[1]
    upper, fore = float(np.hypot(*UPPER_M)), float(np.hypot(*FOREARM_M))
    away = np.clip(np.hypot(wrist_ahead, wrist_height), abs(upper - fore) + 1e-4, upper + fore - 1e-4)
    bearing = np.arctan2(wrist_height, wrist_ahead)
    raised = bearing + np.arccos(np.clip((upper**2 + away**2 - fore**2) / (2 * upper * away), -1.0, 1.0))
    lowered = bearing - np.arccos(np.clip((fore**2 + away**2 - upper**2) / (2 * fore * away), -1.0, 1.0))
    lift = np.arctan2(UPPER_M[1], UPPER_M[0]) - raised
    elbow = np.arctan2(FOREARM_M[1], FOREARM_M[0]) - lowered - lift
    found = np.degrees(np.column_stack([pan, lift, elbow, pitch - lift - elbow, roll]))
    low, high = np.array(RANGES_DEG).T
    return np.clip(found, low, high)
