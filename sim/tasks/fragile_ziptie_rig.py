"""The rig of fragile zip-tie cutting: a gauge at the feeder measures the stub that a cut leaves.

The first cut decides: a tail that was cut cannot be cut again elsewhere. The feeder presents a whole tail in the reset.
A state row also holds the sensed positions of the gripper relative to the cutter and of the cutter relative to the
mark. They follow from its other numbers and tell a cloned policy what the expert's decisions depend on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, TaskSpec
from sim.bimanual.kinematics import angles_of, from_angles, reach
from sim.bimanual.rig import joints_of
from sim.rig import NOISE_TICKS, LaneArray, Truth
from sim.tasks.ziptie_expert import BITE_M
from sim.tasks.ziptie_rig import CUTTER, STATE, TAIL, TURNED, YAW, ZiptieRig
from sim.tasks.ziptie_scene import CUT_AT_M, TAIL_M

WHOLE_MM, MARK_MM = 1e3 * TAIL_M[1], 1e3 * CUT_AT_M
"""Length of a whole tail, and of the stub that a cut at the mark leaves."""
WITHIN_MM = 3.0
"""Ground truth of success: largest distance of the cut from the mark."""
GAUGE_MM = 0.2
"""Standard deviation of the gauge."""
STUB = len(STATE) - 1
"""Column of a state row."""
ON_CUTTER = slice(STUB + 1, STUB + 4)
"""Columns of the right gripper relative to the middle between the cutter's handles (mm)."""
ON_MARK = slice(STUB + 4, STUB + 8)
"""Columns of the cutter relative to its pose at a cut at the mark: across the tail, along it, up (mm), and its turn
(rad), in [-pi/2, pi/2] as the halves of the cutter are equal."""
_DIFFERENCE_STD_MM = 0.28
"""Of the difference of two estimates of 0.2 mm."""
STATE_WITH_STUB = (
    *STATE[:STUB],
    Bounds(name="stub_mm", unit="mm", low=-5.0, high=50.0, sensor_std=GAUGE_MM),
    *(
        Bounds(name=f"gripper_on_cutter_{axis}_mm", unit="mm", low=-1200.0, high=1200.0, sensor_std=0.2)
        for axis in "xyz"
    ),
    *(
        Bounds(name=f"cutter_on_mark_{name}_mm", unit="mm", low=-1500.0, high=1500.0, sensor_std=_DIFFERENCE_STD_MM)
        for name in ("across", "along", "up")
    ),
    Bounds(name="cutter_on_mark_turn_rad", unit="rad", low=-1.6, high=1.6, sensor_std=0.007),
    STATE[STUB],
)


def on_mark(row: LaneArray) -> LaneArray:
    """The columns ON_MARK (n, 4) of state rows (n, state_dim), from the estimates of cutter and tail in them."""
    yaw = row[:, YAW]
    x, y, z = (row[:, CUTTER] - row[:, TAIL]).T
    turn = row[:, TURNED.stop - 1] - yaw
    across, along = np.cos(yaw) * x + np.sin(yaw) * y, np.cos(yaw) * y - np.sin(yaw) * x
    return np.column_stack([across, along, z - 1e3 * BITE_M, turn - np.pi * np.round(turn / np.pi)])


class FragileZiptieRig(ZiptieRig):
    """Lanes of the cutter scene with a gauge."""

    def __init__(self, spec: TaskSpec, lanes: int, seed: int) -> None:
        """Build the scene of one station; `seed` draws its physics, its ties and the errors of its cameras."""
        super().__init__(spec, lanes, seed)
        # One more number a period, for the gauge.
        self._noise = np.zeros((lanes, NOISE_TICKS, self._noise.shape[2] + 1))
        self._stub_mm = np.full(lanes, WHOLE_MM)
        self.remember(noise=self._noise, stub=self._stub_mm)

    def _feed(self, lane: int) -> None:
        super()._feed(lane)
        self._stub_mm[lane] = WHOLE_MM

    def _sense(self, noise: LaneArray) -> LaneArray:
        row = super()._sense(noise[:, :-1])
        row[:, STUB] = self._stub_mm + GAUGE_MM * noise[:, -1]
        row[:, ON_CUTTER] = 1e3 * reach("right", row[:, joints_of("right")]).at_m - row[:, CUTTER]
        row[:, ON_MARK] = on_mark(row)
        return row

    def _sever(self, rows: npt.NDArray[np.intp]) -> None:
        whole = rows[self._held[rows, -1] > 0.0]
        super()._sever(rows)
        for lane in whole[self._held[whole, -1] == 0.0]:
            self._stub_mm[lane] = self._bitten_at_mm(int(lane))

    def _bitten_at_mm(self, lane: int) -> float:
        """Distance from the mouth at which the plane of the blades crosses the tail."""
        cutter, pose = self.cutter()[lane], self.scene.qpos[lane, -7:]
        across = from_angles(cutter[None, 3:])[0][:, 1]
        along = from_angles(angles_of(pose[None, 3:]))[0] @ np.array([0.0, -1.0, 0.0])
        return float(across @ (cutter[:3] - 1e3 * pose[:3])) / float(across @ along)

    def _truth(self, lane: int) -> Truth:
        truth, off_mm = super()._truth(lane), abs(float(self._stub_mm[lane]) - MARK_MM)
        return replace(
            truth, success=truth.success and off_mm <= WITHIN_MM, metrics={**truth.metrics, "off_mark_mm": off_mm}
        )
