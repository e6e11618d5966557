"""A robot on ROS 2 topics in a process that speaks only DDS, moved and checked from this one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import RobotProblem, UsageError
from robot_drivers.conformance import check, starts_of
from robot_drivers.conformance_bench import RobotUnderTest
from robot_drivers.driver_file import load_robot
from robot_drivers.fake_robot import FAKE_SPEC
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.ros2_link import Ros2Settings
from robot_drivers.ros2_robot import Ros2Robot
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane
from tests.robot_drivers.dds_robot_node import joints_by_unit

pytest.importorskip("cyclonedds")
ROOT = Path(__file__).resolve().parents[2]
STATE = {
    "shoulder_rad": "shoulder/position",
    "elbow_rad": "elbow/position",
    "shoulder_rad_s": "shoulder/velocity",
    "elbow_rad_s": "elbow/velocity",
}
ARM = "from robot_drivers.fake_robot import robot\n"
PIN = '''
"""The simulated pin in real time, without the episode's clock. It holds when no new action comes."""

import time
from dataclasses import replace

import numpy as np

from enpire.types import Observation
from sim.tasks.pin_insertion import PinInsertion

PERIODS = 3  # for which an action is carried out


class RealTimePin:
    spec = replace(PinInsertion.spec, cameras=(), state=PinInsertion.spec.state[:-1])

    def connect(self):
        task = PinInsertion()
        self.rig = task.rig(1, 0)
        self.rig.place(0, task.start("train", 0, b""))
        self.began_s, self.periods = time.monotonic(), 0
        self.stop()

    def observe(self):
        self.advance()
        return Observation(stamp_ns=time.monotonic_ns(), state=self.rig.observe().state[:, :-1])

    def act(self, action):
        self.advance()
        self.command, self.left = action, PERIODS
        return action

    def stop(self):
        self.command, self.left = np.zeros(3, np.float32), 0

    def close(self):
        self.rig.close()

    def advance(self):
        while self.periods < (time.monotonic() - self.began_s) * self.spec.rate_hz:
            self.rig.act((self.command if self.left > 0 else 0 * self.command)[None], np.ones(1, np.bool_))
            self.periods, self.left = self.periods + 1, self.left - 1


def robot():
    return RealTimePin()
'''


@contextmanager
def shown(driver: Path, domain: int) -> Iterator[None]:
    """The robot of a driver file, in a process of its own that speaks only DDS."""
    node = subprocess.Popen(
        [sys.executable, "-m", "tests.robot_drivers.dds_robot_node", str(driver), str(domain)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert node.stdout is not None
    assert node.stdout.readline() == b"serving\n"
    try:
        yield
    finally:
        node.communicate(timeout=600)


@pytest.fixture
def settings(tmp_path, domain) -> Iterator[Ros2Settings]:
    driver = tmp_path / "arm.py"
    driver.write_text(ARM)
    with shown(driver, domain):
        yield Ros2Settings(state=STATE, cameras={"top": "top/compressed"}, domain=domain, loopback=True, silence_s=20.0)


def opened(settings: Ros2Settings) -> GuardedRig:
    return GuardedRig(SingleLane(Ros2Robot(FAKE_SPEC, settings)), Envelope(FAKE_SPEC))


@pytest.mark.realtime
def test_a_robot_that_speaks_only_dds_conforms(settings):
    """Over cyclonedds; over rclpy where a ROS 2 is sourced."""
    report = check(
        RobotUnderTest(name="the arm", open=lambda: opened(settings), start=starts_of(FAKE_SPEC), realtime=True)
    )
    assert report.conforms, "\n".join(report.lines())


@pytest.mark.slow
@pytest.mark.realtime
def test_a_simulation_in_mujoco_conforms_behind_dds(tmp_path, domain):
    """Over cyclonedds; over rclpy where a ROS 2 is sourced."""
    driver = tmp_path / "pin.py"
    driver.write_text(PIN)
    robot = load_robot(driver, {})
    state = {name: f"{joint}/{what}" for name, (joint, what) in joints_by_unit(robot).items()}
    settings = Ros2Settings(state=state, domain=domain, loopback=True, silence_s=20.0)

    def opened() -> GuardedRig:
        return GuardedRig(SingleLane(Ros2Robot(robot.spec, settings)), Envelope(robot.spec))

    with shown(driver, domain):
        report = check(RobotUnderTest(name="the arm", open=opened, start=starts_of(robot.spec), realtime=True))
    assert report.conforms, "\n".join(report.lines())
    assert report.applied >= 30


def test_it_is_driven_seen_and_stopped(settings):
    rig = opened(settings)
    first = rig.observe()
    assert set(first.images) == {"top"}, "what a policy looks at from the first command on"
    state = first.state[0]
    for _ in range(40):
        rig.act(np.array([[0.8, -0.4]], np.float32), np.ones(1, np.bool_))
        state = rig.observe().state[0]
        if abs(state[0] - 0.8) < 0.02:
            break
        time.sleep(0.05)
    assert state[:2] == pytest.approx([0.8, -0.4], abs=0.05)
    assert rig.look(0)["top"].shape == (48, 64, 3)
    rig.stop()
    rig.close()


def test_it_leaves_the_domain_and_comes_back(settings):
    for _ in range(2):
        robot = Ros2Robot(FAKE_SPEC, settings)
        robot.connect()
        assert robot.observe().state.shape == (1, 4)
        robot.close()
        robot.close()
        assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("rclpy")]


def test_a_robot_that_is_not_there_is_named(empty_domain):
    robot = Ros2Robot(FAKE_SPEC, Ros2Settings(state=STATE, domain=empty_domain, loopback=True, discovery_s=0.2))
    with pytest.raises(RobotProblem, match="not found within 0 s: no node subscribes to its joint commands"):
        robot.connect()
    robot.stop()
    with pytest.raises(RobotProblem, match="not connected"):
        robot.observe()


def test_a_camera_that_is_silent_is_named(settings):
    told = replace(settings, cameras={**settings.cameras, "side": "side/compressed"}, discovery_s=3.0)
    with pytest.raises(RobotProblem, match="its camera side publishes no images on side/compressed"):
        Ros2Robot(FAKE_SPEC, told).connect()


def test_a_wrong_joint_address_is_refused():
    with pytest.raises(UsageError, match="elbow/position"):
        Ros2Robot(FAKE_SPEC, Ros2Settings(state={"shoulder_rad": "shoulder/torque"}))


def test_types_have_the_names_that_ros_gives_them():
    from robot_drivers import dds_types

    assert dds_types.JointState.__idl__.idl_transformed_typename == "sensor_msgs::msg::dds_::JointState_"
    assert dds_types.TriggerRequest.__idl__.idl_transformed_typename == "std_srvs::srv::dds_::Trigger_Request_"


@pytest.mark.ros
def test_over_rclpy_it_conforms_too(settings):
    pytest.importorskip("rclpy", reason="no ROS 2 is sourced; over cyclonedds the same topics are tested above")
    report = check(
        RobotUnderTest(name="the arm", open=lambda: opened(settings), start=starts_of(FAKE_SPEC), realtime=True)
    )
    assert report.conforms, "\n".join(report.lines())
