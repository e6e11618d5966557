"""The simulated rig of the pin tasks: sensors, velocity commands and ground truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, FloatArray, Start, TaskSpec
from sim.rig import LaneArray, SimRig, Truth
from sim.scene import Scene
from sim.tasks.pin_scene import PIN_LENGTH_M, SUBSTEPS, draw_station_physics, scene_xml

SPEED_MM_S = 20.0
"""Largest command along one axis."""
SEATED_MM, WITHIN_MM, UPRIGHT_RAD, RESTING_MM_S = 7.85, 1.0, 0.06, 3.0
"""Ground truth of success: least depth of the tip (the hole has 8 mm), largest distance from the hole's axis, largest
tilt, and largest speed of sinking."""

TIP, TILT, VELOCITY, FORCE, LEFT = slice(0, 3), slice(3, 5), slice(5, 8), slice(8, 11), 11
"""Columns of a state row."""

_TIP_MM, _TILT_RAD = 0.08, 0.004
"""Standard deviations of the camera's estimates."""

STATE = (
    *(Bounds(name=f"tip_{axis}_mm", unit="mm", low=-25.0, high=25.0, sensor_std=_TIP_MM) for axis in "xy"),
    Bounds(name="tip_z_mm", unit="mm", low=-15.0, high=45.0, sensor_std=_TIP_MM),
    *(Bounds(name=f"tilt_{axis}_rad", unit="rad", low=-0.4, high=0.4, sensor_std=_TILT_RAD) for axis in "xy"),
    *(Bounds(name=f"velocity_{axis}_mm_s", unit="mm/s", low=-SPEED_MM_S, high=SPEED_MM_S) for axis in "xyz"),
    *(Bounds(name=f"force_{axis}_n", unit="N", low=-25.0, high=25.0) for axis in "xyz"),
    Bounds(name="time_left", unit="1", low=0.0, high=1.0),
)
ACTION = tuple(Bounds(name=f"v{axis}_mm_s", unit="mm/s", low=-SPEED_MM_S, high=SPEED_MM_S) for axis in "xyz")
START_NAMES = ("tip_x_mm", "tip_y_mm", "tip_z_mm", "tilt_x_rad", "tilt_y_rad")

_FORCE_NOISE_N, _FORCE_SMOOTHING = 0.05, 0.2
_CHIP_MM, _CHIP_N_M, _DRIFT_MM = 4.0, 5000.0, 0.1
"""Faults: depth of a chip in the hole, its stiffness, and drift of the sensed tip per episode."""
_NEAR_MM = 0.45
"""A reset by the robot ends, and the clock starts, when the sensed tip is this near to its start on every axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensing:
    """Errors of the station's cameras."""

    tip_noise_mm: float = _TIP_MM
    """Standard deviation of the sensed tip position, drawn every period."""
    tilt_noise_rad: float = _TILT_RAD
    hole_error_mm: float = 0.0
    """Standard deviation, per axis, of the error of the hole's estimated position; drawn once per episode."""


class PinRig(SimRig):
    """Lanes of the pin scene. The tip is sensed relative to the estimated hole."""

    faults = frozenset({"slipping_gripper", "jammed", "calibration_drift"})

    def __init__(self, spec: TaskSpec, lanes: int, seed: int, sensing: Sensing) -> None:
        """Build the scene of one station; `seed` draws the station's physics."""
        self.station = draw_station_physics(seed)
        scene = Scene(scene_xml(self.station), lanes, edited=("qpos_spring", "body_pos"))
        super().__init__(spec, scene, SUBSTEPS, noise_width=8, latency_substeps=self.station.latency_substeps)
        self._sensing = sensing
        self._contact = scene.output("qfrc_constraint")
        self._spring, self._grip = scene.edit("qpos_spring"), scene.edit("body_pos")
        self._pin = int(scene.model.body("pin").id)
        self._bias_mm = 1e3 * np.array(self.station.bias_m)
        self._force = np.zeros((lanes, 3))
        self._hole_error_mm = np.zeros((lanes, 3))
        self._next_grasp = np.zeros((lanes, 4))
        self._regrasp = np.zeros(lanes, dtype=np.bool_)
        self._running = np.zeros(lanes, dtype=np.bool_)
        self._aim_mm = np.zeros((lanes, 3))
        self._row = np.zeros((lanes, spec.state_dim))
        self._push = scene.applied()
        self._jammed = np.zeros(lanes, dtype=np.bool_)
        self.remember(
            jammed=self._jammed, force=self._force, hole_error=self._hole_error_mm, next_grasp=self._next_grasp,
            regrasp=self._regrasp, running=self._running, aim=self._aim_mm,
        )  # fmt: skip

    def tip_mm(self) -> LaneArray:
        """(lanes, 3) in mm: the tips in the frame of the hole. Ground truth."""
        return 1e3 * self._tip_m(self.scene.qpos, self._grip[:, self._pin])

    @staticmethod
    def _tip_m(joints: LaneArray, grip: LaneArray) -> LaneArray:
        """Joints (n, 5; m, rad) and grip offset (n, 3) -> tip (n, 3), in m.

        The pin points along R_x(tilt_x) R_y(tilt_y) (0, 0, -1). Computed per element, as a matrix product over a batch
        may sum differently for one row than for many.
        """
        swing, lean = joints[:, 3], joints[:, 4]
        tip = joints[:, :3] + grip
        along = PIN_LENGTH_M * np.cos(lean)
        tip[:, 0] -= PIN_LENGTH_M * np.sin(lean)
        tip[:, 1] += along * np.sin(swing)
        tip[:, 2] += PIN_LENGTH_M - along * np.cos(swing)
        return tip

    def _prepare(self, lane: int, start: Start, rng: np.random.Generator) -> None:
        aim, tilt = np.array(start.values[:3]), np.array(start.values[3:])
        self._aim_mm[lane] = aim
        self._force[lane] = 0.0
        self._hole_error_mm[lane] = 0.0
        if self._sensing.hole_error_mm:
            self._hole_error_mm[lane, :2] = rng.normal(0.0, self._sensing.hole_error_mm, 2)
        grip_m = rng.uniform(-0.8e-3, 0.8e-3, 2)
        self._next_grasp[lane] = [*tilt, *grip_m]
        self._running[lane] = self.teleport
        self._regrasp[lane] = True
        self._jammed[lane] = False
        self._push[lane] = 0.0
        if not self.teleport:
            return
        joints = self.scene.qpos[lane]
        joints[:3] = 0.0
        self._grasp_next(lane)
        # Starts are given as sensed: relative to the estimated hole.
        seen_m = 1e-3 * (aim - self._hole_error_mm[lane])
        joints[:3] = seen_m - self._tip_m(joints[None], self._grip[lane, self._pin][None])[0]

    def _grasp_next(self, lane: int) -> None:
        """Grasp the next pin with its own tilt and offset: the grasp is a model edit of this row."""
        tilt_x, tilt_y, grip_x_m, grip_y_m = self._next_grasp[lane]
        self._spring[lane, 3:5] = tilt_x, tilt_y
        self._grip[lane, self._pin, :2] = grip_x_m, grip_y_m
        self.scene.qpos[lane, 3:5] = tilt_x, tilt_y
        self._regrasp[lane] = False

    def _sense(self, noise: LaneArray) -> LaneArray:
        row, sensing = self._row, self._sensing
        tip = self.tip_mm()
        tip += self._bias_mm
        tip += self._hole_error_mm
        tip += sensing.tip_noise_mm * noise[:, 0:3]
        row[:, TIP] = tip
        row[:, TILT] = self.scene.qpos[:, 3:5] + sensing.tilt_noise_rad * noise[:, 3:5]
        row[:, VELOCITY] = self._sent
        row[:, FORCE] = self._force
        row[:, LEFT] = np.maximum(0.0, 1.0 - self._ticks / self.spec.limit_ticks)
        return row

    def _before(self, rows: npt.NDArray[np.intp]) -> None:
        if self._jammed.any():
            self._resist(rows)
        if self._regrasp.any():
            # A pin that is still in the hole is replaced only above the rim.
            free = rows[self._regrasp[rows] & (self.tip_mm()[rows, 2] > 1.5)]
            for lane in free:
                self._grasp_next(int(lane))

    def disturb(self, lane: int, kind: str, rng: np.random.Generator) -> None:
        """The grasp slips, a chip lies in the hole, or the sensed tip drifts (in x and y, for the whole station)."""
        if kind == "slipping_gripper":
            self._spring[lane, 3:5] += rng.choice((-1.0, 1.0), 2) * rng.uniform(0.02, 0.05, 2)
            self._grip[lane, self._pin, :2] += rng.normal(0.0, 0.5e-3, 2)
        elif kind == "jammed":
            self._jammed[lane] = True
        elif kind == "calibration_drift":
            self._bias_mm[:2] += np.sign(self._bias_mm[:2]) * _DRIFT_MM
        else:
            super().disturb(lane, kind, rng)

    def _resist(self, rows: npt.NDArray[np.intp]) -> None:
        """The chip pushes back on pins below its depth, as a spring, with at most 9 N."""
        deep_m = 1e-3 * np.maximum(0.0, -_CHIP_MM - self.tip_mm()[rows, 2])
        self._push[rows, 2] = np.where(self._jammed[rows], np.minimum(_CHIP_N_M * deep_m, 9.0), 0.0)

    def _command(self, rows: npt.NDArray[np.intp], sent: FloatArray) -> None:
        if len(rows) == self.lanes:
            np.multiply(sent, 1e-3, out=self.scene.ctrl)
        else:
            self.scene.ctrl[rows] = 1e-3 * sent[rows]

    def _after(self, rows: npt.NDArray[np.intp]) -> None:
        felt = (
            self._contact[rows, :3]
            + self._push[rows, :3]
            + _FORCE_NOISE_N * self._noise[rows, self._sensed_at[rows], 5:8]
        )
        self._force[rows] += _FORCE_SMOOTHING * (felt - self._force[rows])
        if not self._running.all():
            self._arm_clocks(rows)
        self._ticks[rows] += self._running[rows]

    def _arm_clocks(self, rows: npt.NDArray[np.intp]) -> None:
        seen = self.tip_mm()[rows] + self._bias_mm + self._hole_error_mm[rows]
        near = (np.abs(seen - self._aim_mm[rows]) < _NEAR_MM).all(axis=1)
        self._running[rows] |= near & ~self._regrasp[rows]

    def _truth(self, lane: int) -> Truth:
        tip = self.tip_mm()[lane]
        tilt = float(np.hypot(*self.scene.qpos[lane, 3:5]))
        sinking = 1e3 * abs(float(self.scene.qvel[lane, 2]))
        seated = float(tip[2]) <= -SEATED_MM and float(np.abs(tip[:2]).max()) <= WITHIN_MM
        seated &= tilt <= UPRIGHT_RAD and sinking <= RESTING_MM_S
        return Truth(success=seated, metrics={"depth_mm": -float(tip[2]), "tilt_rad": tilt, "sinking_mm_s": sinking})
