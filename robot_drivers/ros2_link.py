"""The connection of a robot driver to a robot on ROS 2: its settings, and what both libraries must offer.

`rclpy_link` is the connection where a ROS 2 is sourced, `dds_link` the one without: it speaks the same protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Ros2Settings:
    """Names of a robot's topics and services on ROS 2, and how long to wait for them."""

    state: Mapping[str, str] = field(default_factory=dict[str, str])
    """state name -> "joint/position", "joint/velocity" or "joint/effort"; a name that is left out is a joint whose
    position is read."""
    joint_states: str = "joint_states"
    """Topic of sensor_msgs/JointState."""
    joint_commands: str = "joint_commands"
    """Topic of std_msgs/Float64MultiArray, in the order of the spec's actions."""
    stop: str = "stop"
    """Service std_srvs/Trigger."""
    cameras: Mapping[str, str] = field(default_factory=dict[str, str])
    """camera -> topic of sensor_msgs/CompressedImage."""
    domain: int = 0
    """ROS 2 domain id."""
    loopback: bool = False
    """Use only the loopback interface of this computer."""
    silence_s: float = 1.0
    """The robot counts as lost when no joint state came for this time [s]."""
    discovery_s: float = 20.0
    """How long `connect` looks for the robot [s]."""


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


class Link(Protocol):
    """One connection to a robot on ROS 2."""

    def missing(self) -> str:
        """Which subscriber or service of the robot has not been found yet; empty when all have."""
        ...

    def joints(self) -> JointSample | None:
        """The newest joint state since the last call; None when none came."""
        ...

    def image(self, camera: str) -> bytes:
        """The newest compressed image since the last call; empty when none came."""
        ...

    def send_action(self, values: Sequence[float]) -> None:
        """Publish one action (action_dim,), in the units of the spec."""

    def stop(self, timeout_s: float) -> None:
        """Call the robot's stop service and wait for its answer.

        Raises:
            RobotProblem: no answer came within `timeout_s`, or the robot refused.
        """

    def close(self) -> None:
        """Leave the domain."""
