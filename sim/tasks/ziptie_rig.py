"""The simulated rig of zip-tie cutting: camera estimates of cutter and tail, the bite of the blades, ground truth.

The top camera tracks the tail; while the right gripper hides it, the estimate stays at the last visible position.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, Start, TaskSpec
from sim.bimanual.kinematics import JOINTS, READY, SIDES, TOOL_M, Rows, angles_of, from_angles, quaternion_of, reach
from sim.bimanual.rig import ARMS, ARMS_STATE, SENSOR_NOISE, SIDE_ACTION, BimanualRig
from sim.bimanual.station_model import FINGER_REACH_M, TOP_M, draw_station_physics
from sim.bimanual.visibility import behind_balls
from sim.rig import LaneArray
from sim.scene import Scene
from sim.tasks.ziptie_scene import (
    COLLAR_M,
    CUT_AT_M,
    GRIP_TURN,
    HOLDER_M,
    MOUTH_M,
    STRIP_BITS,
    TAIL_M,
    TIP_M,
    draw_tie_physics,
    ziptie_scene_xml,
)
from sim.truth import Truth

CUTTER = slice(ARMS_STATE, ARMS_STATE + 3)
"""Columns of the middle between the cutter's handles (mm) in a state row."""
TURNED = slice(ARMS_STATE + 3, ARMS_STATE + 6)
"""Columns of roll, pitch, yaw (rad) of the cutter; 0 when it is upright in its holder."""
TAIL = slice(ARMS_STATE + 6, ARMS_STATE + 9)
"""Columns of the point of the tail at which to cut (mm), as last seen."""
YAW = ARMS_STATE + 9
"""Column of the direction (rad) of the tail, seen from above; 0 along -y."""

_SENSOR_STD = (0.2, 0.2, 0.2, 0.004, 0.004, 0.004, 0.2, 0.2, 0.2, 0.006)
STATE = (
    *ARMS,
    Bounds(name="cutter_x_mm", unit="mm", low=-500.0, high=500.0, sensor_std=_SENSOR_STD[0]),
    Bounds(name="cutter_y_mm", unit="mm", low=-300.0, high=700.0, sensor_std=_SENSOR_STD[1]),
    Bounds(name="cutter_z_mm", unit="mm", low=-50.0, high=450.0, sensor_std=_SENSOR_STD[2]),
    *(
        Bounds(name=f"cutter_{name}_rad", unit="rad", low=-3.2, high=3.2, sensor_std=_SENSOR_STD[3])
        for name in ("roll", "pitch", "yaw")
    ),
    Bounds(name="tail_x_mm", unit="mm", low=-500.0, high=500.0, sensor_std=_SENSOR_STD[6]),
    Bounds(name="tail_y_mm", unit="mm", low=-300.0, high=700.0, sensor_std=_SENSOR_STD[7]),
    Bounds(name="tail_z_mm", unit="mm", low=-50.0, high=450.0, sensor_std=_SENSOR_STD[8]),
    Bounds(name="tail_yaw_rad", unit="rad", low=-3.2, high=3.2, sensor_std=_SENSOR_STD[9]),
    Bounds(name="time_left", unit="1", low=0.0, high=1.0),
)
START_NAMES = ("tail_x_mm", "tail_y_mm", "tail_z_mm", "tail_yaw_rad", "hand_x_mm", "hand_y_mm", "hand_z_mm")
"""The tail relative to the nominal mouth, and the right gripper relative to the cutter in its holder."""
GENTLE_N = 60.0
"""Ground truth of success: largest force on a gripper."""
GENTLE_NM = (5.0, 6.0, 5.0, 3.0, 3.0, 2.0)
"""Torque limits of the joints: an arm that stops late yields before `GENTLE_N`."""
BITE_TICKS = 3
"""Periods (0.1 s) of a hard bite after which a tail breaks."""
SEAT_M = np.array([HOLDER_M[0], HOLDER_M[1], HOLDER_M[2] - COLLAR_M])
"""(3,): the middle between the handles of a cutter in its holder."""
NEAR_MM, NEAR_RAD, SEATED_MM = 4.0, 0.06, 5.0
"""After a reset, the clock starts when gripper and tail are this near to their start and the cutter to its seat."""
WATCHING = (0.496, -1.398, 2.48, -0.281, -0.745, 0.139)
"""Joints (rad) of the left arm, whose wrist camera looks at the tail from the side."""
WATCHING_MM = 20.0
"""Opening of the left gripper while it watches."""

_CUTTER_QPOS, _BLADES_QPOS, _TAIL_QPOS = slice(16, 23), 23, slice(24, 31)
_PALM_M, _PALM_RADIUS_M, _AWAY_M = 0.06, 0.045, 0.1
_REST_TICKS = 8
_DRIFT_MM, _TOO_TOUGH_N = 0.4, 60.0


class ZiptieRig(BimanualRig):
    """Lanes of the cutter scene. The right arm cuts; the left arm watches with its wrist camera."""

    faults = frozenset({"slipping_gripper", "jammed", "calibration_drift"})

    def __init__(self, spec: TaskSpec, lanes: int, seed: int) -> None:
        """Build the scene of one station; `seed` draws its physics, its ties and the errors of its cameras."""
        station, self.ties = replace(draw_station_physics(seed), torques_nm=GENTLE_NM), draw_tie_physics(seed)
        scene = Scene(ziptie_scene_xml(station, self.ties), lanes, edited=("geom_conaffinity",))
        super().__init__(spec, scene, station, noise_width=len(_SENSOR_STD))
        bias = np.array(station.bias_mm) * 5.0
        self._bias = np.array([*bias, 0.0, 0.0, 0.0, *bias, 0.0])
        self._goal = np.zeros((lanes, len(START_NAMES)))
        self._seen = np.zeros((lanes, 4))
        self._feeding = np.zeros(lanes, dtype=np.bool_)
        """(lanes,): whether the feeder waits until the grippers are away, to present a new tail."""
        self._bitten = np.zeros(lanes, dtype=np.intp)
        """(lanes,): periods for which the blades have bitten hard enough without interruption."""
        self._toughness_n = np.full(lanes, self.ties.toughness_n)
        self.remember(
            goal=self._goal, seen=self._seen, feeding=self._feeding, bitten=self._bitten, tough=self._toughness_n
        )
        self._strip = scene.model.geom("tail").id
        self._touched = slice(SENSOR_NOISE, SENSOR_NOISE + 2)
        self._held, self._mouths, self._turns = scene.equalities(), *scene.mocap()
        self._wrists = scene.output("site_xpos")

    def cutter(self) -> Rows:
        """(lanes, 6): the cutter's middle in mm and its angles in rad. Ground truth."""
        pose = self.scene.qpos[:, _CUTTER_QPOS]
        angles = angles_of(pose[:, 3:])
        off = (from_angles(angles) @ np.array([-1.0, 0.0, 0.0])[:, None])[:, :, 0]
        middle = pose[:, :3] + 0.5 * self.scene.qpos[:, _BLADES_QPOS, None] * off
        return np.concatenate([1e3 * middle, angles], axis=1)

    def tail(self) -> Rows:
        """(lanes, 4): the point at which to cut (mm) and the tail's yaw (rad). Ground truth."""
        pose = self.scene.qpos[:, _TAIL_QPOS]
        angles = angles_of(pose[:, 3:])
        along = (from_angles(angles) @ np.array([0.0, -CUT_AT_M, 0.0])[:, None])[:, :, 0]
        return np.concatenate([1e3 * (pose[:, :3] + along), angles[:, 2:]], axis=1)

    def disturb(self, lane: int, kind: str, rng: np.random.Generator) -> None:
        """The pads open a little, the tie is too tough, or the cameras drift in x and y (for the whole station)."""
        if kind == "slipping_gripper":
            self.arm_setpoints[lane, SIDE_ACTION + JOINTS] += rng.uniform(0.2, 0.5) * FINGER_REACH_M
        elif kind == "jammed":
            self._toughness_n[lane] = _TOO_TOUGH_N
        elif kind == "calibration_drift":
            self._bias[[0, 1, 6, 7]] += np.sign(self._bias[[0, 1, 6, 7]]) * _DRIFT_MM
        else:
            super().disturb(lane, kind, rng)

    def _prepare(self, lane: int, start: Start, rng: np.random.Generator) -> None:
        self._goal[lane] = start.values
        self.begin_episode(lane)
        self._toughness_n[lane] = self.ties.toughness_n
        slack = rng.uniform(-1.0, 1.0, 2) * (0.0015, 0.0015)
        self._feeding[lane] = not self.teleport
        if not self.teleport:
            return
        self._feed(lane)
        hand_m = SEAT_M + 1e-3 * self._goal[lane, 4:]
        joints = self.pose_gripper("right", hand_m, GRIP_TURN, np.array(READY["right"]))
        self.pose_arm(lane, "right", joints, 2 * FINGER_REACH_M)
        self.pose_arm(lane, "left", np.array(WATCHING), 1e-3 * WATCHING_MM)
        qpos = self.scene.qpos[lane, _CUTTER_QPOS]
        qpos[:3] = SEAT_M + np.array([*slack, 0.0])
        self.scene.step(np.array([lane], dtype=np.intp), _REST_TICKS)
        self._seen[lane] = self.tail()[lane]

    def _feed(self, lane: int) -> None:
        """The feeder discards what it holds and presents a whole tail at the place of the start."""
        goal = self._goal[lane]
        mouth = np.array(MOUTH_M) + 1e-3 * goal[:3]
        turn = quaternion_of(np.array([0.0, 0.0, goal[3]]))
        self._mouths[lane, 0], self._turns[lane, 0] = mouth, turn
        self.scene.qpos[lane, _TAIL_QPOS] = [*mouth, *turn]
        self.scene.qvel[lane, -6:] = 0.0
        self._held[lane, -1] = 1.0
        self._bitten[lane] = 0
        self.scene.edit("geom_conaffinity")[lane, self._strip] = STRIP_BITS
        self._feeding[lane] = False

    def _sense(self, noise: LaneArray) -> LaneArray:
        row = self.sense_arms(noise)
        row[:, CUTTER.start : TURNED.stop] = self.cutter()
        row[:, TAIL.start : YAW + 1] = self._seen
        row[:, CUTTER.start : YAW + 1] += self._bias + np.array(_SENSOR_STD) * noise[:, SENSOR_NOISE:]
        return row

    def _after(self, rows: npt.NDArray[np.intp]) -> None:
        self._sever(rows)
        waiting = rows[self._feeding[rows]]
        if len(waiting):
            for lane in waiting[self._away(waiting)]:
                self._feed(int(lane))
        tail = self.tail()[rows]
        eye = np.broadcast_to(np.array(TOP_M), (len(rows), 3))
        hidden = behind_balls(eye, 1e-3 * tail[:, None, :3], self._palm(rows), np.array([_PALM_RADIUS_M]))
        self._seen[rows] = np.where(hidden, self._seen[rows], tail)
        super()._after(rows)

    def _away(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """Whether both grippers are out of the feeder's light barrier: (len(rows),) bool."""
        found = np.ones(len(rows), dtype=np.bool_)
        for side, first in zip(SIDES, (0, 8), strict=True):
            off = reach(side, self.scene.qpos[rows, first : first + JOINTS]).at_m - MOUTH_M
            found &= np.sqrt((off * off).sum(axis=1)) > _AWAY_M
        return found

    def _palm(self, rows: npt.NDArray[np.intp]) -> Rows:
        """(len(rows), 1, 3): the middle of the right palm (m)."""
        side = SIDES.index("right")
        along = self._frames[rows, side].reshape(-1, 3, 3)[:, :, 0]
        return (self._wrists[rows, side] + (TOOL_M - _PALM_M) * along)[:, None]

    def _sever(self, rows: npt.NDArray[np.intp]) -> None:
        """Release the tails that the blades bite hard enough, from both sides and within their length."""
        hard = self._felt[rows, self._touched].min(axis=1) >= self._toughness_n[rows]
        self._bitten[rows] = np.where(hard, self._bitten[rows] + 1, 0)
        for lane in rows[(self._bitten[rows] >= BITE_TICKS) & (self._held[rows, -1] > 0.0)]:
            if self._between(int(lane)):
                self._held[lane, -1] = 0.0
                self.scene.edit("geom_conaffinity")[lane, self._strip] = 0

    def _between(self, lane: int) -> bool:
        """Whether the tail crosses the blades, neither at their tips nor above them."""
        cutter, pose = self.cutter()[lane], self.scene.qpos[lane, _TAIL_QPOS]
        frame = from_angles(cutter[None, 3:])[0]
        root = frame.T @ (pose[:3] - 1e-3 * cutter[:3])
        along = frame.T @ from_angles(angles_of(pose[None, 3:]))[0] @ np.array([0.0, -1.0, 0.0])
        at_m = -root[1] / along[1] if abs(along[1]) > 0.3 else -1.0
        crossing = root + at_m * along
        return bool(0.002 < at_m < TAIL_M[1] - 0.002 and TIP_M + 0.002 < crossing[2] < TIP_M + 0.045)

    def _arm_clocks(self, rows: npt.NDArray[np.intp]) -> None:
        rows = rows[~self.running[rows]]
        if not len(rows):
            return
        goal = self._goal[rows]
        hand = 1e3 * (reach("right", self.scene.qpos[rows, 8 : 8 + JOINTS]).at_m - SEAT_M)
        near = (np.abs(hand - goal[:, 4:]) < NEAR_MM).all(axis=1) & ~self._feeding[rows]
        near &= (np.abs(self.cutter()[rows, :3] - 1e3 * SEAT_M) < SEATED_MM).all(axis=1)
        near &= (np.abs(self.scene.qpos[rows, :JOINTS] - WATCHING) < 0.1).all(axis=1)
        self.running[rows] = near

    def _truth(self, lane: int) -> Truth:
        severed, peak_n = self._held[lane, -1] == 0.0, float(self.peak_n[lane])
        metrics = {"severed": float(severed), "peak_n": peak_n, "cutter_z_mm": float(self.cutter()[lane, 2])}
        return Truth(success=bool(severed) and peak_n <= GENTLE_N, metrics=metrics)
