"""The environments of others in the benchmark: their demonstrations are weak, and the table of arms is printed."""

from __future__ import annotations

import sys
from typing import cast

import numpy as np
import pytest

from benchmarks import improvement
from benchmarks.outside.parking import PIECES, costs
from enpire.offline.rollouts import RolloutLoop
from enpire.interfaces import Task
from enpire.plugins import load

CAR = "benchmarks/outside/car.yaml"
"""The environment whose package is installed here: box2d and highway-env are not among ENPIRE's extras."""


def test_the_demonstrations_are_mixed() -> None:
    """Some succeed and some do not, so that a base that imitates them has something to learn."""
    task = cast("type[Task]", load("tasks", f"gym:{CAR}"))()
    starts = [task.start("train", index, b"secret") for index in range(24)]
    shown = RolloutLoop(task, task.rig(8, 0)).run(task.expert(1), starts)
    succeeded = sum(rollout.success for rollout in shown)
    assert 6 <= succeeded <= 20, f"{succeeded} of 24 demonstrations succeed"


def test_a_plan_towards_the_bay_costs_less() -> None:
    """A car that stands 10 m before its bay, in the bay's direction: forward is best, backward worst."""
    row = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0, 0.0])
    plans = np.zeros((3, PIECES, 2))
    plans[:, :, 0] = np.array([0.4, 0.0, -0.4])[:, None]
    forward, still, back = costs(row, plans)
    assert forward < still < back


def test_a_plan_into_a_wall_costs_most() -> None:
    """Full throttle for the whole plan ends beyond the wall of the lot, 35 m away."""
    row = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0, 0.0])
    plans = np.zeros((2, PIECES, 2))
    plans[0, :, 0] = 1.0
    into, still = costs(row, plans)
    assert into > still


def test_the_table_of_arms_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The benchmark's own command, in its smallest form, on an environment of others."""
    asked = ["improvement", "--task", f"gym:{CAR}", "--smoke", "--supervised", "0"]
    asked += ["--arms", "habc_plus,filtered_bc"]
    monkeypatch.setattr(sys, "argv", asked)
    improvement.main()
    printed = capsys.readouterr().out
    assert [name for name in ("base", "filtered_bc", "habc_plus") if name not in printed] == []
