"""A LeRobot robot as a driver: it conforms, returns what was sent, and names what is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from enpire.errors import RobotProblem, UsageError
from enpire.types import Bounds, Start, TaskSpec

pytest.importorskip("lerobot")

from robot_drivers.conformance import check, starts_of
from robot_drivers.conformance_bench import RobotUnderTest
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.lerobot_robot import LeRobotRobot, open_rig
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane
from tests.robot_drivers.fakebusrobot import FakeBusRobot, FakeBusRobotConfig

JOINTS = tuple(Bounds(name=name, unit="deg", low=-90.0, high=90.0) for name in ("pan.pos", "lift.pos"))
SPEC = TaskSpec(
    name="fake_bus",
    instruction="Reach.",
    state=JOINTS,
    action=JOINTS,
    rate_hz=50.0,
    limit_ticks=100,
    cameras=("wrist",),
)
MOVE = np.ones(1, np.bool_)


@dataclass
class OneSpec:
    """A task with the spec that a driver needs."""

    spec: TaskSpec


def config(folder: Path, **changes: object) -> FakeBusRobotConfig:
    return FakeBusRobotConfig(id="one", calibration_dir=folder, **changes)  # pyright: ignore[reportArgumentType]


def rig_of(robot: FakeBusRobot) -> GuardedRig:
    return GuardedRig(SingleLane(LeRobotRobot(robot, SPEC)), Envelope(SPEC))


def test_it_conforms(tmp_path):
    subject = RobotUnderTest(
        name="the arm", open=lambda: rig_of(FakeBusRobot(config(tmp_path))), start=starts_of(SPEC), realtime=True
    )
    report = check(subject)
    assert report.conforms, "\n".join(report.lines())


def test_what_lerobot_really_sent_is_returned(tmp_path):
    rig = rig_of(FakeBusRobot(config(tmp_path, max_relative_target=5.0)))
    rig.place(0, Start(split="train", index=0, values=(), seed=0))
    rig.observe()
    sent = rig.act(np.array([[80.0, -80.0]], np.float32), MOVE)
    assert sent.tolist() == [[pytest.approx(5.0, abs=0.5), pytest.approx(-5.0, abs=0.5)]]
    assert rig.look(0)["wrist"].shape == (24, 32, 3)
    rig.close()


def test_a_corrupt_bus_is_a_sentence(tmp_path):
    robot = FakeBusRobot(config(tmp_path))
    rig = rig_of(robot)
    robot.bus.corrupt = True
    with pytest.raises(RobotProblem, match="could not read: Failed to sync read"):
        rig.observe()
    robot.bus.corrupt = False
    rig.observe()


def test_an_uncalibrated_robot_is_refused(tmp_path):
    robot = FakeBusRobot(config(tmp_path, calibrated=False))
    with pytest.raises(RobotProblem, match="lerobot-calibrate"):
        rig_of(robot)
    assert not robot.is_connected


def test_names_must_fit(tmp_path):
    robot = FakeBusRobot(config(tmp_path))
    wrong = Bounds(name="roll.pos", unit="deg", low=-1.0, high=1.0)
    with pytest.raises(UsageError, match=r"has no action roll\.pos; it has lift\.pos, pan\.pos"):
        LeRobotRobot(robot, replace(SPEC, action=(*JOINTS, wrong)))
    with pytest.raises(UsageError, match=r"lacks the action lift\.pos"):
        LeRobotRobot(robot, replace(SPEC, action=JOINTS[:1]))
    with pytest.raises(UsageError, match="has no state front"):
        LeRobotRobot(robot, replace(SPEC, cameras=("front",)))


def test_degrees_of_a_robot_that_does_not_use_degrees_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    robot = FakeBusRobot(config(tmp_path))
    monkeypatch.setattr(robot, "config", SimpleNamespace(use_degrees=False), raising=False)
    with pytest.raises(UsageError, match=r"use_degrees: false.* has pan\.pos in deg; set use_degrees: true"):
        LeRobotRobot(robot, SPEC)
    shares = tuple(replace(joint, unit="%") for joint in JOINTS)
    LeRobotRobot(robot, replace(SPEC, action=shares, state=shares))


@pytest.mark.slow
def test_a_type_of_lerobot_is_made_by_name(tmp_path):
    told = {"type": "fake_bus_robot", "id": "one", "calibration_dir": str(tmp_path)}
    rig = open_rig(OneSpec(SPEC), 1, 0, {"robot": told})  # pyright: ignore[reportArgumentType]
    assert rig.observe().state.shape == (1, 2)
    rig.close()
    for wrong in ({"type": "no_such_robot"}, {"type": "fake_bus_robot", "speed": 3}, {"port": "x"}, None):
        with pytest.raises(UsageError):
            open_rig(OneSpec(SPEC), 1, 0, {"robot": wrong})  # pyright: ignore[reportArgumentType]
