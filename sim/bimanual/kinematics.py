"""Forward and inverse kinematics of both arms, for many rows at once.

NumPy computes stacks of small matrices one row at a time, so a row's result does not depend on how many others are
computed with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]
Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")

JOINTS = 6
OFFSETS_M = ((0.0, 0.0, 0.06), (0.0, 0.0, 0.09), (0.28, 0.0, 0.0), (0.12, 0.0, 0.0), (0.13, 0.0, 0.0), (0.06, 0.0, 0.0))
"""Translation from each joint's parent frame to its own, with the arm stretched out along x; each along one axis."""
_ALONG = tuple((offset.index(max(offset)), max(offset)) for offset in OFFSETS_M)
AXES = (2, 1, 1, 0, 1, 0)
"""Axis of its frame that each joint turns about: base yaw, shoulder, elbow, forearm roll, wrist, tool roll."""
RANGES_RAD = ((-2.6, 2.6), (-2.0, 0.9), (-0.1, 2.7), (-2.4, 2.4), (-1.9, 1.9), (-3.0, 3.0))
TOOL_M = 0.11
"""Distance from the last joint to the point between the finger pads, along x."""
BASES_M = {"left": (-0.34, 0.10, 0.0), "right": (0.34, 0.10, 0.0)}
TURNED = {"left": 0.0, "right": np.pi}
"""Yaw of the bases in rad: at zero, each arm points towards the other."""
PARKED = {"left": (-1.0, -1.2, 1.9, 0.0, 0.87, 0.0), "right": (1.0, -1.2, 1.9, 0.0, 0.87, 0.0)}
"""Joints (rad) of an arm that is parked."""
READY = {"left": (0.57, -0.98, 1.04, 0.0, 1.51, 0.57), "right": (-0.57, -0.98, 1.04, 0.0, 1.51, -0.57)}
"""Joints (rad) with the gripper over the middle of the table, pointing down: first guess when solving for a pose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Pose and Jacobian of grippers."""

    at_m: Rows
    """(n, 3) in m: the point between the pads."""
    turn: Rows
    """(n, 3, 3): axes of the tool in the world; x points out of the gripper, the fingers move along y."""
    jacobian: Rows
    """(n, 6, 6): velocity of the point (m/s), then angular velocity (rad/s), per joint speed (rad/s)."""

    def of(self, rows: slice | list[int]) -> Reach:
        """Some of the rows."""
        return Reach(at_m=self.at_m[rows], turn=self.turn[rows], jacobian=self.jacobian[rows])


def turning(axis: int, angle_rad: Rows) -> Rows:
    """Rotation matrices about one coordinate axis: angles (n,) in rad -> (n, 3, 3)."""
    cosine, sine = np.cos(angle_rad), np.sin(angle_rad)
    turned = np.zeros((len(angle_rad), 3, 3))
    one, two = (axis + 1) % 3, (axis + 2) % 3
    turned[:, axis, axis] = 1.0
    turned[:, one, one] = turned[:, two, two] = cosine
    turned[:, one, two], turned[:, two, one] = -sine, sine
    return turned


def from_angles(angles_rad: Rows) -> Rows:
    """Roll, pitch, yaw (n, 3) in rad -> rotation matrices (n, 3, 3): yaw after pitch after roll."""
    roll, pitch, yaw = (turning(axis, angles_rad[:, axis]) for axis in range(3))
    return yaw @ pitch @ roll


def angles_of(quaternion: Rows) -> Rows:
    """Roll, pitch, yaw (n, 3) in rad of unit quaternions (n, 4), w first: yaw after pitch after roll."""
    twice = 2.0 * quaternion[:, :, None] * quaternion[:, None]
    w, x, y, z = range(4)
    angles = np.empty((len(quaternion), 3))
    angles[:, 0] = np.arctan2(twice[:, w, x] + twice[:, y, z], 1.0 - (twice[:, x, x] + twice[:, y, y]))
    angles[:, 1] = np.arcsin(np.minimum(np.maximum(twice[:, w, y] - twice[:, z, x], -1.0), 1.0))
    angles[:, 2] = np.arctan2(twice[:, w, z] + twice[:, x, y], 1.0 - (twice[:, y, y] + twice[:, z, z]))
    return angles


def quaternion_of(angles_rad: Rows) -> Rows:
    """The unit quaternion (4,), w first, of roll, pitch, yaw (3,) in rad."""
    cr, cp, cy = np.cos(0.5 * angles_rad)
    sr, sp, sy = np.sin(0.5 * angles_rad)
    w, x = cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy
    y, z = cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy
    return np.array([w, x, y, z])


def rotation_between(now: Rows, goal: Rows) -> Rows:
    """The rotation vector (n, 3) in rad, in the world, from `now` to `goal` (both (n, 3, 3))."""
    off = goal @ np.swapaxes(now, 1, 2)
    twice_sine = np.stack(
        [off[:, 2, 1] - off[:, 1, 2], off[:, 0, 2] - off[:, 2, 0], off[:, 1, 0] - off[:, 0, 1]], axis=1
    )
    sine = 0.5 * np.sqrt((twice_sine * twice_sine).sum(axis=1))
    cosine = 0.5 * (off[:, 0, 0] + off[:, 1, 1] + off[:, 2, 2] - 1.0)
    angle = np.arctan2(sine, cosine)
    return twice_sine * (0.5 * np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 1.0))[:, None]


def reach(side: Side | tuple[Side, Side], joints: Rows) -> Reach:
    """Forward kinematics with the Jacobian; joints (n, 6) in rad, for both arms half of the rows each."""
    count, sides = len(joints), (side,) if isinstance(side, str) else side
    at = np.repeat([BASES_M[one] for one in sides], count // len(sides), axis=0)
    turn = turning(2, np.repeat([TURNED[one] for one in sides], count // len(sides)))
    places, axes = np.empty((JOINTS, count, 3)), np.empty((JOINTS, count, 3))
    for joint, axis in enumerate(AXES):
        along, offset_m = _ALONG[joint]
        at = at + offset_m * turn[:, :, along]
        places[joint], axes[joint] = at, turn[:, :, axis]
        turn = turn @ turning(axis, joints[:, joint])
    at = at + TOOL_M * turn[:, :, 0]
    jacobian = np.empty((count, 6, JOINTS))
    jacobian[:, :3] = _cross(axes, at - places).transpose(1, 2, 0)
    jacobian[:, 3:] = axes.transpose(1, 2, 0)
    return Reach(at_m=at, turn=turn, jacobian=jacobian)


def _cross(one: Rows, other: Rows) -> Rows:
    """Cross products of vectors (..., 3). `np.cross` gives the same and takes twice as long for so few."""
    product = np.empty(np.broadcast_shapes(one.shape, other.shape))
    for axis in range(3):
        ahead, behind = (axis + 1) % 3, (axis + 2) % 3
        product[..., axis] = one[..., ahead] * other[..., behind] - one[..., behind] * other[..., ahead]
    return product


def joint_speeds(jacobian: Rows, twist: Rows, damping: float = 0.02) -> Rows:
    """Joint speeds (n, 6) in rad/s for a twist (n, 6) in m/s and rad/s.

    Damped least squares (Nakamura and Hanafusa 1986).
    """
    transposed = np.swapaxes(jacobian, 1, 2)
    square = jacobian @ transposed + damping**2 * np.eye(6)
    return (transposed @ np.linalg.solve(square, twist[:, :, None]))[:, :, 0]


def moved(jacobian: Rows, offset_m: Rows) -> Rows:
    """The Jacobian (n, 6, 6) of a point that moves with the gripper, at `offset_m` (n, 3) from the gripper's point."""
    other = jacobian.copy()
    turns = np.swapaxes(jacobian[:, 3:], 1, 2)
    other[:, :3] += np.swapaxes(_cross(turns, offset_m[:, None]), 1, 2)
    return other


def solve(side: Side, at_m: Rows, turn: Rows, first: Rows, rounds: int = 40) -> Rows:
    """Inverse kinematics: joints (n, 6) in rad for poses (n, 3) in m and (n, 3, 3), from first guesses (n, 6)."""
    joints, ranges = first.copy(), np.array(RANGES_RAD)
    for _ in range(rounds):
        now = reach(side, joints)
        twist = np.concatenate([at_m - now.at_m, rotation_between(now.turn, turn)], axis=1)
        joints = np.clip(joints + joint_speeds(now.jacobian, twist, 1e-3), ranges[:, 0], ranges[:, 1])
    return joints
