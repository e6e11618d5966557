"""The simulated rig of GPU insertion: the camera's estimate of the card, grasps and ground truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, Start, TaskSpec
from sim.bimanual.kinematics import JOINTS, PARKED, READY, Rows, angles_of, from_angles, quaternion_of, turning
from sim.bimanual.rig import ARMS_STATE, SENSOR_NOISE, BimanualRig, arms_state
from sim.bimanual.station_model import draw_station_physics
from sim.rig import LaneArray
from sim.scene import Scene
from sim.tasks.gpu_scene import BODY_HALF_M, FINGER_REACH_M, GRASP_M, SLOT_M, card_scene_xml
from sim.truth import Truth

CARD = slice(ARMS_STATE, ARMS_STATE + 3)
"""Columns of the card's lower edge in a state row (mm, from the middle of the slot's rim)."""
ANGLES = slice(ARMS_STATE + 3, ARMS_STATE + 6)
"""Columns of roll, pitch, yaw (rad) of the card; the slot runs along x."""

_NOISE = (0.1, 0.1, 0.1, 0.003, 0.003, 0.002)
"""Standard deviations of the camera's estimate of the card, in the units of the state."""

STATE = (
    *arms_state(FINGER_REACH_M),
    *(
        Bounds(name=f"card_{axis}_mm", unit="mm", low=-400.0, high=400.0, sensor_std=_NOISE[i])
        for i, axis in enumerate("xyz")
    ),
    *(
        Bounds(name=f"card_{name}_rad", unit="rad", low=-3.2, high=3.2, sensor_std=_NOISE[3 + i])
        for i, name in enumerate(("roll", "pitch", "yaw"))
    ),
    Bounds(name="time_left", unit="1", low=0.0, high=1.0),
)
START_NAMES = ("card_x_mm", "card_y_mm", "card_z_mm", "card_roll_rad", "card_pitch_rad", "card_yaw_rad")
SEATED_MM, UPRIGHT_RAD, GENTLE_N = 7.5, 0.06, 70.0
"""Ground truth of success: least depth of both ends (of 8 mm), largest roll, largest force on a gripper."""
NEAR = np.array([1.0, 1.0, 1.0, 0.02, 0.02, 0.02])
"""After a reset, the clock starts when the left arm is parked and the card is this near to its start (mm, rad)."""

_HALF_MM = 40.0
_SLIP_M, _DRIFT_MM = 1.5e-3, 0.1
"""Faults: standard deviation of a slip in the grasp, and drift of the card's estimate per episode."""
CARD_QPOS = slice(16, 23)
"""Columns of the card's position and quaternion in a row of joints. Ground truth."""
GRIP_TURN = (turning(2, np.array([np.pi])) @ turning(1, np.array([np.pi / 2])))[0]
"""(3, 3): the tool's axes in the frame of an upright card: pointing down, fingers on both sides."""


class GpuRig(BimanualRig):
    """Lanes of the card scene. The right arm holds the card; the left arm is parked or helps in the reset."""

    faults = frozenset({"slipping_gripper", "calibration_drift"})

    def __init__(self, spec: TaskSpec, lanes: int, seed: int) -> None:
        """Build the scene of one station; `seed` draws the station's physics."""
        station = replace(draw_station_physics(seed), finger_reach_m=FINGER_REACH_M)
        super().__init__(spec, Scene(card_scene_xml(station), lanes), station, noise_width=6)
        self._bias = np.array([*station.bias_mm, 0.0, 0.0, 0.0])
        self._goal = np.zeros((lanes, 6))
        self.remember(goal=self._goal)

    def card(self) -> Rows:
        """(lanes, 6): the card relative to the slot, in mm and rad. Ground truth."""
        pose = self.scene.qpos[:, CARD_QPOS]
        return np.concatenate([1e3 * (pose[:, :3] - SLOT_M), angles_of(pose[:, 3:])], axis=1)

    def disturb(self, lane: int, kind: str, rng: np.random.Generator) -> None:
        """The card slips and tilts between the pads, or the camera drifts (for the whole station)."""
        if kind == "slipping_gripper":
            angles = self.card()[lane, 3:]
            angles[1] += rng.choice((-1.0, 1.0)) * rng.uniform(0.02, 0.05)
            self.scene.qpos[lane, CARD_QPOS.start] += rng.normal(0.0, _SLIP_M)
            self.scene.qpos[lane, CARD_QPOS.start + 3 : CARD_QPOS.stop] = quaternion_of(angles)
        elif kind == "calibration_drift":
            self._bias[:2] += np.sign(self._bias[:2]) * _DRIFT_MM
        else:
            super().disturb(lane, kind, rng)

    def _prepare(self, lane: int, start: Start, rng: np.random.Generator) -> None:
        self._goal[lane] = start.values
        self.begin_episode(lane)
        along_m, up_m, swing_rad = rng.uniform(-1.0, 1.0, 3) * (0.008, 0.003, 0.05)
        if not self.teleport:
            return
        angles, at_m = self._goal[lane, 3:], np.array(SLOT_M) + 1e-3 * self._goal[lane, :3]
        turn = from_angles(angles[None])[0]
        grasp_m = at_m + (turn @ np.array([along_m, 0.0, GRASP_M + up_m])[:, None])[:, 0]
        tool = turn @ turning(1, np.array([swing_rad]))[0] @ GRIP_TURN
        joints = self.pose_gripper("right", grasp_m, tool, np.array(READY["right"]))
        self.park(lane, "left")
        self.pose_arm(lane, "right", joints, 2 * BODY_HALF_M[1], squeeze_m=0.026)
        self.scene.qpos[lane, CARD_QPOS] = [*at_m, *quaternion_of(angles)]
        self.settle(lane, "right", joints)

    def _sense(self, noise: LaneArray) -> LaneArray:
        row = self.sense_arms(noise)
        row[:, CARD.start : ANGLES.stop] = self.card() + self._bias + np.array(_NOISE) * noise[:, SENSOR_NOISE:]
        return row

    def _arm_clocks(self, rows: npt.NDArray[np.intp]) -> None:
        waiting = rows[~self.running[rows]]
        if len(waiting):
            near = np.abs(self.card()[waiting] + self._bias - self._goal[waiting]) < NEAR
            parked = np.abs(self.scene.qpos[waiting, :JOINTS] - PARKED["left"]) < 0.15
            self.running[waiting] = near.all(axis=1) & parked.all(axis=1)

    def _truth(self, lane: int) -> Truth:
        card = self.card()[lane]
        higher_mm = float(card[2]) + _HALF_MM * abs(float(np.sin(card[4])))
        seated = higher_mm <= -SEATED_MM and abs(float(card[3])) <= UPRIGHT_RAD
        seated &= abs(float(card[0])) < 2.0 and abs(float(card[1])) < 2.0
        peak_n = float(self.peak_n[lane])
        metrics = {"depth_mm": -higher_mm, "roll_rad": float(card[3]), "peak_n": peak_n}
        return Truth(success=seated and peak_n <= GENTLE_N, metrics=metrics)
