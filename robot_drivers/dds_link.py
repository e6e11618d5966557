"""ROS 2 without ROS 2: topics and Trigger services over cyclonedds, at both ends of a robot."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from enpire.errors import RobotProblem
from robot_drivers.dds_types import CompressedImage, Float64MultiArray, JointState, TriggerRequest, TriggerResponse
from robot_drivers.rclpy_node import LOOPBACK_ONLY

RELIABLE = Qos(
    Policy.Reliability.Reliable(duration(seconds=1)), Policy.Durability.Volatile, Policy.History.KeepLast(10)
)
SENSOR = Qos(Policy.Reliability.BestEffort, Policy.Durability.Volatile, Policy.History.KeepLast(5))
"""Takes from reliable and best-effort publishers alike."""
_domains: dict[int, Domain] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the topics and services of one robot are called in ROS 2."""

    joint_states: str = "joint_states"
    joint_commands: str = "joint_commands"
    stop: str = "stop"
    cameras: tuple[tuple[str, str], ...] = ()
    """(camera of the spec, topic of its compressed pictures)."""


def participant(domain: int, loopback: bool) -> DomainParticipant:
    """A participant of a DDS domain; `loopback` keeps it on this machine. CYCLONEDDS_URI wins where it is set."""
    if loopback and domain not in _domains and "CYCLONEDDS_URI" not in os.environ:
        _domains[domain] = Domain(domain, LOOPBACK_ONLY)
    return DomainParticipant(domain)


def taken[T](reader: DataReader[T], kind: type[T]) -> list[T]:
    """The samples that wait. A peer that leaves makes samples without content, which are left out."""
    return [sample for sample in reader.take(N=100) if isinstance(sample, kind)]


class DdsLink:
    """The runner's end: newest joint states and pictures in, commands out, Trigger services called."""

    def __init__(self, names: Names, domain: int, loopback: bool) -> None:
        member = participant(domain, loopback)
        self._joints = DataReader(member, Topic(member, f"rt/{names.joint_states}", JointState), SENSOR)
        self._commands = DataWriter(member, Topic(member, f"rt/{names.joint_commands}", Float64MultiArray), RELIABLE)
        self._cameras = {
            camera: DataReader(member, Topic(member, f"rt/{topic}", CompressedImage), SENSOR)
            for camera, topic in names.cameras
        }
        self._ask = DataWriter(member, Topic(member, f"rq/{names.stop}Request", TriggerRequest), RELIABLE)
        self._hear = DataReader(member, Topic(member, f"rr/{names.stop}Reply", TriggerResponse), RELIABLE)
        self._client = secrets.randbits(63)
        self._asked = 0
        self._asking = threading.Lock()
        self._member = member

    def missing(self) -> str:
        """Which end of the robot has not been found yet; empty when all have."""
        if not self._commands.get_matched_subscriptions():
            return "nobody listens to commands"
        if not self._ask.get_matched_subscriptions() or not self._hear.get_matched_publications():
            return "nobody serves stop"
        return ""

    def joints(self) -> JointState | None:
        """The newest joint state that came since the last call."""
        samples = taken(self._joints, JointState)
        return samples[-1] if samples else None

    def picture(self, camera: str) -> bytes:
        """The newest compressed picture since the last call; empty when none came."""
        samples = taken(self._cameras[camera], CompressedImage)
        return bytes(samples[-1].data) if samples else b""

    def command(self, values: Sequence[float]) -> None:
        """Send one command."""
        self._commands.write(Float64MultiArray(data=list(values)))

    def stop(self, timeout_s: float) -> None:
        """Call the robot's stop service and wait for its answer."""
        with self._asking:
            self._asked += 1
            self._ask.write(TriggerRequest(client=self._client, sequence_number=self._asked))
            until_s = time.monotonic() + timeout_s
            while time.monotonic() < until_s:
                for answer in taken(self._hear, TriggerResponse):
                    if (answer.client, answer.sequence_number) == (self._client, self._asked):
                        if not answer.success:
                            raise RobotProblem(f"The robot refused to stop: {answer.message}")
                        return
                time.sleep(0.001)
        raise RobotProblem(f"The robot did not answer a stop within {timeout_s:.1f} s; use its own stop.")

    def close(self) -> None:
        """Leave the domain."""
        del self._joints, self._commands, self._cameras, self._ask, self._hear, self._member
