"""LeRobot's own robot classes stop without cameras, without a healthy reading, and without rolling on."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enpire.errors import RobotProblem
from enpire.types import Bounds, Start, TaskSpec

pytest.importorskip("lerobot")

from lerobot.robots import Robot
from lerobot.robots.earthrover_mini_plus import EarthRoverMiniPlus, EarthRoverMiniPlusConfig

from enpire.conformance import run_check
from robot_drivers import conformance_halt
from robot_drivers.conformance import check, starts_of
from robot_drivers.conformance_bench import Bench, RobotUnderTest
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.lerobot_robot import BUS_S, LeRobotRobot
from robot_drivers.lerobot_stop import arms
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane
from tests.fakes.lerobot_arms import MemoryBus, kiwi, rig_of, so101, spec_of, two_arms
from tests.fakes.waiting import until

ONE = np.ones(1, np.bool_)
FAR_DEG, SLOW_DEG_S = 80.0, 10.0
"""Target and speed of every joint: none reaches it before it is stopped, also on a busy machine."""


def buses(robot: Robot) -> list[MemoryBus]:
    return [arm.bus for _, arm in arms(robot)]  # pyright: ignore[reportAttributeAccessIssue]


def cameras(robot: Robot) -> list[Any]:
    return [camera for _, arm in arms(robot) for camera in arm.cameras.values()]  # pyright: ignore[reportAttributeAccessIssue]


def set_off(robot: Robot) -> GuardedRig:
    """The robot on its way: every joint slowly to a far target, and a base forwards."""
    for bus in buses(robot):
        bus.speed_deg_s = SLOW_DEG_S
    rig = rig_of(robot)
    rig.place(0, Start(split="train", index=0, values=(), seed=0))
    rig.observe()
    action = np.array([[0.2 if name.is_rate else FAR_DEG for name in rig.spec.action]], np.float32)
    rig.act(action, ONE)
    time.sleep(0.1)
    rig.observe()
    return rig


def travelled(robot: Robot) -> list[float]:
    """What each bus moves in 0.2 s: the largest change of a joint [deg], or the distance that a wheel rolls [mm]."""
    before = [({**bus.present}, bus.rolled_m) for bus in buses(robot) if bus.joint_speed_deg_s() >= 0]
    time.sleep(0.2)
    after = [({**bus.present}, bus.rolled_m) for bus in buses(robot) if bus.joint_speed_deg_s() >= 0]
    return [
        max(*(abs(now[0][name] - was[0][name]) for name in was[0]), 1e3 * (now[1] - was[1]))
        for was, now in zip(before, after, strict=True)
    ]


@pytest.fixture(params=[so101, two_arms, kiwi], ids=["so101", "two SO-101", "LeKiwi"])
def robot(request, tmp_path) -> Iterator[Robot]:
    made = request.param(tmp_path)
    yield made
    for bus in buses(made):
        bus.dead_reads = bus.dead_writes = 0


def test_the_robots_of_these_tests_move(robot):
    set_off(robot)
    assert min(travelled(robot)) > 1


def unplugged(robot: Robot) -> None:
    cameras(robot)[0].gone = True
    assert not robot.is_connected


def frozen(robot: Robot) -> None:
    cameras(robot)[0].stale = True
    time.sleep(0.6)
    with pytest.raises(TimeoutError, match="too old"):
        robot.get_observation()


def noisy(robot: Robot) -> None:
    for bus in buses(robot):
        bus.dead_reads = 1


def deaf(robot: Robot) -> None:
    for bus in buses(robot):
        bus.dead_reads = 1000


@pytest.mark.parametrize("fault", [lambda robot: None, unplugged, frozen, noisy, deaf])
def test_a_stop_ends_the_motion_whatever_the_sensors_do(robot, fault: Callable[[Robot], None]):
    rig = set_off(robot)
    fault(robot)
    rig.stop()
    seen = [bus.goal for bus in buses(robot)]
    # An arm that could not be read goes back to where it was sensed last.
    until(lambda: max(travelled(robot)) < 0.5, "the motion to end", patience_s=30.0)
    assert all(abs(goal) < FAR_DEG - 10 for goals in seen for goal in goals.values())
    assert all(bus.torque for bus in buses(robot))


def test_the_cameras_come_back_after_a_stop(robot):
    rig = set_off(robot)
    rig.stop()
    rig.stop()
    rig.resume()
    assert {name for name in rig.observe().images if "wrist" in name} == set(rig.spec.cameras)


def test_a_robot_that_cannot_be_commanded_says_so(robot):
    rig = set_off(robot)
    for bus in buses(robot):
        bus.dead_writes = 1000
    with pytest.raises(RobotProblem, match="Port is in use.*emergency stop"):
        rig.stop()


def test_an_arm_that_fails_does_not_keep_the_other_one_moving(tmp_path):
    robot = two_arms(tmp_path)
    rig = set_off(robot)
    left, right = buses(robot)
    left.dead_writes = 1000
    with pytest.raises(RobotProblem, match="emergency stop"):
        rig.stop()
    until(lambda: travelled(robot)[1] < 0.5, "the motion of the other arm to end", patience_s=30.0)
    assert left.goal["elbow_flex"] == pytest.approx(FAR_DEG)
    assert right.goal["elbow_flex"] < FAR_DEG - 10


def test_the_wheels_stop_although_the_arm_above_them_does_not_answer(tmp_path):
    robot = kiwi(tmp_path)
    rig = set_off(robot)
    write = robot.bus.sync_write

    def without_arm(name: str, values: dict[str, float], *, num_retry: int = 0) -> None:
        if name == "Goal_Position":
            raise ConnectionError("no status packet")
        write(name, values)

    robot.bus.sync_write = without_arm
    with pytest.raises(RobotProblem, match="no status packet"):
        rig.stop()
    assert set(robot.bus.speed.values()) == {0}


def test_a_bus_that_was_lost_is_a_problem_and_no_silent_stop(robot):
    rig = set_off(robot)
    for bus in buses(robot):
        bus.is_connected = False
    with pytest.raises(RobotProblem, match="not connected.*emergency stop"):
        rig.stop()


@pytest.mark.realtime
def test_a_camera_call_that_hangs_does_not_hold_up_a_stop(robot):
    """The call holds the bus: a stop waits for it, but not for ever."""
    rig = set_off(robot)
    entered, ended = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        entered.set()
        ended.wait(20.0)
        raise TimeoutError("no frame came")

    def read() -> None:
        with contextlib.suppress(RobotProblem):
            rig.observe()

    cameras(robot)[0].read_latest = hang
    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    assert entered.wait(600)
    began_s = time.monotonic()
    rig.stop()
    assert time.monotonic() - began_s < BUS_S + 2.0
    time.sleep(0.05)
    assert max(travelled(robot)) < 0.5
    ended.set()
    reading.join(300)


def test_a_robot_whose_camera_is_gone_is_released(robot):
    rig = set_off(robot)
    unplugged(robot)
    rig.close()
    assert not any(bus.is_connected for bus in buses(robot))
    assert not any(camera.opened for camera in cameras(robot)[1:])


def test_a_robot_that_could_not_be_opened_can_be_opened_when_its_camera_is_back(robot):
    cameras(robot)[-1].gone = True
    with pytest.raises(RobotProblem, match="Failed to open"):
        rig_of(robot)
    assert not any(bus.is_connected for bus in buses(robot))
    cameras(robot)[-1].gone = False
    rig_of(robot).close()


def test_a_stop_that_an_sdk_hides_is_a_problem(tmp_path):
    """LeRobot's class of the EarthRover logs a command that fails, and returns as if it had been sent."""
    rover = EarthRoverMiniPlus(
        EarthRoverMiniPlusConfig(id="one", sdk_url="http://127.0.0.1:9", calibration_dir=tmp_path)
    )
    rover._is_connected = True
    speeds = tuple(Bounds(name=name, unit="", low=-1.0, high=1.0) for name in rover.action_features)
    state = (Bounds(name="speed", unit="", low=0.0, high=10.0),)
    spec = TaskSpec(name="rover", instruction="Go.", state=state, action=speeds, rate_hz=10.0, limit_ticks=10)
    driver = LeRobotRobot(rover, spec)
    driver._connected = True  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(RobotProblem, match="does not take the command"):
        driver.stop()


@pytest.mark.realtime
@pytest.mark.parametrize("make", [pytest.param(so101, marks=pytest.mark.slow), kiwi])
def test_it_conforms(tmp_path: Path, make):
    spec = spec_of(make(tmp_path))
    subject = RobotUnderTest(name="the arm", open=lambda: rig_of(make(tmp_path)), start=starts_of(spec), realtime=True)
    report = check(subject)
    assert report.conforms, "\n".join(report.lines())
    judged = {result.name for result in report.results if result.result == "passed"}
    assert {
        "stop_ends_motion", "still_lane_ends_motion", "stop_without_observations", "stop_without_cameras",
        "stop_with_stale_cameras",
    } <= judged  # fmt: skip


class Trusting(LeRobotRobot):
    """The driver as it was: it stops with a whole observation, and only a robot that LeRobot calls connected."""

    def stop(self) -> None:
        if not self._robot.is_connected:
            return
        values = self._robot.get_observation()
        self._robot.send_action({name: values.get(name, 0.0) for name in self._action_names})


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("make", "caught"),
    [
        (so101, {"stop_without_cameras", "stop_with_stale_cameras"}),
        (kiwi, {"stop_ends_motion", "still_lane_ends_motion"}),
    ],
)
def test_the_checks_catch_a_stop_that_trusts_the_sensors(tmp_path: Path, make, caught):
    spec = spec_of(make(tmp_path))

    def opened() -> GuardedRig:
        return GuardedRig(SingleLane(Trusting(make(tmp_path), spec)), Envelope(spec))

    bench = Bench(RobotUnderTest(name="the arm", open=opened, start=starts_of(spec), realtime=True))
    results = [run_check(rule, bench, lambda: None) for rule in conformance_halt.CHECKS]
    bench.meter.close()
    assert caught <= {item.name for item in results if item.result == "failed"}
