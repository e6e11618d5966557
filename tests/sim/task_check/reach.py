"""A third party's task, without MuJoCo: a point reaches the middle of a table."""

from __future__ import annotations

import numpy as np

from enpire.types import Bounds, MaskArray, TaskSpec
from sim.array_task import ArrayTask, Rows


class Reach(ArrayTask):
    spec = TaskSpec(
        name="reach",
        instruction="Move the point to the middle of the table.",
        state=tuple(Bounds(name=f"{axis}_m", unit="m", low=-1.0, high=1.0) for axis in "xy"),
        action=tuple(Bounds(name=f"v{axis}_m_s", unit="m/s", low=-0.3, high=0.3) for axis in "xy"),
        rate_hz=20.0,
        limit_ticks=120,
        start_names=("x_m", "y_m"),
    )
    ranges = ((-0.8, 0.8), (0.2, 0.8))
    goal = (0.0, 0.0)
    tolerance = (0.02, 0.02)

    def advance(self, world: Rows, command: Rows) -> Rows:
        return world + command * self.spec.period_s

    def steer(self, state: Rows, goal: Rows) -> Rows:
        return np.clip(4.0 * (goal - state), -0.3, 0.3)

    def success(self, state: Rows) -> MaskArray:
        return np.hypot(state[:, 0], state[:, 1]) < 0.03
