"""The rig of fragile zip-tie cutting: a gauge at the feeder measures the stub that a cut leaves.

The first cut decides: a tail that was cut cannot be cut again elsewhere. The feeder presents a whole tail in the reset.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from enpire.types import Bounds, TaskSpec
from sim.bimanual.kinematics import angles_of, from_angles
from sim.rig import NOISE_TICKS, LaneArray, Truth
from sim.tasks.ziptie_rig import STATE, ZiptieRig
from sim.tasks.ziptie_scene import CUT_AT_M, TAIL_M

WHOLE_MM, MARK_MM = 1e3 * TAIL_M[1], 1e3 * CUT_AT_M
"""Length of a whole tail, and of the stub that a cut at the mark leaves."""
WITHIN_MM = 3.0
"""Ground truth of success: largest distance of the cut from the mark."""
GAUGE_MM = 0.2
"""Standard deviation of the gauge."""
STUB = len(STATE) - 1
"""Column of a state row, before the time that is left."""
STATE_WITH_STUB = (
    *STATE[:STUB],
    Bounds(name="stub_mm", unit="mm", low=-5.0, high=50.0, sensor_std=GAUGE_MM),
    STATE[STUB],
)


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
