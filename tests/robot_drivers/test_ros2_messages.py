"""What the driver of ROS 2 sends and receives, read and written on the wire by a peer that shares no code with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from enpire.errors import FileProblem, RobotProblem, UsageError
from enpire.files import parse
from enpire.types import Start, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.ros2_commands import Commands
from robot_drivers.ros2_link import Ros2Settings
from robot_drivers.ros2_robot import Ros2Robot
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane

pytest.importorskip("cyclonedds")
from tests.robot_drivers.ros2_peer import Peer, arm_spec, base_spec, peer, pixels
from tests.robot_drivers.ros2_types import Flag, Nothing, StampedTwist, Trajectory, TwistMessage

ONE = np.ones(1, np.bool_)
WHERE = {"shoulder_rad": "shoulder/position", "elbow_rad": "elbow/position"}
WHEELS = {"forward_m_s": "shoulder/velocity", "turn_rad_s": "elbow/velocity"}
DRIVES = {"forward_m_s": "linear/x", "turn_rad_s": "angular/z"}


def settings(domain: int, **changes: Any) -> Ros2Settings:
    """Topics with absolute names; the stop needs no service."""
    base: dict[str, Any] = {
        "state": WHERE, "joint_states": "/arm/joint_states", "joint_commands": "/arm/command", "stop_by": "command",
        "commands": "JointTrajectory", "domain": domain, "loopback": True, "controller_manager": "/arm/manager",
    }  # fmt: skip
    return Ros2Settings(**{**base, **changes})


@contextmanager
def opened(spec: TaskSpec, told: Ros2Settings) -> Iterator[GuardedRig]:
    rig = GuardedRig(SingleLane(Ros2Robot(spec, told)), Envelope(spec))
    try:
        rig.place(0, Start(split="train", index=0, values=(), seed=0))
        rig.observe()
        yield rig
    finally:
        rig._rig.close()  # pyright: ignore[reportPrivateUsage]


def again(do: Callable[[], object]) -> None:
    """Call it for 10 s, or until it fails."""
    until_s = time.monotonic() + 300
    while time.monotonic() < until_s:
        do()
        time.sleep(0.02)


def heard(robot: Peer, true: Callable[[Any], bool]) -> Any:
    """The first message that the peer received and for which this is true."""
    robot.wait(lambda: any(map(true, robot.heard)), "a message")
    return next(filter(true, robot.heard))


def test_a_joint_trajectory_arrives_under_an_absolute_name(domain: int) -> None:
    with peer(domain, Trajectory) as robot, opened(arm_spec(), settings(domain)) as rig:
        assert rig.observe().state.tolist() == [[0.25, -0.5]]
        rig.act(np.array([[0.75, -1.25]], np.float32), ONE)
        message = heard(robot, lambda one: True)
        assert message.joint_names == ["shoulder", "elbow"]
        [point] = message.points
        assert (point.positions, point.velocities) == ([0.75, -1.25], [])
        assert (point.time_from_start.sec, point.time_from_start.nanosec) == (0, 50_000_000)
        assert (message.header.stamp.sec, message.header.stamp.nanosec) == (0, 0), "it begins when it arrives"


def test_a_trajectory_may_command_velocities_of_other_joints(domain: int) -> None:
    told = settings(domain, actions={"shoulder_rad": "s1/velocity", "elbow_rad": "s2/velocity"}, trajectory_s=1.5)
    with peer(domain, Trajectory) as robot, opened(arm_spec(), told) as rig:
        rig.act(np.array([[0.5, 0.125]], np.float32), ONE)
        message = heard(robot, lambda one: True)
        assert message.joint_names == ["s1", "s2"]
        assert (message.points[0].positions, message.points[0].velocities) == ([], [0.5, 0.125])
        assert (message.points[0].time_from_start.sec, message.points[0].time_from_start.nanosec) == (1, 500_000_000)


@pytest.mark.parametrize(("kind", "message"), [("Twist", TwistMessage), ("TwistStamped", StampedTwist)])
def test_a_base_is_driven_and_its_stop_is_zero_velocity(domain: int, kind: str, message: type[Any]) -> None:
    told = settings(domain, commands=kind, state=WHEELS, actions=DRIVES)

    def speeds(one: Any) -> tuple[float, ...]:
        twist = one.twist if kind == "TwistStamped" else one
        return (
            twist.linear.x, twist.linear.y, twist.linear.z, twist.angular.x, twist.angular.y, twist.angular.z,
        )  # fmt: skip

    with peer(domain, message) as robot, opened(base_spec(), told) as rig:
        rig.act(np.array([[0.5, -0.25]], np.float32), ONE)
        assert speeds(heard(robot, lambda one: True)) == (0.5, 0.0, 0.0, 0.0, 0.0, -0.25)
        robot.velocity = [0.5, -0.25]
        time.sleep(0.1)
        rig.observe()
        robot.heard.clear()
        rig.stop()
        assert speeds(heard(robot, lambda one: True)) == (0.0,) * 6
        assert len(robot.heard) == 1


def test_a_stop_by_command_holds_what_was_received_last(domain: int) -> None:
    with peer(domain, Trajectory) as robot, opened(arm_spec(), settings(domain)) as rig:
        rig.act(np.array([[1.5, 1.5]], np.float32), ONE)
        robot.position = [0.5, 0.25]
        robot.wait(lambda: rig.observe().state.tolist() == [[0.5, 0.25]], "the new position")
        robot.quiet.set()
        rig.stop()
        assert heard(robot, lambda one: one.points[0].positions != [1.5, 1.5]).points[0].positions == [0.5, 0.25]


def test_a_robot_that_was_never_heard_is_not_sent_to_zero(domain: int) -> None:
    driver = Ros2Robot(arm_spec(), settings(domain, discovery_s=1.0))
    with peer(domain, Trajectory) as robot:
        robot.quiet.set()
        time.sleep(0.1)
        driver._link = driver._opened()  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(RobotProblem, match="no joint state came"):
            driver.stop()
        driver.close()
        assert robot.heard == []


@pytest.mark.parametrize(("word", "message"), [("Bool", Flag), ("Empty", Nothing)])
def test_a_stop_by_topic(domain: int, word: str, message: type[Any]) -> None:
    told = settings(domain, stop_by="topic", stop="/arm/halt", stop_message=word)
    with peer(domain, Trajectory, stop=message) as robot, opened(arm_spec(), told) as rig:
        assert not robot.heard, "a driver ends no stop that it did not request"
        robot.quiet.set()  # it needs no observation
        rig.stop()
        assert getattr(heard(robot, lambda one: True), "data", None) is (True if word == "Bool" else None)
        rig.resume()
        rig.place(0, Start(split="train", index=0, values=(), seed=0))
        rig.place(0, Start(split="train", index=0, values=(), seed=0))
        time.sleep(0.1)
        assert [getattr(one, "data", None) for one in robot.heard[1:]] == ([False] if word == "Bool" else [])


def test_a_stop_that_no_node_receives_is_a_problem(domain: int) -> None:
    told = settings(domain, stop_by="topic", stop="/arm/halt")
    with peer(domain, Trajectory, stop=Flag) as robot, opened(arm_spec(), told) as rig:
        robot.close()
        robot._stops = None
        with pytest.raises(RobotProblem, match=r"No node subscribes to the stop topic /arm/halt.*emergency stop"):
            again(rig.stop)  # until the peer is known to be gone
    with peer(domain, Trajectory), pytest.raises(RobotProblem, match="no node subscribes to its stop /arm/halt"):
        Ros2Robot(arm_spec(), replace(told, discovery_s=2.0)).connect()


def test_a_stop_switches_the_controllers_and_a_new_rollout_switches_them_back(domain: int) -> None:
    told = settings(domain, stop_by="controllers", controllers=["mover", "gripper"], holding=["keeper"])
    with peer(domain, Trajectory) as robot, opened(arm_spec(), told) as rig:
        assert not robot.switched, "a driver activates no controller that it did not deactivate"
        robot.quiet.set()
        rig.stop()
        assert robot.active == {"mover": False, "gripper": False, "keeper": True}
        assert {one.strictness for one in robot.switched} == {1}
        rig.stop()
        assert robot.active == {"mover": False, "gripper": False, "keeper": True}
        rig.resume()
        rig.place(0, Start(split="train", index=0, values=(), seed=0))
        assert robot.active == {"mover": True, "gripper": True, "keeper": False}


def test_one_of_two_controllers_that_stays_active_is_a_problem(domain: int) -> None:
    told = settings(domain, stop_by="controllers", controllers=["mover", "gripper"])
    with peer(domain, Trajectory) as robot, opened(arm_spec(), told) as rig:
        robot.stuck = {"gripper"}
        with pytest.raises(RobotProblem, match="did not deactivate gripper.*failed: gripper.*emergency stop"):
            rig.stop()
        assert robot.active["mover"] is False


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "mono8", "16UC1"])
def test_raw_images_are_shown_as_they_are(domain: int, encoding: str) -> None:
    told = settings(domain, raw_cameras={"top": "/arm/camera"})
    with peer(domain, Trajectory, picture=True) as robot:
        robot.picture, shown = pixels(encoding)
        with opened(arm_spec(("top",)), told) as rig:
            np.testing.assert_array_equal(rig.observe().images["top"][0], shown)
            np.testing.assert_array_equal(rig.look(0)["top"], shown)
            robot.picture, shown = pixels(encoding, pad=0, big_endian=True)
            time.sleep(0.1)
            np.testing.assert_array_equal(rig.observe().images["top"][0], shown)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"encoding": "bayer_rggb8"}, "encoding 'bayer_rggb8'; allowed are rgb8, bgr8, mono8, 16UC1"),
        ({"height": 5}, "84 bytes for 5 rows of 21 bytes, 6 pixels in rgb8"),
        ({"step": 5}, "84 bytes for 4 rows of 5 bytes"),
        ({"width": 0}, "0 pixels"),
    ],
)
def test_a_malformed_raw_image_is_one_sentence_and_no_obstacle_for_a_stop(
    domain: int, change: Mapping[str, Any], sentence: str
) -> None:
    told = settings(domain, raw_cameras={"top": "/arm/camera"})
    with peer(domain, Trajectory, picture=True) as robot:
        robot.picture, _ = pixels("rgb8")
        with opened(arm_spec(("top",)), told) as rig:
            robot.picture = replace(robot.picture, **change)
            with pytest.raises(RobotProblem, match=sentence):
                again(rig.observe)
            robot.heard.clear()
            rig.stop()
            assert heard(robot, lambda one: True).points[0].positions == [0.25, -0.5]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"joint_states": "~/joints"}, "'~/joints' is no name of a topic or service"),
        ({"stop": "arm//stop"}, "'arm//stop' is no name"),
        ({"cameras": {"top": "a"}, "raw_cameras": {"top": "b"}}, "top may be in cameras or in raw_cameras"),
        ({"stop_by": "controllers"}, "needs `controllers`"),
        ({"controllers": ["mover"]}, "only it uses them"),
        ({"commands": "Pose"}, "commands"),
    ],
)
def test_settings_that_do_not_fit_are_refused(content: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(FileProblem, match=sentence):
        parse(Ros2Settings, content, "The options of a robot on ROS 2")


@pytest.mark.parametrize(
    ("spec", "changes", "sentence"),
    [
        (base_spec(), {"commands": "Twist"}, "forward_m_s needs its own number of a Twist, one of linear/x"),
        (base_spec(), {"commands": "Twist", "actions": dict.fromkeys(DRIVES, "linear/x")}, "its own number"),
        (arm_spec(), {"actions": {"wrist_rad": "wrist/position"}}, "wrist_rad is no action of arm"),
        (arm_spec(), {"actions": {"elbow_rad": "elbow/velocity"}}, "positions or velocities for all joints"),
        (arm_spec(), {"actions": {"elbow_rad": "shoulder/position"}}, "two of them name one joint"),
    ],
)
def test_actions_without_a_place_in_the_message_are_refused(
    spec: TaskSpec, changes: Mapping[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        Commands(spec, settings(0, **changes))
