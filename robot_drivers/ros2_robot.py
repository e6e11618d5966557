"""Driver of a robot on ROS 2: joint states, actions and images are topics, its stop is a service.

It uses rclpy where a ROS 2 is sourced, otherwise cyclonedds, which speaks the same protocol without a ROS 2.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec

import numpy as np

from enpire.errors import MissingExtra, RobotProblem, UsageError
from enpire.files import parse
from enpire.interfaces import Task
from enpire.store import pictures
from enpire.types import FloatArray, ImageArray, Observation, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.mujoco_robot import envelope_limits
from robot_drivers.ros2_link import JointSample, Link, Ros2Settings
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane

ANSWER_S = 5.0
"""How long a call of the stop service waits for its answer [s]."""
FIELDS = ("position", "velocity", "effort")
"""Fields of a joint state that a number of the spec can be read from."""


class Ros2Robot:
    """One robot on ROS 2 as a `Robot`. The stamp of an observation is that of its joint state."""

    def __init__(self, spec: TaskSpec, settings: Ros2Settings) -> None:
        self.spec = spec
        self.settings = settings
        self._wanted = [_split(settings.state.get(item.name, f"{item.name}/position")) for item in spec.state]
        self._link: Link | None = None
        self._newest: JointSample | None = None
        self._heard_s = 0.0
        self._images: dict[str, ImageArray] = {}

    def connect(self) -> None:
        """Wait for the robot's topics and services, its first joint state and the first image of every camera.

        Raises:
            RobotProblem: one of them was not found within `discovery_s`; the text names it.
        """
        self._link = link_for(self.settings)
        until_s = time.monotonic() + self.settings.discovery_s
        missing = "it publishes no joint states"
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
        """The newest joint state as (1, state_dim) float32, in the units of the spec, and the newest image per camera.

        Raises:
            RobotProblem: no joint state came for `silence_s`, or it lacks a joint of the spec.
        """
        self._listen()
        sample, silent_s = self._newest, time.monotonic() - self._heard_s
        if sample is None or silent_s > self.settings.silence_s:
            raise RobotProblem(f"The robot on ROS 2 has been silent for {silent_s:.1f} s; look at its node.")
        row = np.array([[self._value(sample, joint, what) for joint, what in self._wanted]], np.float32)
        images = {camera: image[None] for camera, image in self._images.items()}
        return Observation(stamp_ns=_stamp_ns(sample), state=row, images=images)

    def act(self, action: FloatArray) -> FloatArray:
        """Publish one action (action_dim,), in the units of the spec; returns it."""
        self._open_link().send_action([float(value) for value in action])
        return action

    def stop(self) -> None:
        """Call the robot's stop service; RobotProblem when it does not answer or refuses."""
        if self._link is not None:
            self._link.stop(ANSWER_S)

    def close(self) -> None:
        """Leave the domain."""
        link, self._link, self._newest = self._link, None, None
        self._images.clear()
        if link is not None:
            link.close()

    def _listen(self) -> None:
        link = self._open_link()
        sample = link.joints()
        if sample is not None:
            self._newest, self._heard_s = sample, time.monotonic()
        for camera in self.settings.cameras:
            if compressed := link.image(camera):
                self._images[camera] = _decoded(compressed)

    def _unheard(self) -> str:
        blind = [camera for camera in self.settings.cameras if camera not in self._images]
        if self._newest is None:
            return "it publishes no joint states"
        return f"its camera {blind[0]} publishes no images on {self.settings.cameras[blind[0]]}" if blind else ""

    def _open_link(self) -> Link:
        if self._link is None:
            raise RobotProblem("The robot on ROS 2 is not connected; call connect first.")
        return self._link

    def _value(self, sample: JointSample, joint: str, what: str) -> float:
        values: Sequence[float] = getattr(sample, what)
        names = list(sample.name)
        if joint not in names or names.index(joint) >= len(values):
            raise RobotProblem(f"The joint states lack the {what} of {joint}; they have {', '.join(names)}.")
        return float(values[names.index(joint)])


def open_rig(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    """The driver `ros2`: a robot on ROS 2 for a task. Options: the fields of `Ros2Settings`, and `envelope`."""
    known = frozenset(item.name for item in fields(Ros2Settings))
    limits = envelope_limits(options, known | {"envelope"})
    if lanes != 1:
        raise UsageError(f"A robot on ROS 2 has 1 lane, not {lanes}; write one station file per robot.")
    content = {key: value for key, value in options.items() if key != "envelope"}
    settings = parse(Ros2Settings, content, "The options of a robot on ROS 2")
    return GuardedRig(SingleLane(Ros2Robot(task.spec, settings)), Envelope(task.spec, limits))


def link_for(settings: Ros2Settings) -> Link:
    """A connection over rclpy where a ROS 2 is sourced, else over cyclonedds.

    Raises:
        MissingExtra: neither is installed.
    """
    if find_spec("rclpy") is not None:
        from robot_drivers.rclpy_link import RclpyLink

        return RclpyLink(settings)
    if find_spec("cyclonedds") is None:
        raise MissingExtra("A robot on ROS 2 needs a sourced ROS 2, or cyclonedds: pip install 'enpire[ros2]'.")
    from robot_drivers.dds_link import DdsLink

    return DdsLink(settings)


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
        raise RobotProblem(
            f"A camera on ROS 2 published an unreadable image: {problem}; check its driver."
        ) from problem
