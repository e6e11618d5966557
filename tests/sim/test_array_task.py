"""The expert of a task of rows reaches its goal at every speed, with velocities and with absolute positions."""

from __future__ import annotations

import numpy as np
import pytest

from enpire.types import Bounds, MaskArray, Observation, TaskSpec
from sim.array_task import ArrayTask, Rows

GOAL_M = 0.6


class Absolute(ArrayTask):
    """A point that goes to the commanded position, at most 0.05 m in a period."""

    spec = TaskSpec(
        name="absolute",
        instruction="Go to the mark.",
        state=(Bounds(name="x_m", unit="m", low=-1.0, high=1.0),),
        action=(Bounds(name="target_m", unit="m", low=-1.0, high=1.0),),
        rate_hz=20.0,
        limit_ticks=120,
        start_names=("x_m",),
    )
    ranges = ((-0.8, 0.2),)
    goal = (GOAL_M,)
    tolerance = (0.02,)
    noise = 0.0

    def advance(self, world: Rows, command: Rows) -> Rows:
        return world + np.clip(command - world, -0.05, 0.05)

    def steer(self, state: Rows, goal: Rows) -> Rows:
        return goal

    def success(self, state: Rows) -> MaskArray:
        return np.abs(state[:, 0] - GOAL_M) < 0.02


class Velocity(Absolute):
    """The same point with velocity commands."""

    def advance(self, world: Rows, command: Rows) -> Rows:
        return world + np.clip(command, -1.0, 1.0) * self.spec.period_s

    def steer(self, state: Rows, goal: Rows) -> Rows:
        return np.clip(4.0 * (goal - state), -1.0, 1.0)


@pytest.mark.parametrize("task", [Absolute(), Velocity()])
def test_the_expert_reaches_its_goal_at_every_speed(task: ArrayTask) -> None:
    expert, lanes = task.expert(3), np.arange(8)
    for lane in range(8):
        expert.begin(lane, lane)
    state = np.full((8, 1), -0.5, np.float32)
    first = expert.act(Observation(stamp_ns=0, state=state), lanes)[:, 0]
    assert np.ptp(first) > 0.1, "each episode has its own speed"
    for _ in range(task.spec.limit_ticks):
        command = expert.act(Observation(stamp_ns=0, state=state), lanes)[:, 0]
        state = task.advance(state, command).astype(np.float32)
    np.testing.assert_allclose(state, GOAL_M, atol=0.02)
