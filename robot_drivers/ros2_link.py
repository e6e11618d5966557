"""The connection of a robot driver to a robot on ROS 2: its settings, and what both libraries must offer.

`rclpy_link` is the connection where a ROS 2 is sourced, `dds_link` the one without: it speaks the same protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

type Content = Mapping[str, Any]
"""Fields of a message by name; a nested message is a mapping, a list of messages a list of mappings."""
CommandKind = Literal["Float64MultiArray", "JointTrajectory", "Twist", "TwistStamped"]
StopBy = Literal["service", "topic", "command", "controllers"]
_NAME = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ros2Settings:
    """Names of a robot's topics and services on ROS 2, and how long to wait for them."""

    state: Mapping[str, str] = field(default_factory=dict[str, str])
    """state name -> "joint/position", "joint/velocity" or "joint/effort"; a name that is left out is a joint whose
    position is read."""
    joint_states: str = "joint_states"
    """Topic of sensor_msgs/JointState."""
    joint_commands: str = "joint_commands"
    """Topic of the actions."""
    commands: CommandKind = "Float64MultiArray"
    """Message of the actions: std_msgs/Float64MultiArray in the order of the spec's actions,
    trajectory_msgs/JointTrajectory with one point, geometry_msgs/Twist or geometry_msgs/TwistStamped."""
    actions: Mapping[str, str] = field(default_factory=dict[str, str])
    """action name -> "joint/position" or "joint/velocity" in a JointTrajectory, "linear/x" and so on in a Twist. A name
    that is left out has the address of the state of the same name."""
    trajectory_s: float = 0.0
    """When a JointTrajectory reaches its point [s]; 0: after one period."""
    stop_by: StopBy = "service"
    """What stops the robot. service: a call of std_srvs/Trigger. topic: a message on a topic. command: an action that
    holds, on the topic of the actions. controllers: controller_manager_msgs/SwitchController."""
    stop: str = "stop"
    """Name of the service or topic of a stop."""
    stop_message: Literal["Bool", "Empty"] = "Bool"
    """Message of a stop by topic, of std_msgs. A Bool is true for a stop, and false when the robot is resumed."""
    controllers: Sequence[str] = ()
    """Controllers that a stop deactivates, and that are active while the robot moves."""
    holding: Sequence[str] = ()
    """Controllers that a stop activates instead."""
    controller_manager: str = "controller_manager"
    """Node with the service `switch_controller`."""
    cameras: Mapping[str, str] = field(default_factory=dict[str, str])
    """camera -> topic of sensor_msgs/CompressedImage."""
    raw_cameras: Mapping[str, str] = field(default_factory=dict[str, str])
    """camera -> topic of sensor_msgs/Image with the encoding rgb8, bgr8, mono8 or 16UC1."""
    depth_m: float = 4.0
    """Distance [m] that is white in the picture of a 16UC1 depth image, in mm."""
    domain: int = 0
    """ROS 2 domain id."""
    loopback: bool = False
    """Find only nodes of this computer."""
    silence_s: float = 1.0
    """The robot counts as lost when no joint state came for this time [s]."""
    discovery_s: float = 20.0
    """How long `connect` looks for the robot [s]."""

    def __post_init__(self) -> None:
        """Refuse names that no topic has, and a stop that stops nothing."""
        named = {"joint_states": self.joint_states, "joint_commands": self.joint_commands, "stop": self.stop}
        named |= {"controller_manager": self.controller_manager, **self.cameras, **self.raw_cameras}
        for what, name in named.items():
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"{what}: {name!r} is no name of a topic or service; allowed are words of letters, digits and"
                    " underscores, separated by slashes, such as /arm/joint_states."
                )
        if twice := sorted(set(self.cameras) & set(self.raw_cameras)):
            raise ValueError(f"{', '.join(twice)} may be in cameras or in raw_cameras, not in both.")
        if (self.stop_by == "controllers") != bool(self.controllers):
            raise ValueError("stop_by: controllers needs `controllers`, and only it uses them.")
        if not (self.depth_m > 0 and self.trajectory_s >= 0):
            raise ValueError("depth_m must be above 0, and trajectory_s at least 0.")


def absolute(name: str) -> str:
    """A topic or service name from the root, without the leading slash: `/arm/stop` and `arm/stop` are the same."""
    return name.removeprefix("/")


def fill(message: Any, content: Content, items: Mapping[str, type]) -> Any:
    """Set the fields of a message of either library.

    Args:
        message: changed in place.
        content: its fields.
        items: field -> class of the messages in a list.
    """
    for name, value in content.items():
        if isinstance(value, Mapping):
            fill(getattr(message, name), value, items)  # pyright: ignore[reportUnknownArgumentType]
        elif name in items:
            setattr(message, name, [fill(items[name](), item, items) for item in value])
        else:
            setattr(message, name, value)
    return message


class JointSample(Protocol):
    """A sensor_msgs/JointState of either library. Values are in the order of `name`; missing ones are empty."""

    @property
    def header(self) -> object:
        """Contains the stamp of the measurement."""
        ...

    @property
    def name(self) -> Sequence[str]:
        """Names of the joints."""
        ...

    @property
    def position(self) -> Sequence[float]:
        """Positions [rad or m]."""
        ...

    @property
    def velocity(self) -> Sequence[float]:
        """Velocities [rad/s or m/s]."""
        ...

    @property
    def effort(self) -> Sequence[float]:
        """Efforts [Nm or N]."""
        ...


class Publisher(Protocol):
    """A topic that messages are sent to."""

    def matched(self) -> bool:
        """Whether a node subscribes to it."""
        ...

    def publish(self, content: Content) -> None:
        """Send one message."""

    def acknowledged(self, timeout_s: float) -> bool:
        """Whether every reliable subscriber has received what was sent; waits for that."""
        ...


class Subscription(Protocol):
    """A topic that messages are received from."""

    def newest(self) -> Any:
        """The newest message since the last call; None when none came."""
        ...


class Client(Protocol):
    """A service that is called."""

    def ready(self) -> bool:
        """Whether a node serves it."""
        ...

    def call(self, content: Content, timeout_s: float) -> Any:
        """The answer to a call; None when none came in time. Allowed from any thread."""
        ...


class Node(Protocol):
    """A node on ROS 2, over either library. Kinds are those of ROS 2, such as sensor_msgs/JointState."""

    def publisher(self, kind: str, topic: str) -> Publisher:
        """Send to a topic, reliably."""
        ...

    def subscription(self, kind: str, topic: str) -> Subscription:
        """Receive from a topic, from reliable and from best-effort publishers."""
        ...

    def client(self, kind: str, service: str) -> Client:
        """Call a service."""
        ...

    def close(self) -> None:
        """Leave the domain."""
