"""The environments of others in the benchmark: their demonstrations are weak, and the table of arms is printed."""

from __future__ import annotations

import sys
from typing import cast

import numpy as np
import pytest

from benchmarks import improvement
from benchmarks.outside.reacher import DAMPING, Servo
from enpire.interfaces import Task
from enpire.offline.rollouts import RolloutLoop
from enpire.plugins import load
from enpire.types import Observation

CAR = "benchmarks/outside/car.yaml"
"""The environment whose package is installed here: the packages of the others are not among ENPIRE's extras."""


def test_the_demonstrations_are_mixed() -> None:
    """Some succeed and some do not, so that a base that imitates them has something to learn."""
    task = cast("type[Task]", load("tasks", f"gym:{CAR}"))()
    starts = [task.start("train", index, b"secret") for index in range(24)]
    shown = RolloutLoop(task, task.rig(8, 0)).run(task.expert(1), starts)
    succeeded = sum(rollout.success for rollout in shown)
    assert 6 <= succeeded <= 20, f"{succeeded} of 24 demonstrations succeed"


def test_the_servo_moves_the_fingertip_to_the_target() -> None:
    """Straight along x, the target to the left: both joints turn left; one that stands at its target brakes alone."""
    straight = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.05]
    braking = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, -2.0, 0.0, 0.0]
    servo = Servo(1)
    for lane in (0, 1):
        servo.begin(lane, seed=lane)
    state = np.array([straight, braking], np.float32)
    left, brake = servo.act(Observation(stamp_ns=0, state=state), np.array([0, 1]))[:, 0]
    assert (left > 0.0).all()
    assert brake == pytest.approx([-2.0 * DAMPING, 2.0 * DAMPING])


def test_the_table_of_arms_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The benchmark's own command, in its smallest form, on an environment of others."""
    asked = ["improvement", "--task", f"gym:{CAR}", "--smoke", "--supervised", "0"]
    asked += ["--arms", "habc_plus,filtered_bc"]
    monkeypatch.setattr(sys, "argv", asked)
    improvement.main()
    printed = capsys.readouterr().out
    assert [name for name in ("base", "filtered_bc", "habc_plus") if name not in printed] == []
