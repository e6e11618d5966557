"""Driver of a robot on ROS 2: joint states, actions and images are topics, its stop is a service, a topic or a switch.

It uses rclpy where a ROS 2 is sourced, otherwise cyclonedds, which speaks the same protocol without a ROS 2.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec

import numpy as np

from enpire.errors import MissingExtra, RobotProblem, UsageError
from enpire.files import parse
from enpire.interfaces import Task
from enpire.types import FloatArray, ImageArray, Observation, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.mujoco_robot import envelope_limits
from robot_drivers.ros2_commands import Commands, joint_address
from robot_drivers.ros2_images import decode_compressed, decode_raw
from robot_drivers.ros2_link import JointSample, Node, Publisher, Ros2Settings, Subscription
from robot_drivers.ros2_stop import Stop, stop_of
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """The open connection to a robot."""

    node: Node
    joints: Subscription
    commands: Publisher
    stop: Stop
    compressed: Mapping[str, Subscription]
    raw: Mapping[str, Subscription]


class Ros2Robot:
    """One robot on ROS 2 as a `Robot`. The stamp of an observation is that of its joint state."""

    def __init__(self, spec: TaskSpec, settings: Ros2Settings) -> None:
        self.spec = spec
        self.settings = settings
        self._wanted = [joint_address(settings.state.get(item.name, f"{item.name}/position")) for item in spec.state]
        self._commands = Commands(spec, settings)
        self._link: _Link | None = None
        self._newest: JointSample | None = None
        self._heard_s = 0.0
        self._images: dict[str, ImageArray] = {}

    def connect(self) -> None:
        """Wait for the robot's topics and services, its first joint state and the first image of every camera.

        Raises:
            RobotProblem: one of them was not found within `discovery_s`; the text names it.
        """
        self._link = self._opened()
        until_s = time.monotonic() + self.settings.discovery_s
        missing = "it publishes no joint states"
        while time.monotonic() < until_s:
            self._listen()
            missing = self._missing()
            if not missing:
                return
            time.sleep(0.02)
        self.close()
        raise RobotProblem(
            f"The robot on ROS 2 domain {self.settings.domain} was not found within {self.settings.discovery_s:.0f} s:"
            f" {missing}. Check its topics {self.settings.joint_states}, {self.settings.joint_commands}."
        )

    def observe(self) -> Observation:
        """The newest joint state as (1, state_dim) float32, in the units of the spec, and the newest image per camera.

        Raises:
            RobotProblem: no joint state came for `silence_s`, or it lacks a joint of the spec.
        """
        self._listen()
        sample, silent_s = self._newest, time.monotonic() - self._heard_s
        if sample is None or silent_s > self.settings.silence_s:
            raise RobotProblem(f"The robot on ROS 2 has been silent for {silent_s:.1f} s; look at its node.")
        row = np.array([[_value(sample, joint, what) for joint, what in self._wanted]], np.float32)
        images = {camera: image[None] for camera, image in self._images.items()}
        return Observation(stamp_ns=_stamp_ns(sample), state=row, images=images)

    def act(self, action: FloatArray) -> FloatArray:
        """Publish one action (action_dim,), in the units of the spec; returns it."""
        self._open_link().commands.publish(self._commands.message([float(value) for value in action]))
        return action

    def stop(self) -> None:
        """Stop the robot as the settings say. It needs no image, and no joint state unless `stop_by` is command.

        Raises:
            RobotProblem: the robot did not get the stop, did not answer, or refused.
        """
        if (link := self._link) is not None:
            link.stop.stop(lambda: self._commands.message(self._holding()))

    def resume(self) -> None:
        """Allow motion again: end a stop by topic, activate the controllers. RobotProblem when the robot refuses."""
        self._open_link().stop.resume()

    def close(self) -> None:
        """Leave the domain."""
        link, self._link, self._newest = self._link, None, None
        self._images.clear()
        if link is not None:
            link.node.close()

    def _opened(self) -> _Link:
        settings, node = self.settings, node_for(self.settings)
        commands = node.publisher(self._commands.kind, settings.joint_commands)
        return _Link(
            node=node, commands=commands, stop=stop_of(node, settings, commands),
            joints=node.subscription("sensor_msgs/JointState", settings.joint_states),
            compressed={
                camera: node.subscription("sensor_msgs/CompressedImage", topic)
                for camera, topic in settings.cameras.items()
            },
            raw={
                camera: node.subscription("sensor_msgs/Image", topic) for camera, topic in settings.raw_cameras.items()
            },
        )  # fmt: skip

    def _listen(self) -> None:
        link = self._open_link()
        sample = link.joints.newest()
        if sample is not None:
            self._newest, self._heard_s = sample, time.monotonic()
        for camera, topic in link.compressed.items():
            if (message := topic.newest()) is not None:
                self._images[camera] = decode_compressed(message)
        for camera, topic in link.raw.items():
            if (message := topic.newest()) is not None:
                self._images[camera] = decode_raw(message, self.settings.depth_m)

    def _missing(self) -> str:
        link = self._open_link()
        if not link.commands.matched():
            return "no node subscribes to its joint commands"
        if missing := link.stop.missing():
            return missing
        if self._newest is None:
            return "it publishes no joint states"
        topics = {**self.settings.cameras, **self.settings.raw_cameras}
        blind = [camera for camera in topics if camera not in self._images]
        return f"its camera {blind[0]} publishes no images on {topics[blind[0]]}" if blind else ""

    def _holding(self) -> Sequence[float]:
        """The action that holds the robot (action_dim,): the positions of the newest joint state, zero for the rest.

        Raises:
            RobotProblem: a position was never received.
        """
        wanted = [self._wanted[index] if index >= 0 else None for index in self.spec.measured]
        sample = self._newest
        if sample is None and any(wanted):
            raise RobotProblem("The robot on ROS 2 cannot hold, because no joint state came; use its emergency stop.")
        return [0.0 if address is None or sample is None else _value(sample, *address) for address in wanted]

    def _open_link(self) -> _Link:
        if self._link is None:
            raise RobotProblem("The robot on ROS 2 is not connected; call connect first.")
        return self._link


def open_rig(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    """The driver `ros2`: a robot on ROS 2 for a task. Options: the fields of `Ros2Settings`, and `envelope`."""
    known = frozenset(item.name for item in fields(Ros2Settings))
    limits = envelope_limits(options, known | {"envelope"})
    if lanes != 1:
        raise UsageError(f"A robot on ROS 2 has 1 lane, not {lanes}; write one station file per robot.")
    content = {key: value for key, value in options.items() if key != "envelope"}
    settings = parse(Ros2Settings, content, "The options of a robot on ROS 2")
    return GuardedRig(SingleLane(Ros2Robot(task.spec, settings)), Envelope(task.spec, limits))


def node_for(settings: Ros2Settings) -> Node:
    """A node over rclpy where a ROS 2 is sourced, else over cyclonedds.

    Raises:
        MissingExtra: neither is installed.
    """
    if find_spec("rclpy") is not None:
        from robot_drivers.rclpy_link import RclpyLink

        return RclpyLink(settings.domain, loopback=settings.loopback)
    if find_spec("cyclonedds") is None:
        raise MissingExtra("A robot on ROS 2 needs a sourced ROS 2, or cyclonedds: pip install 'enpire[ros2]'.")
    from robot_drivers.dds_link import DdsLink

    return DdsLink(settings.domain, loopback=settings.loopback)


def _value(sample: JointSample, joint: str, what: str) -> float:
    values: Sequence[float] = getattr(sample, what)
    names = list(sample.name)
    if joint not in names or names.index(joint) >= len(values):
        raise RobotProblem(f"The joint states lack the {what} of {joint}; they have {', '.join(names)}.")
    return float(values[names.index(joint)])


def _stamp_ns(sample: JointSample) -> int:
    stamp = getattr(sample.header, "stamp", None)
    return int(getattr(stamp, "sec", 0)) * 1_000_000_000 + int(getattr(stamp, "nanosec", 0))
