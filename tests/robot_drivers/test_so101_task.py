"""The task of the simulated SO-101 on a real arm: the shipped station file and LeRobot's driver over a serial port."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from enpire.files import find
from enpire.interfaces import Evidence
from enpire.station.station_file import StationFile, read_station
from enpire.types import SOURCE_EXPERT, EpisodeArrays
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.lerobot_robot import open_rig
from sim.so101.kinematics import Tips, joints_for, tips
from sim.tasks.marker_expert import UPRIGHT_DEG
from sim.tasks.marker_in_cup import MarkerInCup
from sim.tasks.marker_rig import HOLDS_PERCENT, SQUEEZE_PERCENT, STICK_M
from tests.fakes.feetech_bus import GOAL, PRESENT, FeetechPort, Servo, write_calibration

pytest.importorskip("lerobot")
port_handler = pytest.importorskip("scservo_sdk.port_handler")

TASK = MarkerInCup()
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
RANGES = dict.fromkeys(JOINTS, (950, 3150)) | {"wrist_roll": (0, 4095), "gripper": (2000, 3400)}
MOVING = np.ones(1, np.bool_)


@pytest.fixture
def servos(monkeypatch: pytest.MonkeyPatch) -> dict[int, Servo]:
    """Six servos; something of the marker's width is between the jaws."""
    made = {number: Servo(number, *RANGES[joint]) for number, joint in enumerate(JOINTS, start=1)}
    low, high = RANGES["gripper"]
    made[6].wall = (low + round(0.01 * HOLDS_PERCENT * (high - low)), high)
    monkeypatch.setattr(port_handler.serial, "Serial", FeetechPort)
    monkeypatch.setattr(FeetechPort, "servos", made)
    monkeypatch.setattr(FeetechPort, "unplugged", False)
    return made


class Picture:
    """What the driver's camera is here: connected, with one image."""

    is_connected, height, width, use_rgb, use_depth = True, 480, 640, True, False

    def connect(self, warmup: bool = True) -> None: ...

    def disconnect(self) -> None: ...

    def read_latest(self, max_age_ms: int = 500) -> np.ndarray:
        return np.full((480, 640, 3), 90, np.uint8)


@pytest.fixture
def arm(servos: dict[int, Servo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuardedRig:
    """The robot of the shipped station file, with a calibration of its own."""
    from lerobot.robots.so_follower import so_follower

    monkeypatch.setattr(so_follower, "make_cameras_from_configs", lambda found: {name: Picture() for name in found})
    write_calibration(tmp_path / "left.json", RANGES)
    options = cast("Mapping[str, Any]", _station("so101").options["options"])
    robot = {**options["robot"], "calibration_dir": str(tmp_path)}
    return open_rig(TASK, 1, 0, {**options, "robot": robot})


def _station(name: str) -> StationFile:
    return read_station(find("stations", name))


def test_the_shipped_station_files_have_one_task_and_one_envelope() -> None:
    real, simulated = _station("so101"), _station("simulated_so101")
    assert real.task == simulated.task == TASK.spec.name
    assert cast("Mapping[str, Any]", real.options["options"])["envelope"] == simulated.options["envelope"]


def test_the_reset_and_the_expert_do_the_task_on_the_servos(arm: GuardedRig, servos: dict[int, Servo]) -> None:
    start = TASK.start("train", 4, b"")
    arm.place(0, start)
    skill = TASK.reset_skill()
    skill.begin(0, start)
    for _ in range(400):
        command, done = skill.step(arm.observe().state, np.array([0]))
        if done[0]:
            break
        arm.act(command, MOVING)
    assert TASK.start_error(arm.observe().state[0], start)[1]
    expert, verifier = TASK.clean_expert(), TASK.verifier()
    expert.begin(0, 1)
    states, actions, chunk = [arm.observe().state[0]], [], np.zeros((1, 0, 6), np.float32)
    while not verifier.finished(states[-1][None], np.array([len(actions)]))[0]:
        assert len(actions) < TASK.spec.limit_ticks, arm.offences
        if len(actions) % expert.execute == 0:
            chunk = expert.act(arm.observe(), np.array([0]))
        actions.append(arm.act(chunk[:, len(actions) % expert.execute], MOVING)[0])
        states.append(arm.observe().state[0])
    count = len(actions)
    arrays = EpisodeArrays(
        state=np.stack(states), action=np.stack(actions), source=np.full(count, SOURCE_EXPERT, np.uint8),
        chunk=np.zeros(count, np.int32),
    )  # fmt: skip
    assert TASK.verifier().judge(Evidence(arrays=arrays, images={})).kind == "success"
    assert arm.look(0)["front"].shape == (480, 640, 3)
    assert not arm.violated[0]
    low, high = RANGES["gripper"]
    assert servos[6].get(GOAL) <= low + 0.01 * SQUEEZE_PERCENT * (high - low) + 1, "the jaws press on the marker"
    arm.close()


def put(servos: dict[int, Servo], arm: GuardedRig, joints_deg: np.ndarray) -> None:
    """Turn the servos by hand to these joints (5,), as far as LeRobot's calibration says where that is."""
    for number, angle in enumerate(joints_deg, start=1):
        low, high = RANGES[JOINTS[number - 1]]
        place = round((low + high) / 2 + float(angle) * 4095 / 360)
        servos[number].set(PRESENT, place)
        servos[number].set(GOAL, place)
    np.testing.assert_allclose(arm.observe().state[0, :5], joints_deg, atol=0.2)


def over_table(height_m: float) -> np.ndarray:
    """Joints (5,) with the marker upright beside the cup."""
    wanted = Tips(at_m=np.array([[0.28, 0.0, height_m]]), pitch_deg=np.full(1, 25.0), roll_deg=np.array([UPRIGHT_DEG]))
    return joints_for(wanted, STICK_M)[0]


def test_the_marker_is_not_pushed_into_the_table(arm: GuardedRig, servos: dict[int, Servo]) -> None:
    arm.place(0, TASK.start("train", 0, b""))
    put(servos, arm, over_table(0.04))
    wanted = np.append(over_table(-0.03), SQUEEZE_PERCENT).astype(np.float32)[None]
    lowest_m = 1.0
    for _ in range(60):
        sent = arm.act(wanted, MOVING)
        lowest_m = min(lowest_m, float(tips(sent[:, :5].astype(np.float64), STICK_M).at_m[0, 2]))
        arm.observe()
    assert 0.0149 <= lowest_m < 0.017, "the command stops at the least height"
    assert arm.clipped[0] >= 50
    assert not arm.violated[0], arm.offences
    arm.close()


def test_a_tip_that_is_measured_at_the_table_ends_the_rollout(arm: GuardedRig, servos: dict[int, Servo]) -> None:
    arm.place(0, TASK.start("train", 0, b""))
    put(servos, arm, over_table(0.04))
    put(servos, arm, over_table(0.0))
    assert arm.violated[0]
    assert arm.offences[0] == "the tip is 0 mm over the table, allowed is at least 5 mm"
    arm.act(np.append(over_table(-0.03), SQUEEZE_PERCENT).astype(np.float32)[None], MOVING)
    assert all(abs(servos[number].get(GOAL) - servos[number].get(PRESENT)) <= 1 for number in range(1, 6))
    arm.close()


def test_a_joint_that_is_held_ends_the_rollout_and_no_current_flows(
    arm: GuardedRig, servos: dict[int, Servo]
) -> None:  # fmt: skip
    arm.place(0, TASK.start("train", 0, b""))
    here = arm.observe().state.copy()
    servos[3].wall = (servos[3].get(PRESENT) - 20, servos[3].get(PRESENT) + 20)
    action = here.copy()
    action[0, 5] = SQUEEZE_PERCENT
    action[0, 2] += 40.0
    for _ in range(100_000):
        arm.act(action, MOVING)
        arm.observe()
        if arm.violated[0]:
            break
    assert "elbow_flex.pos stalls" in arm.offences[0]
    assert abs(servos[3].get(GOAL) - servos[3].get(PRESENT)) <= 1
    arm.close()
