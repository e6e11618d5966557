"""The scene and the simulated rig of the marker task: an SO-101 arm holds a marker next to a cup."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, FloatArray, Start, TaskSpec
from sim.rig import LaneArray, SimRig, Truth
from sim.scene import Scene
from sim.so101.kinematics import JAW_RAD, JOINTS, RANGES_DEG, tips
from sim.so101.model import STEP_S, SUBSTEPS, ArmPhysics, arm_body, defaults, draw_arm_physics, servos

STICK_M, MARKER_M = 0.06, 0.005
"""From between the jaws to the tip of the marker, and its radius."""
CUP_M = (0.36, 0.0)
"""The middle of the cup, ahead of the rear edge of the arm's base and to the left."""
RIM_M, INSIDE_M = 0.06, 0.025
"""Height of the cup's rim over the table, and the cup's inner radius."""
DEEP_M = 0.016
"""Ground truth of success: least depth of the tip below the rim, inside the cup."""
HOLDS_PERCENT = 8.0
"""Where the jaws meet the marker."""
SQUEEZE_PERCENT = 6.0
"""Largest command of the gripper: each command presses the jaws on the marker."""

ARM, GRIPPER = slice(0, 5), 5
"""Columns of a row of the state and of the actions."""

_ARM = tuple(
    Bounds(name=f"{name}.pos", unit="deg", low=low, high=high)
    for name, (low, high) in zip(JOINTS, RANGES_DEG, strict=True)
)
STATE = (*_ARM, Bounds(name="gripper.pos", unit="%", low=0.0, high=100.0))
ACTION = (*_ARM, Bounds(name="gripper.pos", unit="%", low=0.0, high=SQUEEZE_PERCENT))
START_NAMES = tuple(f"{name}_deg" for name in JOINTS)

_NOISE_DEG, _NOISE_PERCENT = 0.05, 0.2
_JAW_SPAN_RAD = JAW_RAD[1] - JAW_RAD[0]
_ARMED_DEG = 2.5
"""After a reset by the robot, the clock starts when every joint is this near to its start."""
_WALLS = 10
_STICKING, _DRIFT_DEG = 1000.0, 0.3
"""Faults: factor on the damping of a joint that jams, and drift of each joint's error per episode."""
_ELBOW = 2


def scene_xml(arm: ArmPhysics) -> str:
    """MJCF of the scene for one station."""
    jaw_low_rad = JAW_RAD[0] + 0.01 * HOLDS_PERCENT * _JAW_SPAN_RAD
    marker = (
        f'<geom name="marker" type="capsule" size="{MARKER_M}" contype="1" conaffinity="2" mass="0.012"'
        f' fromto="0 {MARKER_M - STICK_M:.4f} 0 0 {STICK_M - MARKER_M:.4f} 0" rgba=".15 .3 .7 1"/>'
    )
    return f"""
<mujoco model="marker_in_cup">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{STEP_S!r}" integrator="implicitfast" solver="Newton" cone="pyramidal" jacobian="dense"
          iterations="20" tolerance="1e-8"/>
  <visual><headlight ambient=".45 .45 .45" diffuse=".5 .5 .5"/><map znear=".01" zfar="20"/></visual>
  <statistic extent="0.6" center="0.2 0 0.1"/>
  <default>{defaults(arm)}
    <default class="fixed"><geom type="box" contype="2" conaffinity="1" rgba=".82 .86 .84 1"/></default>
  </default>
  <asset>
    <texture type="skybox" builtin="gradient" rgb1=".72 .77 .83" rgb2=".3 .34 .4" width="32" height="192"/>
  </asset>
  <worldbody>
    <light pos="0.3 -0.4 1" dir="-.1 .4 -1" diffuse=".5 .5 .5"/>
    <camera name="front" pos="0.42 -0.5 0.3" xyaxes="0.96 0.28 0 -0.12 0.41 0.9" fovy="48"/>
    <geom class="fixed" size="0.5 0.5 0.01" pos="0.2 0 -0.01" rgba=".5 .42 .36 1"/>
    {_cup()}
    {arm_body(marker, jaw_low_rad)}
  </worldbody>
  <actuator>
    {servos()}
  </actuator>
</mujoco>"""


def _cup() -> str:
    """Flat walls in a ring around the inside of the cup."""
    thick, found = 0.003, []
    half = (INSIDE_M + 2 * thick) * float(np.tan(np.pi / _WALLS))
    for number in range(_WALLS):
        angle = 2 * float(np.pi) * number / _WALLS
        away = INSIDE_M + thick
        x, y = CUP_M[0] + away * float(np.cos(angle)), CUP_M[1] + away * float(np.sin(angle))
        found.append(
            f'<geom class="fixed" size="{thick} {half:.5f} {RIM_M / 2}" pos="{x:.5f} {y:.5f} {RIM_M / 2}"'
            f' euler="0 0 {angle:.6f}" rgba=".3 .55 .45 1"/>'
        )
    return "\n    ".join(found)


class MarkerRig(SimRig):
    """Lanes of the marker scene. Joints of a row: the five of the arm and the jaw."""

    faults = frozenset({"jammed", "calibration_drift"})

    def __init__(self, spec: TaskSpec, lanes: int, seed: int) -> None:
        """Build the scene of one station; `seed` draws the stiffness, friction, latency and calibration of its arm."""
        self.arm = draw_arm_physics(seed)
        scene = Scene(scene_xml(self.arm), lanes, edited=("dof_damping",))
        super().__init__(spec, scene, SUBSTEPS, noise_width=6, latency_substeps=self.arm.latency_substeps)
        self._bias_deg = np.array(self.arm.bias_deg)
        self._drag = scene.edit("dof_damping")
        self._running = np.zeros(lanes, dtype=np.bool_)
        self._goal_deg = np.zeros((lanes, len(JOINTS)))
        self._row = np.zeros((lanes, spec.state_dim))
        self._freeze = False
        self.remember(running=self._running, goal=self._goal_deg)

    def _prepare(self, lane: int, start: Start, rng: np.random.Generator) -> None:
        del rng  # Only the sensor noise varies here.
        self._goal_deg[lane] = start.values
        self._running[lane] = self.teleport
        self._drag[lane] = self.scene.model.dof_damping
        if self.teleport:
            self.scene.qpos[lane, ARM] = np.radians(start.values)
            self.scene.qpos[lane, GRIPPER] = _jaw_rad(HOLDS_PERCENT)
            self.scene.ctrl[lane] = self.scene.qpos[lane]
            self._sent[lane, ARM], self._sent[lane, GRIPPER] = start.values, SQUEEZE_PERCENT

    def disturb(self, lane: int, kind: str, rng: np.random.Generator) -> None:
        """The elbow jams, or the calibration drifts (for the whole station)."""
        if kind == "jammed":
            self._drag[lane, _ELBOW] *= _STICKING
        elif kind == "calibration_drift":
            self._bias_deg += np.sign(self._bias_deg) * _DRIFT_DEG
        else:
            super().disturb(lane, kind, rng)

    def stop(self) -> None:
        """Hold still: the next period begins with the command to stay in place."""
        self._freeze = True

    def _before(self, rows: npt.NDArray[np.intp]) -> None:
        if self._freeze:
            self._freeze = False
            self.scene.ctrl[:] = self.scene.qpos

    def _sense(self, noise: LaneArray) -> LaneArray:
        row, joints = self._row, self.scene.qpos
        row[:, ARM] = np.degrees(joints[:, ARM]) + self._bias_deg + _NOISE_DEG * noise[:, :5]
        row[:, GRIPPER] = 100.0 * (joints[:, GRIPPER] - JAW_RAD[0]) / _JAW_SPAN_RAD + _NOISE_PERCENT * noise[:, 5]
        return row

    def _command(self, rows: npt.NDArray[np.intp], sent: FloatArray) -> None:
        # A servo goes where its own calibration says that the angle is.
        self.scene.ctrl[rows, ARM] = np.radians(sent[rows, ARM] - self._bias_deg)
        self.scene.ctrl[rows, GRIPPER] = _jaw_rad(sent[rows, GRIPPER])

    def _after(self, rows: npt.NDArray[np.intp]) -> None:
        if not self._running.all():
            miss_deg = np.abs(np.degrees(self.scene.qpos[rows, ARM]) + self._bias_deg - self._goal_deg[rows])
            self._running[rows] |= (miss_deg < _ARMED_DEG).all(axis=1)
        self._ticks[rows] += self._running[rows]

    def _truth(self, lane: int) -> Truth:
        x, y, z = tips(np.degrees(self.scene.qpos[lane, ARM])[None], STICK_M).at_m[0]
        aside_m, deep_m = float(np.hypot(x - CUP_M[0], y - CUP_M[1])), RIM_M - float(z)
        metrics = {"aside_mm": 1e3 * aside_m, "deep_mm": 1e3 * deep_m}
        return Truth(success=aside_m <= INSIDE_M and deep_m >= DEEP_M, metrics=metrics)


def _jaw_rad(percent: float | FloatArray) -> float | FloatArray:
    return JAW_RAD[0] + 0.01 * percent * _JAW_SPAN_RAD
