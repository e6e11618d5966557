"""The Push-T scene and its simulated rig: a round pusher moves a T over a table, in the plane.

The friction of the table is viscous. It gives the same directions of motion as an ellipsoidal limit surface under
quasi-static pushing (Goyal, Ruina and Papadopoulos 1991), and it needs no contacts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, FloatArray, Start, TaskSpec
from sim.rig import LaneArray, SimRig, Truth
from sim.scene import Scene

BAR_HALF_MM, STEM_HALF_MM = (60.0, 15.0), (15.0, 45.0)
BAR_Y_MM, STEM_Y_MM = 180.0 / 7.0, -240.0 / 7.0
"""Positions of the centres of bar and stem relative to the T's centre of mass."""
PUSHER_MM = 10.0
"""Radius of the pusher."""
TURN_MM = 45.0
"""Characteristic radius of the T: its rotational resistance is this squared times its sliding resistance."""
SPEED_MM_S = 250.0
NEAR_MM, NEAR_RAD = 15.0, 0.2
"""Ground truth of success: largest distance of the T's centre and angle from the goal."""

PUSHER, BLOCK, ANGLE, VELOCITY, LEFT, ON_BLOCK = slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 8), 8, slice(9, 11)
"""Columns of a state row; the angle is given as cosine and sine. ON_BLOCK is the sensed pusher in the frame of the
sensed block, which tells the side of the block that the pusher is at."""

_BLOCK_STD_MM, _ANGLE_STD = 0.5, 0.006

STATE = (
    *(Bounds(name=f"pusher_{axis}_mm", unit="mm", low=-300.0, high=300.0) for axis in "xy"),
    *(Bounds(name=f"block_{axis}_mm", unit="mm", low=-400.0, high=400.0, sensor_std=_BLOCK_STD_MM) for axis in "xy"),
    *(Bounds(name=f"block_{name}", unit="1", low=-1.2, high=1.2, sensor_std=_ANGLE_STD) for name in ("cos", "sin")),
    *(Bounds(name=f"velocity_{axis}_mm_s", unit="mm/s", low=-SPEED_MM_S, high=SPEED_MM_S) for axis in "xy"),
    Bounds(name="time_left", unit="1", low=0.0, high=1.0),
    *(
        Bounds(name=f"pusher_on_block_{axis}_mm", unit="mm", low=-1000.0, high=1000.0, sensor_std=_BLOCK_STD_MM)
        for axis in "xy"
    ),
)
ACTION = tuple(Bounds(name=f"v{axis}_mm_s", unit="mm/s", low=-SPEED_MM_S, high=SPEED_MM_S) for axis in "xy")
START_NAMES = ("block_x_mm", "block_y_mm", "block_angle_rad", "pusher_x_mm", "pusher_y_mm")

_SUBSTEPS = 8
_STICKING, _DRIFT_MM = 1000.0, 1.0
"""Faults: factor on the sliding resistance of a T that sticks, and drift of its sensed position per episode."""
_ARMED_MM, _ARMED_RAD = 12.0, 0.15
"""After a reset by the robot, the clock starts when block and pusher are this near to the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePhysics:
    """Physical parameters in which simulated stations differ."""

    drag_n_s_m: float
    """Sliding resistance of the T."""
    grip: float
    """Friction coefficient between pusher and T."""
    latency_substeps: int
    bias_mm: tuple[float, float]
    """Constant error of the sensed block position."""


def draw_table_physics(seed: int) -> TablePhysics:
    """The physical parameters of one station, from its seed."""
    rng = np.random.Generator(np.random.PCG64([seed, 11]))
    bias_x, bias_y = (float(v) for v in rng.normal(0.0, 0.4, 2))
    return TablePhysics(
        drag_n_s_m=float(rng.uniform(6.0, 10.0)),
        grip=float(rng.uniform(0.1, 0.3)),
        latency_substeps=int(rng.integers(0, 5)),
        bias_mm=(bias_x, bias_y),
    )


def scene_xml(table: TablePhysics) -> str:
    """MJCF of the scene for one station."""
    drag, turn = table.drag_n_s_m, table.drag_n_s_m * (TURN_MM * 1e-3) ** 2
    return f"""
<mujoco model="push_t">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{1 / 240!r}" integrator="implicitfast" solver="Newton" cone="pyramidal" jacobian="dense"
          iterations="20" tolerance="1e-8"/>
  <visual><headlight ambient=".35 .35 .35" diffuse=".25 .25 .25"/><map znear=".01" zfar="20"/></visual>
  <statistic extent="0.4" center="0 0 0"/>
  <default>
    <geom solref="0.0085 1" friction="{table.grip!r} 0.005 0.0001"/>
    <default class="drawn"><geom contype="0" conaffinity="0" mass="0"/></default>
    <default class="block"><geom type="box" contype="1" conaffinity="2" mass="0.1" rgba=".75 .35 .2 1"/></default>
  </default>
  <asset>
    <texture type="skybox" builtin="gradient" rgb1=".72 .77 .83" rgb2=".3 .34 .4" width="32" height="192"/>
  </asset>
  <worldbody>
    <light pos="0.2 -0.3 1" dir="-.2 .3 -1" diffuse=".4 .4 .4"/>
    <camera name="top" pos="0 0 0.62" xyaxes="1 0 0 0 1 0" fovy="45"/>
    <camera name="side" pos="0 -0.5 0.4" xyaxes="1 0 0 0 0.62 0.78" fovy="45"/>
    <geom class="drawn" type="box" size="0.4 0.4 0.005" pos="0 0 -0.0055" rgba=".85 .85 .82 1"/>
    <geom class="drawn" {_box(BAR_HALF_MM, BAR_Y_MM, 0.0005, 0.0)} rgba=".55 .75 .55 1"/>
    <geom class="drawn" {_box(STEM_HALF_MM, STEM_Y_MM, 0.0005, 0.0)} rgba=".55 .75 .55 1"/>
    <body name="block" pos="0 0 0.015" gravcomp="1">
      <joint name="block_x" type="slide" axis="1 0 0" damping="{drag!r}"/>
      <joint name="block_y" type="slide" axis="0 1 0" damping="{drag!r}"/>
      <joint name="block_angle" type="hinge" axis="0 0 1" damping="{turn!r}" armature="0.0002"/>
      <geom class="block" {_box(BAR_HALF_MM, BAR_Y_MM, 0.012, 0.0)}/>
      <geom class="block" {_box(STEM_HALF_MM, STEM_Y_MM, 0.012, 0.0)}/>
    </body>
    <body name="pusher" pos="0 0 0.015" gravcomp="1">
      <joint name="pusher_x" type="slide" axis="1 0 0" armature="0.3"/>
      <joint name="pusher_y" type="slide" axis="0 1 0" armature="0.3"/>
      <geom type="sphere" size="{PUSHER_MM * 1e-3!r}" contype="2" conaffinity="1" mass="0.1" rgba=".2 .3 .7 1"/>
      <geom class="drawn" type="cylinder" size="0.004" fromto="0 0 0 0 0 0.06" rgba=".3 .3 .35 1"/>
    </body>
  </worldbody>
  <actuator>
    <velocity joint="pusher_x" kv="120" forcerange="-15 15"/>
    <velocity joint="pusher_y" kv="120" forcerange="-15 15"/>
  </actuator>
</mujoco>"""


def _box(half_mm: tuple[float, float], y_mm: float, half_height_m: float, z_m: float) -> str:
    size = f"{half_mm[0] * 1e-3!r} {half_mm[1] * 1e-3!r} {half_height_m!r}"
    return f'type="box" size="{size}" pos="0 {y_mm * 1e-3!r} {z_m!r}"'


class PushTRig(SimRig):
    """Lanes of the Push-T scene. Joints of a row: block x, y, angle; pusher x, y."""

    faults = frozenset({"jammed", "calibration_drift"})

    def __init__(self, spec: TaskSpec, lanes: int, seed: int) -> None:
        """Build the scene of one station; `seed` draws its friction, latency and bias."""
        self.table = draw_table_physics(seed)
        scene = Scene(scene_xml(self.table), lanes, edited=("dof_damping",))
        super().__init__(spec, scene, _SUBSTEPS, noise_width=6, latency_substeps=self.table.latency_substeps)
        self._bias_mm = np.array(self.table.bias_mm)
        self._drag = scene.edit("dof_damping")
        self._running = np.zeros(lanes, dtype=np.bool_)
        self._goal = np.zeros((lanes, 5))
        self._row = np.zeros((lanes, spec.state_dim))
        self.remember(running=self._running, goal=self._goal)

    def _prepare(self, lane: int, start: Start, rng: np.random.Generator) -> None:
        del rng  # Only the sensor noise varies here.
        self._goal[lane] = start.values
        self._running[lane] = self.teleport
        self._drag[lane] = self.scene.model.dof_damping
        if self.teleport:
            self.scene.qpos[lane] = self._goal[lane] * (1e-3, 1e-3, 1.0, 1e-3, 1e-3)

    def disturb(self, lane: int, kind: str, rng: np.random.Generator) -> None:
        """The T sticks to the table, or the camera's estimate of it drifts (for the whole station)."""
        if kind == "jammed":
            self._drag[lane, :3] *= _STICKING
        elif kind == "calibration_drift":
            self._bias_mm += np.sign(self._bias_mm) * _DRIFT_MM
        else:
            super().disturb(lane, kind, rng)

    def _sense(self, noise: LaneArray) -> LaneArray:
        row, joints = self._row, self.scene.qpos
        row[:, PUSHER] = 1e3 * joints[:, 3:5] + 0.2 * noise[:, 0:2]
        row[:, BLOCK] = 1e3 * joints[:, 0:2] + self._bias_mm + _BLOCK_STD_MM * noise[:, 2:4]
        row[:, 4] = np.cos(joints[:, 2]) + _ANGLE_STD * noise[:, 4]
        row[:, 5] = np.sin(joints[:, 2]) + _ANGLE_STD * noise[:, 5]
        row[:, VELOCITY] = self._sent
        row[:, LEFT] = np.maximum(0.0, 1.0 - self._ticks / self.spec.limit_ticks)
        (cosine, sine), (aside, ahead) = row[:, ANGLE].T, (row[:, PUSHER] - row[:, BLOCK]).T
        row[:, ON_BLOCK] = np.column_stack([cosine * aside + sine * ahead, cosine * ahead - sine * aside])
        row[:, ON_BLOCK] /= np.hypot(cosine, sine)[:, None]
        return row

    def _command(self, rows: npt.NDArray[np.intp], sent: FloatArray) -> None:
        self.scene.ctrl[rows] = 1e-3 * sent[rows]

    def _after(self, rows: npt.NDArray[np.intp]) -> None:
        if not self._running.all():
            miss = np.abs(self.scene.qpos[rows] * (1e3, 1e3, 1.0, 1e3, 1e3) - self._goal[rows])
            limits = np.array((_ARMED_MM, _ARMED_MM, _ARMED_RAD, _ARMED_MM, _ARMED_MM))
            self._running[rows] |= (miss < limits).all(axis=1)
        self._ticks[rows] += self._running[rows]

    def _truth(self, lane: int) -> Truth:
        x, y, angle = (float(v) for v in self.scene.qpos[lane, :3])
        away_mm, turned = 1e3 * float(np.hypot(x, y)), abs(float(np.arctan2(np.sin(angle), np.cos(angle))))
        there = away_mm <= NEAR_MM and turned <= NEAR_RAD
        return Truth(success=there, metrics={"away_mm": away_mm, "turned_rad": turned})
