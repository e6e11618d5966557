"""A robot whose joints, cameras and stop are ROS 2 topics and services, as a driver.

Over rclpy where a ROS 2 is sourced; otherwise over cyclonedds, which speaks the same wire without a ROS 2.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from enpire.errors import MissingExtra, RobotProblem, UsageError
from enpire.files import parse
from enpire.interfaces import Task
from enpire.store import pictures
from enpire.types import FloatArray, ImageArray, Observation, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.mujoco_robot import envelope_limits
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane

ANSWER_S = 5.0
FIELDS = ("position", "velocity", "effort")


class JointSample(Protocol):
    """A sensor_msgs/JointState, whichever library brought it."""

    @property
    def header(self) -> object:
        """With the stamp of the measurement."""
        ...

    @property
    def name(self) -> Sequence[str]:
        """Of the joints; the numbers below are in their order."""
        ...

    @property
    def position(self) -> Sequence[float]:
        """In rad or m."""
        ...

    @property
    def velocity(self) -> Sequence[float]:
        """In rad/s or m/s."""
        ...

    @property
    def effort(self) -> Sequence[float]:
        """In N m or N."""
        ...


class Link(Protocol):
    """One connection to a robot on ROS 2."""

    def missing(self) -> str:
        """What has not been found yet; empty when the robot is whole."""
        ...

    def joints(self) -> JointSample | None:
        """The newest joint state since the last call."""

    def picture(self, camera: str) -> bytes:
        """The newest compressed picture since the last call; empty when none came."""
        ...

    def command(self, values: Sequence[float]) -> None:
        """Send one command."""

    def stop(self, timeout_s: float) -> None:
        """Call the stop service and wait for its answer."""

    def close(self) -> None:
        """Leave the domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ros2Settings:
    """How a robot shows itself on ROS 2."""

    state: Mapping[str, str] = field(default_factory=dict[str, str])
    """state name -> "joint/position", "joint/velocity" or "joint/effort"; left out, the name is the joint's."""
    joint_states: str = "joint_states"
    joint_commands: str = "joint_commands"
    """Topic of std_msgs/Float64MultiArray, in the order of the spec's actions."""
    stop: str = "stop"
    """Service std_srvs/Trigger."""
    cameras: Mapping[str, str] = field(default_factory=dict[str, str])
    """camera -> topic of sensor_msgs/CompressedImage."""
    domain: int = 0
    loopback: bool = False
    """Stay on this machine."""
    silence_s: float = 1.0
    """Without a joint state for so long, the robot counts as lost."""
    discovery_s: float = 20.0
    """How long `connect` looks for the robot."""


class Ros2Robot:
    """One robot on ROS 2 as a `Robot`. Stamps are those of its messages."""

    def __init__(self, spec: TaskSpec, settings: Ros2Settings) -> None:
        self.spec = spec
        self.settings = settings
        self._wanted = [_split(settings.state.get(item.name, f"{item.name}/position")) for item in spec.state]
        self._link: Link | None = None
        self._newest: JointSample | None = None
        self._heard_s = 0.0
        self._pictures: dict[str, ImageArray] = {}

    def connect(self) -> None:
        """Find the robot's topics and services, its first joint state and the first picture of every camera."""
        self._link = link_for(self.settings)
        until_s = time.monotonic() + self.settings.discovery_s
        missing = "it sends no joint states"
        while time.monotonic() < until_s:
            self._listen()
            missing = self._link.missing() or self._unheard()
            if not missing:
                return
            time.sleep(0.02)
        self.close()
        raise RobotProblem(
            f"The robot on ROS 2 domain {self.settings.domain} was not found within {self.settings.discovery_s:.0f} s:"
            f" {missing}. Check its topics {self.settings.joint_states}, {self.settings.joint_commands}."
        )

    def observe(self) -> Observation:
        """The newest joint state and pictures."""
        self._listen()
        sample, silent_s = self._newest, time.monotonic() - self._heard_s
        if sample is None or silent_s > self.settings.silence_s:
            raise RobotProblem(f"The robot on ROS 2 has been silent for {silent_s:.1f} s; look at its node.")
        row = np.array([[self._value(sample, joint, what) for joint, what in self._wanted]], np.float32)
        images = {camera: picture[None] for camera, picture in self._pictures.items()}
        return Observation(stamp_ns=_stamp_ns(sample), state=row, images=images)

    def act(self, action: FloatArray) -> FloatArray:
        """Publish one command."""
        self._open_link().command([float(value) for value in action])
        return action

    def stop(self) -> None:
        """Call the robot's stop service."""
        if self._link is not None:
            self._link.stop(ANSWER_S)

    def close(self) -> None:
        """Leave the domain."""
        link, self._link, self._newest = self._link, None, None
        self._pictures.clear()
        if link is not None:
            link.close()

    def _listen(self) -> None:
        link = self._open_link()
        sample = link.joints()
        if sample is not None:
            self._newest, self._heard_s = sample, time.monotonic()
        for camera in self.settings.cameras:
            if compressed := link.picture(camera):
                self._pictures[camera] = _decoded(compressed)

    def _unheard(self) -> str:
        blind = [camera for camera in self.settings.cameras if camera not in self._pictures]
        if self._newest is None:
            return "it sends no joint states"
        return f"its camera {blind[0]} sends no pictures on {self.settings.cameras[blind[0]]}" if blind else ""

    def _open_link(self) -> Link:
        if self._link is None:
            raise RobotProblem("The robot on ROS 2 is not connected; connect first.")
        return self._link

    def _value(self, sample: JointSample, joint: str, what: str) -> float:
        values: Sequence[float] = getattr(sample, what)
        names = list(sample.name)
        if joint not in names or names.index(joint) >= len(values):
            raise RobotProblem(f"The joint states lack the {what} of {joint}; they have {', '.join(names)}.")
        return float(values[names.index(joint)])


def open_rig(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    """A robot on ROS 2 for a task. Options: those of `Ros2Settings`, and `envelope`."""
    known = frozenset(item.name for item in fields(Ros2Settings))
    limits = envelope_limits(options, known | {"envelope"})
    if lanes != 1:
        raise UsageError(f"A robot on ROS 2 is one lane, not {lanes}; give every robot its own station.")
    told = {key: value for key, value in options.items() if key != "envelope"}
    settings = parse(Ros2Settings, told, "The options of a robot on ROS 2")
    return GuardedRig(SingleLane(Ros2Robot(task.spec, settings)), Envelope(task.spec, limits))


def link_for(settings: Ros2Settings) -> Link:
    """A connection over rclpy when a ROS 2 is sourced, else over cyclonedds; MissingExtra when neither is there."""
    if find_spec("rclpy") is not None:
        from robot_drivers.rclpy_link import RclpyLink

        return RclpyLink(settings)
    if find_spec("cyclonedds") is None:
        raise MissingExtra("A robot on ROS 2 needs a sourced ROS 2, or cyclonedds: pip install 'enpire[ros2]'.")
    from robot_drivers.dds_link import DdsLink, Names

    names = Names(
        joint_states=settings.joint_states,
        joint_commands=settings.joint_commands,
        stop=settings.stop,
        cameras=tuple(settings.cameras.items()),
    )
    return DdsLink(names, settings.domain, settings.loopback)


def _split(address: str) -> tuple[str, str]:
    joint, _, what = address.rpartition("/")
    if not joint or what not in FIELDS:
        raise UsageError(f"{address!r} must be a joint and one of {', '.join(FIELDS)}, such as elbow/position.")
    return joint, what


def _stamp_ns(sample: JointSample) -> int:
    stamp = getattr(sample.header, "stamp", None)
    return int(getattr(stamp, "sec", 0)) * 1_000_000_000 + int(getattr(stamp, "nanosec", 0))


def _decoded(compressed: bytes) -> ImageArray:
    try:
        return pictures.opened(compressed)
    except OSError as problem:
        raise RobotProblem(f"A camera on ROS 2 sent a picture that cannot be read: {problem}.") from problem
