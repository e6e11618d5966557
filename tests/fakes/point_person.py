"""A person at the point robot: looks at it for some periods, moves it for some, and lets go in between."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from enpire.interfaces import Rig, Task
from enpire.policy_calls import LoadedPolicy
from enpire.types import FloatArray, IntArray, MaskArray, Observation, Order
from tests.fakes.point_task import PointPolicy


class Person:
    """Moves the robot, as the expert would, in those periods of an episode whose numbers `moves` holds."""

    def __init__(self, moves: Collection[int]) -> None:
        self.moves, self.period, self.expert = moves, -1, PointPolicy(noise=0.0)

    def begin(self, lane: int, order: Order, policy: LoadedPolicy) -> None:
        self.period = -1
        self.expert.begin(lane, 0)

    def watch(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> MaskArray:
        self.period += 1
        return np.full(len(lanes), self.period in self.moves)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return self.expert.act(Observation(stamp_ns=0, state=observation.state[lanes]), lanes)[:, 0]

    def close(self) -> None:
        pass


def open_person(task: Task, rig: Rig, seed: int, options: Mapping[str, object]) -> Person:
    """The operator of a station file: waits for 20 periods, then demonstrates."""
    return Person(range(20, 10_000))
