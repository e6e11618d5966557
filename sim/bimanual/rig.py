"""The base class of two-arm rigs: the sensors of both arms, speed commands, and teleporting the arms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, FloatArray, TaskSpec
from sim.bimanual.kinematics import JOINTS, PARKED, RANGES_RAD, SIDES, Rows, Side, solve
from sim.bimanual.station_model import FINGER_REACH_M, GRIPPER_KG, SUBSTEPS, StationPhysics
from sim.rig import LaneArray, SimRig
from sim.scene import Scene

JOINT_RAD_S, GRIP_MM_S = 1.0, 60.0
"""Largest commanded speeds: of a joint, and of the opening of a gripper."""
SIDE_STATE, SIDE_ACTION = 2 * JOINTS + 5, JOINTS + 1
ARMS_STATE = 2 * SIDE_STATE
"""Width of the state that all two-arm tasks share; the numbers of the task follow it."""
SENSOR_NOISE = 6
"""Noise numbers that the sensors of both arms use in a period."""

_LEASH_RAD, _LEASH_M = 0.035, 0.027
"""Largest distance of a set point from its joint, so that a blocked arm does not wind up.

An arm that pushes against something yields before the object that it holds slips out of the pads.
"""
_FORCE_NOISE_N, _FORCE_SMOOTHING = 0.15, 0.35
_WEIGHT = np.array([0.0, 0.0, GRIPPER_KG * 9.81])
"""(3,) in N: what the force sensor of a free gripper measures."""


def joints_of(side: Side) -> slice:
    """Columns of an arm's joint angles (rad) in a state row."""
    first = SIDE_STATE * SIDES.index(side)
    return slice(first, first + JOINTS)


def opening_of(side: Side) -> int:
    """Column of a gripper's opening (mm) in a state row; the force of its pads (N) is the next one."""
    return SIDE_STATE * SIDES.index(side) + 2 * JOINTS


def force_of(side: Side) -> slice:
    """Columns of the force (N, in the world) on a gripper in a state row, with the weight of what it holds."""
    first = opening_of(side) + 2
    return slice(first, first + 3)


def commands_of(side: Side) -> slice:
    """Columns of an arm's joint speeds (rad/s) in an action row; the gripper's speed (mm/s) is the next one."""
    first = SIDE_ACTION * SIDES.index(side)
    return slice(first, first + JOINTS)


def _arm_state(side: Side, reach_m: float) -> tuple[Bounds, ...]:
    return (
        *(
            Bounds(name=f"{side}_joint_{j}_rad", unit="rad", low=low - 0.1, high=high + 0.1)
            for j, (low, high) in enumerate(RANGES_RAD)
        ),
        *(Bounds(name=f"{side}_speed_{j}_rad_s", unit="rad/s", low=-4.0, high=4.0) for j in range(JOINTS)),
        Bounds(name=f"{side}_opening_mm", unit="mm", low=-3.0, high=2e3 * reach_m + 3.0),
        Bounds(name=f"{side}_pads_n", unit="N", low=-80.0, high=80.0),
        *(Bounds(name=f"{side}_force_{axis}_n", unit="N", low=-200.0, high=200.0) for axis in "xyz"),
    )


def _arm_action(side: Side) -> tuple[Bounds, ...]:
    speeds = (
        Bounds(name=f"{side}_turn_{j}_rad_s", unit="rad/s", low=-JOINT_RAD_S, high=JOINT_RAD_S) for j in range(JOINTS)
    )
    return (*speeds, Bounds(name=f"{side}_open_mm_s", unit="mm/s", low=-GRIP_MM_S, high=GRIP_MM_S))


def arms_state(finger_reach_m: float = FINGER_REACH_M) -> tuple[Bounds, ...]:
    """The part of the state that all two-arm tasks share; `finger_reach_m` is how far each finger opens."""
    return tuple(bound for side in SIDES for bound in _arm_state(side, finger_reach_m))


ARMS = arms_state()
ACTION = tuple(bound for side in SIDES for bound in _arm_action(side))
_SCALE = np.tile([*[1.0] * JOINTS, 0.5e-3], 2)
"""(14,): factor from commands to set-point speeds; each finger moves by half of the opening."""


class BimanualRig(SimRig):
    """Lanes of a two-arm scene. Joints of a row: left arm and its two fingers, right arm and its fingers, the rest."""

    def __init__(self, spec: TaskSpec, scene: Scene, station: StationPhysics, noise_width: int) -> None:
        """Wrap a scene of `station_model.scene_xml`.

        Args:
            spec: of the task.
            scene: one row per lane.
            station: the physics of this station.
            noise_width: noise numbers of the task in a period; they follow the first `SENSOR_NOISE` ones.
        """
        self.station = station
        super().__init__(spec, scene, SUBSTEPS, SENSOR_NOISE + noise_width, station.latency_substeps)
        self.arm_setpoints = scene.setpoints()
        self._felt = scene.output("sensordata")
        self._frames = scene.output("site_xmat")
        self._pull = scene.output("actuator_force")
        self._force = np.zeros((self.lanes, 2, 3))
        self.peak_n = np.zeros(self.lanes)
        """(lanes,) in N: largest force on a gripper in the rollout, without the weight of its object. Ground truth."""
        self.running = np.zeros(self.lanes, dtype=np.bool_)
        """(lanes,): whether the lane's clock runs, as the robot has been at the start."""
        self.row = np.zeros((self.lanes, spec.state_dim))
        self.remember(force=self._force, peak=self.peak_n, running=self.running)
        self.measured = np.concatenate([[8 * side + j for j in range(JOINTS + 1)] for side in range(2)])
        """The joint behind each servo: six of the arm and the near finger."""
        self.leash = np.tile([*[_LEASH_RAD] * JOINTS, _LEASH_M], 2)
        """(14,): largest distance of each servo's set point from its joint, in rad or m."""

    def pose_arm(self, lane: int, side: Side, joints: Rows, opening_m: float, squeeze_m: float = 0.0) -> None:
        """Teleport an arm to joints (6,) in rad and an opening; `squeeze_m` closes the gripper's set point further."""
        first, servo = 8 * SIDES.index(side), SIDE_ACTION * SIDES.index(side)
        self.scene.qpos[lane, first : first + JOINTS] = joints
        self.scene.qpos[lane, first + JOINTS : first + 8] = 0.5 * opening_m
        self.arm_setpoints[lane, servo : servo + JOINTS] = joints
        self.arm_setpoints[lane, servo + JOINTS] = 0.5 * opening_m - squeeze_m

    def park(self, lane: int, side: Side) -> None:
        """Teleport an arm to its parking pose, its gripper half open."""
        self.pose_arm(lane, side, np.array(PARKED[side]), FINGER_REACH_M)

    def pose_gripper(self, side: Side, at_m: Rows, turn: Rows, first: Rows) -> Rows:
        """The joints (6,) in rad for a pose of the gripper, (3,) in m and (3, 3), from a first guess (6,)."""
        return solve(side, at_m[None], turn[None], first[None])[0]

    def settle(self, lane: int, side: Side, joints: Rows) -> None:
        """Step until the arm rests with what it holds, and move its set point until it is at `joints` (6,) again."""
        first, servo = 8 * SIDES.index(side), SIDE_ACTION * SIDES.index(side)
        row = np.array([lane], dtype=np.intp)
        for steps in (30, 40, 40):
            self.scene.step(row, steps)
            sagged = joints - self.scene.qpos[lane, first : first + JOINTS]
            self.arm_setpoints[lane, servo : servo + JOINTS] += sagged
        self.scene.step(row, 30)

    def begin_episode(self, lane: int) -> None:
        """Clear the force sensors of a lane, and stop its clock unless it was teleported."""
        self._force[lane] = 0.0
        self.peak_n[lane] = 0.0
        self.running[lane] = self.teleport

    def sense_arms(self, noise: LaneArray) -> LaneArray:
        """Fill in the arms' part of the state row and the time that is left: (lanes, state_dim)."""
        row, joints, speeds = self.row, self.scene.qpos, self.scene.qvel
        for index in range(2):
            first, joint = SIDE_STATE * index, 8 * index
            row[:, first : first + JOINTS] = joints[:, joint : joint + JOINTS]
            row[:, first + JOINTS : first + 2 * JOINTS] = speeds[:, joint : joint + JOINTS]
            opening = first + 2 * JOINTS
            row[:, opening] = 1e3 * (joints[:, joint + 6] + joints[:, joint + 7])
            row[:, opening + 1] = 0.5 * self._pull[:, SIDE_ACTION * index + JOINTS] + 0.2 * noise[:, index]
            row[:, opening + 2 : opening + 5] = self._force[:, index]
        row[:, -1] = np.maximum(0.0, 1.0 - self._ticks / self.spec.limit_ticks)
        return row

    def _command(self, rows: npt.NDArray[np.intp], sent: FloatArray) -> None:
        joints, ahead = self.scene.qpos[:, self.measured], self.arm_setpoints
        low, high = joints - self.leash, joints + self.leash
        if len(rows) == self.lanes:
            np.clip(ahead, low, high, out=ahead)
            np.multiply(sent, _SCALE, out=self.scene.ctrl)
        else:
            ahead[rows] = np.clip(ahead[rows], low[rows], high[rows])
            self.scene.ctrl[rows] = sent[rows] * _SCALE

    def _after(self, rows: npt.NDArray[np.intp]) -> None:
        frames = self._frames[rows, : len(SIDES)].reshape(len(rows), 2, 3, 3)
        felt = self._felt[rows, :SENSOR_NOISE].reshape(len(rows), 2, 3)
        # Written out, so that a row's sum does not depend on the other rows.
        pull = frames[..., 0] * felt[..., :1] + frames[..., 1] * felt[..., 1:2] + frames[..., 2] * felt[..., 2:]
        noise = self._noise[rows, self._sensed_at[rows], :SENSOR_NOISE].reshape(len(rows), 2, 3)
        before = self._force[rows]
        force = before + _FORCE_SMOOTHING * (_WEIGHT - pull + _FORCE_NOISE_N * noise - before)
        self._force[rows] = force
        self._arm_clocks(rows)
        running = self.running[rows]
        peak = np.sqrt((force * force).sum(axis=2).max(axis=1))
        self.peak_n[rows] = np.where(running, np.maximum(self.peak_n[rows], peak), 0.0)
        self._ticks[rows] += running

    def _arm_clocks(self, rows: npt.NDArray[np.intp]) -> None:
        """Start the clocks of lanes whose robot has reached its start; a task defines the tolerance."""
        self.running[rows] = True
