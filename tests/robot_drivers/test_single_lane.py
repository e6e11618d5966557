"""Live images of a real robot: of now, also while it is idle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from enpire.errors import RobotProblem
from enpire.types import Observation
from robot_drivers.fake_robot import FakeRobot
from robot_drivers.single_lane import LIVE_S, SingleLane


class CountingRobot(FakeRobot):
    """A robot whose images show how often it was observed."""

    def __init__(self) -> None:
        super().__init__()
        self.observed = 0
        self.problem = ""

    def observe(self) -> Observation:
        if self.problem:
            raise RobotProblem(self.problem)
        self.observed += 1
        image = np.full((1, 4, 4, 3), self.observed, np.uint8)
        return Observation(stamp_ns=0, state=np.zeros((1, 4), np.float32), images={"front": image})


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_robot_that_is_idle_is_observed_for_its_live_image() -> None:
    robot, clock = CountingRobot(), Clock()
    rig = SingleLane(robot, clock)

    def shown() -> int:
        return int(rig.capture_live(0)(["front"])["front"][0, 0, 0])

    assert shown() == 1, "it was never observed"
    rig.observe()
    clock.now_s += LIVE_S
    assert (shown(), robot.observed) == (2, 2), "a robot that moves is not observed once more"
    clock.now_s += 0.001
    assert (shown(), shown(), robot.observed) == (3, 4, 4)
    assert int(rig.look(0)["front"][0, 0, 0]) == 2, "a recording has the images of its own period"
    robot.problem = "The camera is away."
    with pytest.raises(RobotProblem, match="The camera is away"):
        shown()
