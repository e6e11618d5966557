"""The connection to a robot on ROS 2 over cyclonedds, used where no ROS 2 is sourced; and what else speaks DDS."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Sequence

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from enpire.errors import RobotProblem
from robot_drivers.dds_types import CompressedImage, Float64MultiArray, JointState, TriggerRequest, TriggerResponse
from robot_drivers.rclpy_node import LOOPBACK_ONLY
from robot_drivers.ros2_link import Ros2Settings

RELIABLE = Qos(
    Policy.Reliability.Reliable(duration(seconds=1)), Policy.Durability.Volatile, Policy.History.KeepLast(10)
)
SENSOR = Qos(Policy.Reliability.BestEffort, Policy.Durability.Volatile, Policy.History.KeepLast(5))
"""Receives from reliable and from best-effort publishers."""
_domains: dict[int, Domain] = {}


def participant(domain: int, loopback: bool) -> DomainParticipant:
    """A participant of a DDS domain; `loopback` restricts it to this computer, unless CYCLONEDDS_URI is set."""
    if loopback and domain not in _domains and "CYCLONEDDS_URI" not in os.environ:
        _domains[domain] = Domain(domain, LOOPBACK_ONLY)
    return DomainParticipant(domain)


def taken[T](reader: DataReader[T], kind: type[T]) -> list[T]:
    """The samples in the queue. A peer that leaves produces samples without content; these are left out."""
    return [sample for sample in reader.take(N=100) if isinstance(sample, kind)]


class DdsLink:
    """A `Link`."""

    def __init__(self, settings: Ros2Settings) -> None:
        member = participant(settings.domain, settings.loopback)
        self._joints = DataReader(member, Topic(member, f"rt/{settings.joint_states}", JointState), SENSOR)
        self._commands = DataWriter(member, Topic(member, f"rt/{settings.joint_commands}", Float64MultiArray), RELIABLE)
        self._cameras = {
            camera: DataReader(member, Topic(member, f"rt/{topic}", CompressedImage), SENSOR)
            for camera, topic in settings.cameras.items()
        }
        self._requests = DataWriter(member, Topic(member, f"rq/{settings.stop}Request", TriggerRequest), RELIABLE)
        self._answers = DataReader(member, Topic(member, f"rr/{settings.stop}Reply", TriggerResponse), RELIABLE)
        self._client = secrets.randbits(63)
        self._number = 0
        self._calling = threading.Lock()
        self._member = member

    def missing(self) -> str:
        """Which subscriber or service of the robot has not been found yet; empty when all have."""
        if not self._commands.get_matched_subscriptions():
            return "no node subscribes to its joint commands"
        if not self._requests.get_matched_subscriptions() or not self._answers.get_matched_publications():
            return "no node serves its stop"
        return ""

    def joints(self) -> JointState | None:
        """The newest joint state since the last call; None when none came."""
        samples = taken(self._joints, JointState)
        return samples[-1] if samples else None

    def image(self, camera: str) -> bytes:
        """The newest compressed image since the last call; empty when none came."""
        samples = taken(self._cameras[camera], CompressedImage)
        return bytes(samples[-1].data) if samples else b""

    def send_action(self, values: Sequence[float]) -> None:
        """Publish one action (action_dim,), in the units of the spec."""
        self._commands.write(Float64MultiArray(data=list(values)))

    def stop(self, timeout_s: float) -> None:
        """Call the robot's stop service and wait for its answer.

        Raises:
            RobotProblem: no answer came within `timeout_s`, or the robot refused.
        """
        with self._calling:
            self._number += 1
            self._requests.write(TriggerRequest(client=self._client, sequence_number=self._number))
            until_s = time.monotonic() + timeout_s
            while time.monotonic() < until_s:
                for answer in taken(self._answers, TriggerResponse):
                    if (answer.client, answer.sequence_number) == (self._client, self._number):
                        if not answer.success:
                            raise RobotProblem(f"The robot refused to stop: {answer.message}")
                        return
                time.sleep(0.001)
        raise RobotProblem(f"The robot did not answer a stop within {timeout_s:.1f} s; use its own emergency stop.")

    def close(self) -> None:
        """Leave the domain."""
        del self._joints, self._commands, self._cameras, self._requests, self._answers, self._member
