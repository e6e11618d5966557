"""Scripted motion of one arm towards a pose of its gripper, or of an object that it holds, one period at a time."""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray
from sim.bimanual.kinematics import SIDES, Reach, Rows, Side, joint_speeds, moved, reach, rotation_between
from sim.bimanual.rig import JOINT_RAD_S, joints_of


def reach_of(side: Side, state: FloatArray) -> Reach:
    """Pose and Jacobian of an arm's gripper from its sensed joints; state (n, state_dim)."""
    return reach(side, state[:, joints_of(side)].astype(np.float64))


def both_reaches_of(state: FloatArray) -> Reach:
    """The same for both arms (2 n rows): the left arm's rows, then the right arm's."""
    return reach(SIDES, np.concatenate([state[:, joints_of(side)] for side in SIDES]).astype(np.float64))


def shortened(vectors: Rows, longest: Rows | float) -> Rows:
    """Vectors (n, k) limited to the length `longest`, (n,) or one number, with their directions."""
    length = np.sqrt((vectors * vectors).sum(axis=1))
    return vectors * np.minimum(1.0, longest / np.maximum(length, 1e-12))[:, None]


def speeds_for(now: Reach, twist: Rows, point_m: Rows | None = None) -> Rows:
    """Joint speeds (n, 6) in rad/s for a twist (n, 6; m/s, rad/s) of the gripper or of a point (n, 3) that it carries.

    When one joint would be too fast, all six are slowed by the same factor, which keeps the direction.
    """
    jacobian = now.jacobian if point_m is None else moved(now.jacobian, point_m - now.at_m)
    speeds = joint_speeds(jacobian, twist)
    fastest = np.abs(speeds).max(axis=1)
    return speeds * np.minimum(1.0, JOINT_RAD_S / np.maximum(fastest, 1e-12))[:, None]


def towards(now: Reach, at_m: Rows, turn: Rows, speed_m_s: Rows | float, gain_per_s: float = 5.0) -> Rows:
    """The twist (n, 6; m/s, rad/s) that moves a gripper to a pose, (n, 3) in m and (n, 3, 3), slower near it."""
    velocity = shortened(gain_per_s * (at_m - now.at_m), speed_m_s)
    spin = shortened(gain_per_s * rotation_between(now.turn, turn), 1.2)
    return np.concatenate([velocity, spin], axis=1)
