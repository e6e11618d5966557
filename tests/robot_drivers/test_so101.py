"""An SO-101 arm through LeRobot's own driver and Feetech's SDK, with the servos at the other end of the serial port."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from enpire.errors import RobotProblem, UsageError
from enpire.types import Bounds, Start, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.lerobot_robot import open_rig
from robot_drivers.teleoperators import open_lerobot
from tests.fakes.feetech_bus import GOAL, HIGHEST, LOWEST, PRESENT, TORQUE, FeetechPort, Servo, write_calibration

pytest.importorskip("lerobot")
port_handler = pytest.importorskip("scservo_sdk.port_handler")

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
RANGES = dict.fromkeys(JOINTS, (1000, 3000)) | {"wrist_roll": (0, 4095), "gripper": (2000, 3400)}
ARM = tuple(Bounds(name=f"{joint}.pos", unit="deg", low=-120.0, high=120.0) for joint in JOINTS[:-1])
GRIPPER = Bounds(name="gripper.pos", unit="%", low=0.0, high=100.0)
SPEC = TaskSpec(
    name="so101", instruction="", state=(*ARM, GRIPPER), action=(*ARM, GRIPPER), rate_hz=30.0, limit_ticks=100
)
PER_TICK = 360 / 4095
HALF = 1000 * PER_TICK
MOVING = np.ones(1, np.bool_)


@pytest.fixture(autouse=True)
def servos(monkeypatch: pytest.MonkeyPatch) -> dict[int, Servo]:
    made = {number: Servo(number, *RANGES[joint]) for number, joint in enumerate(JOINTS, start=1)}
    monkeypatch.setattr(port_handler.serial, "Serial", FeetechPort)
    monkeypatch.setattr(FeetechPort, "servos", made)
    monkeypatch.setattr(FeetechPort, "unplugged", False)
    return made


@pytest.fixture
def calibration(tmp_path: Path) -> Path:
    write_calibration(tmp_path / "desk.json", RANGES)
    return tmp_path


def opened(calibration: Path, envelope: dict[str, object] | None = None, spec: TaskSpec = SPEC) -> GuardedRig:
    task: Any = SimpleNamespace(spec=spec)
    robot = {"type": "so101_follower", "port": "/dev/servos", "id": "desk", "calibration_dir": str(calibration)}
    rig = open_rig(task, 1, 0, {"robot": robot, "envelope": envelope or {}})
    rig.place(0, Start(split="train", index=0, values=(), seed=0))
    return rig


def test_positions_travel_in_degrees_and_the_gripper_in_percent(calibration: Path, servos: dict[int, Servo]) -> None:
    rig = opened(calibration)
    servos[1].set(PRESENT, 2000 + 100)
    servos[1].set(GOAL, 2000 + 100)
    state = rig.observe().state[0]
    assert state[0] == pytest.approx(100 * PER_TICK, abs=0.1)
    assert state[5] == pytest.approx(50.0, abs=0.1)
    assert all(servo.registers[TORQUE] for servo in servos.values())
    sent = rig.act(np.array([[10.0, -20.0, 0.0, 0.0, 0.0, 75.0]], np.float32), MOVING)
    assert sent[0].tolist() == [10.0, -20.0, 0.0, 0.0, 0.0, 75.0]
    assert servos[1].get(GOAL) == pytest.approx(2000 + 10 / PER_TICK, abs=1)
    assert servos[2].get(GOAL) == pytest.approx(2000 - 20 / PER_TICK, abs=1)
    assert servos[6].get(GOAL) == pytest.approx(2000 + 0.75 * 1400, abs=1)
    for _ in range(3):
        state = rig.observe().state[0]
    assert state[:2] == pytest.approx([10.0, -20.0], abs=0.1)
    rig.close()


def test_the_calibrated_range_limits_every_joint(calibration: Path, servos: dict[int, Servo]) -> None:
    rig = opened(calibration)
    rig.observe()
    sent = rig.act(np.array([[120.0, -120.0, 0.0, 0.0, 120.0, 50.0]], np.float32), MOVING)
    assert sent[0, :2] == pytest.approx([HALF, -HALF], abs=0.01)
    assert HALF < 88
    assert sent[0, 4] == 120.0, "the wrist turns all the way round"
    assert rig.clipped[0] == 1
    assert 1000 <= servos[2].get(GOAL) <= servos[1].get(GOAL) <= 3000
    rig.close()


def test_a_task_outside_the_calibrated_range_is_one_sentence(calibration: Path) -> None:
    bounds = (Bounds(name="shoulder_pan.pos", unit="deg", low=100.0, high=120.0), *SPEC.action[1:])
    spec = TaskSpec(name="far", instruction="", state=SPEC.state, action=bounds, rate_hz=30.0, limit_ticks=9)
    with pytest.raises(UsageError, match=r"for shoulder_pan.pos from -87.91 to 87.91, but the task far uses"):
        opened(calibration, spec=spec)


def test_servos_with_another_calibration_than_the_file_do_not_move(calibration: Path, servos: dict[int, Servo]) -> None:
    servos[3].set(LOWEST, 500)
    servos[3].set(HIGHEST, 3500)
    with pytest.raises(RobotProblem, match="is not calibrated; run lerobot-calibrate"):
        opened(calibration)
    assert not any(servo.registers[TORQUE] and servo.get(GOAL) != servo.get(PRESENT) for servo in servos.values())


def test_a_joint_that_is_held_stalls_and_its_motor_stops_pushing(calibration: Path, servos: dict[int, Servo]) -> None:
    rig = opened(calibration, {"stall": {"shoulder_lift.pos": 8.0}, "stall_s": 0.05})
    servos[2].wall = (1990, 2100)  # something is in the way at 100 ticks, 8.8 degrees
    rig.observe()
    action = np.array([[0.0, 40.0, 0.0, 0.0, 0.0, 50.0]], np.float32)
    for _ in range(10_000):
        rig.act(action, MOVING)
        rig.observe()
        if rig.violated[0]:
            break
    assert rig.violated[0]
    assert rig.offences[0] == (
        "shoulder_lift.pos stalls: it is at 8.791 deg, its command is 40 deg, and it has not moved for 0.05 s"
    )
    assert servos[2].get(GOAL) == pytest.approx(2100, abs=1), "the command is where the joint is, so no current flows"
    rig.act(action, MOVING)
    assert servos[2].get(GOAL) == pytest.approx(2100, abs=1), "and no action changes that"
    rig.close()


def test_a_joint_that_moves_or_is_near_its_command_does_not_stall(calibration: Path, servos: dict[int, Servo]) -> None:
    rig = opened(calibration, {"stall": {"shoulder_lift.pos": 8.0}, "stall_s": 0.0})
    servos[2].speed = 40  # 3.5 degrees at each reading
    rig.observe()
    for number in range(60):
        rig.act(np.array([[0.0, 80.0 if number < 40 else 76.0, 0.0, 0.0, 0.0, 50.0]], np.float32), MOVING)
        rig.observe()
        assert not rig.violated[0], rig.offences
    rig.close()


def test_a_stall_limit_needs_a_position_that_is_sensed(calibration: Path) -> None:
    with pytest.raises(UsageError, match="limits knee.pos, but so101 has no such position that is an action"):
        opened(calibration, {"stall": {"knee.pos": 8.0}})


def test_a_cable_that_is_pulled_is_a_fault_with_its_reason(calibration: Path) -> None:
    rig = opened(calibration)
    rig.observe()
    FeetechPort.unplugged = True
    with pytest.raises(RobotProblem, match="could not read: Failed to sync read 'Present_Position'"):
        rig.observe()
    FeetechPort.unplugged = False
    rig.close()


def test_a_leader_arm_takes_over(calibration: Path, servos: dict[int, Servo]) -> None:
    task: Any = SimpleNamespace(spec=SPEC)
    leader = {"type": "so101_leader", "port": "/dev/leader", "id": "desk", "calibration_dir": str(calibration)}
    rig: Any = SimpleNamespace(lanes=1)
    operator = open_lerobot(task, rig, 0, {"teleoperator": leader, "rests_s": 0.0001})
    lane, state = np.zeros(1, np.int64), np.zeros((1, 6), np.float32)
    seen: Any = SimpleNamespace(state=state)
    assert not any(servo.registers[TORQUE] for servo in servos.values()), "a person can move the leader"
    assert not operator.watch(seen, lane, lane)[0]
    servos[1].set(PRESENT, 2000 + 300)
    assert operator.watch(seen, lane, lane)[0]
    assert operator.act(seen, lane)[0, 0] == pytest.approx(300 * PER_TICK, abs=0.1)
    operator.close()
