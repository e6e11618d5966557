"""The rig of fragile insertion: pin insertion with a pin that breaks under more than 1.1 N of contact on its way down.

A broken pin has lost the lowest 8 mm. The camera sees the end of the rest, 8 mm further up, and so a shorter pin below
the gripper. Nothing restores it in the episode; the robot takes a new pin in the reset.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, Start, TaskSpec
from sim.rig import LaneArray, Truth
from sim.tasks.pin_rig import STATE, TIP, PinRig, Sensing
from sim.tasks.pin_scene import PIN_LENGTH_M

PIN_MM, LOST_MM = 1e3 * PIN_LENGTH_M, 8.0
"""Length of a whole pin below the gripper, and of the piece that breaks off."""
BREAKS_N, INSERTED_MM = 1.1, 7.0
"""Ground truth: contact force, smoothed as the sensor smooths it, above which the pin breaks while its tip is less deep
than this. Deeper, only the floor (at 8 mm) pushes back."""
LENGTH = len(STATE)
"""Column of a state row."""
STATE_WITH_LENGTH = (
    *STATE,
    Bounds(name="pin_length_mm", unit="mm", low=0.0, high=30.0, sensor_std=STATE[TIP][0].sensor_std),
)

_SMOOTHING = 0.2
"""As of the sensed force."""


class FragilePinRig(PinRig):
    """Lanes of the pin scene with pins that break."""

    def __init__(self, spec: TaskSpec, lanes: int, seed: int, sensing: Sensing) -> None:
        """Build the scene of one station; `seed` draws the station's physics."""
        super().__init__(spec, lanes, seed, sensing)
        model = self.scene.model
        self._pieces = np.flatnonzero(model.geom_bodyid == self._pin)
        self._size, self._place = self.scene.expand("geom_size"), self.scene.expand("geom_pos")
        self._strain = np.zeros((lanes, 3))
        self._broken = np.zeros(lanes, dtype=np.bool_)
        self.remember(strain=self._strain, broken=self._broken)

    def _prepare(self, lane: int, start: Start, rng: np.random.Generator) -> None:
        self._strain[lane] = 0.0
        super()._prepare(lane, start, rng)

    def _grasp_next(self, lane: int) -> None:
        """Grasp the next pin, which is whole."""
        super()._grasp_next(lane)
        self._broken[lane] = False
        self._shorten(lane, 0.0)

    def _shorten(self, lane: int, lost_mm: float) -> None:
        """Give the pin of one lane its whole length less `lost_mm`; its lower end moves up."""
        model, pieces, half_m = self.scene.model, self._pieces, 0.5e-3 * lost_mm
        self._size[lane, pieces, 1] = model.geom_size[pieces, 1] - half_m
        self._place[lane, pieces, 2] = model.geom_pos[pieces, 2] + half_m

    def _sense(self, noise: LaneArray) -> LaneArray:
        row = super()._sense(noise)
        broken = self._broken
        if broken.any():
            swing, lean = self.scene.qpos[broken, 3], self.scene.qpos[broken, 4]
            up = np.column_stack([np.sin(lean), -np.cos(lean) * np.sin(swing), np.cos(lean) * np.cos(swing)])
            row[broken, TIP] += LOST_MM * up
        # The joints give the height of the gripper, and the camera that of the end of the pin.
        row[:, LENGTH] = 1e3 * self.scene.qpos[:, 2] + PIN_MM - row[:, TIP.stop - 1]
        return row

    def _after(self, rows: npt.NDArray[np.intp]) -> None:
        super()._after(rows)
        self._strain[rows] += _SMOOTHING * (self._contact[rows, :3] + self._push[rows, :3] - self._strain[rows])
        strain_n = np.sqrt((self._strain[rows] ** 2).sum(axis=1))
        breaks = (strain_n > BREAKS_N) & (self.tip_mm()[rows, 2] > -INSERTED_MM)
        # A pin that waits to be replaced is no longer the episode's pin.
        for lane in rows[breaks & ~self._broken[rows] & ~self._regrasp[rows]]:
            self._broken[lane] = True
            self._shorten(int(lane), LOST_MM)

    def _truth(self, lane: int) -> Truth:
        truth, broken = super()._truth(lane), bool(self._broken[lane])
        return replace(truth, success=truth.success and not broken, metrics={**truth.metrics, "broken": float(broken)})
