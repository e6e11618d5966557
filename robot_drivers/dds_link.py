"""A node on ROS 2 over cyclonedds, used where no ROS 2 is sourced; and what else speaks DDS."""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import Any

from cyclonedds.core import DDSException, Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from robot_drivers import dds_types
from robot_drivers.ros2_link import Content, absolute, fill

RELIABLE = Qos(
    Policy.Reliability.Reliable(duration(seconds=1)), Policy.Durability.Volatile, Policy.History.KeepLast(10)
)
NEWEST = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.Durability.Volatile, Policy.History.KeepLast(1))
"""Of the messages that a subscriber has not received yet, only the newest is sent again."""
SENSOR = Qos(Policy.Reliability.BestEffort, Policy.Durability.Volatile, Policy.History.KeepLast(1))
"""Receives from reliable and from best-effort publishers; older messages are not even decoded."""
LOOPBACK_ONLY = """<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface name="lo" multicast="false"/>
</Interfaces><AllowMulticast>false</AllowMulticast></General><Discovery><Peers><Peer address="127.0.0.1"/></Peers>
<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>60</MaxAutoParticipantIndex></Discovery>
</Domain></CycloneDDS>"""
"""Configuration that restricts Cyclone DDS to this computer."""
_ITEMS = {"points": dds_types.JointTrajectoryPoint}
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
    """A `Node`."""

    def __init__(self, domain: int, *, loopback: bool) -> None:
        self._member: DomainParticipant | None = participant(domain, loopback)
        self._parts: list[_Topic | _Client] = []

    def publisher(self, kind: str, topic: str) -> _Topic:
        """Send to a topic, reliably."""
        return self._kept(_Topic(self._open(), kind, topic, sends=True))

    def subscription(self, kind: str, topic: str) -> _Topic:
        """Receive from a topic, from reliable and from best-effort publishers."""
        return self._kept(_Topic(self._open(), kind, topic, sends=False))

    def client(self, kind: str, service: str) -> _Client:
        """Call a service of a node with rmw_cyclonedds."""
        return self._kept(_Client(self._open(), kind, service))

    def close(self) -> None:
        """Leave the domain."""
        for part in self._parts:
            part.close()
        self._parts.clear()
        self._member = None

    def _kept[T: _Topic | _Client](self, part: T) -> T:
        self._parts.append(part)
        return part

    def _open(self) -> DomainParticipant:
        assert self._member is not None, "the node is closed"
        return self._member


class _Topic:
    """A `Publisher` or a `Subscription`."""

    def __init__(self, member: DomainParticipant, kind: str, topic: str, *, sends: bool) -> None:
        self._kind = _class_of(kind)
        named = Topic(member, f"rt/{absolute(topic)}", self._kind)
        self._writer: Any = DataWriter(member, named, NEWEST) if sends else None
        self._reader: Any = None if sends else DataReader(member, named, SENSOR)

    def matched(self) -> bool:
        """Whether a node subscribes to it."""
        return bool(self._writer.get_matched_subscriptions())

    def publish(self, content: Content) -> None:
        """Send one message."""
        self._writer.write(fill(self._kind(), content, _ITEMS))

    def acknowledged(self, timeout_s: float) -> bool:
        """Whether every reliable subscriber has received what was sent; waits for that."""
        try:
            return bool(self._writer.wait_for_acks(duration(seconds=timeout_s)))
        except DDSException:
            return False

    def newest(self) -> Any:
        """The newest message since the last call; None when none came."""
        samples = taken(self._reader, self._kind)
        return samples[-1] if samples else None

    def close(self) -> None:
        self._writer = self._reader = None


class _Client:
    """A `Client`."""

    def __init__(self, member: DomainParticipant, kind: str, service: str) -> None:
        name = absolute(service)
        self._request, self._response = _class_of(f"{kind}Request"), _class_of(f"{kind}Response")
        self._requests: Any = DataWriter(member, Topic(member, f"rq/{name}Request", self._request), RELIABLE)
        self._answers: Any = DataReader(member, Topic(member, f"rr/{name}Reply", self._response), RELIABLE)
        self._client = secrets.randbits(63)
        self._number = 0
        self._calling = threading.Lock()

    def ready(self) -> bool:
        """Whether a node serves it."""
        return bool(self._requests.get_matched_subscriptions()) and bool(self._answers.get_matched_publications())

    def call(self, content: Content, timeout_s: float) -> Any:
        """The answer to a call; None when none came in time."""
        with self._calling:
            self._number += 1
            request = self._request(client=self._client, sequence_number=self._number)
            self._requests.write(fill(request, content, _ITEMS))
            until_s = time.monotonic() + timeout_s
            while time.monotonic() < until_s:
                for answer in taken(self._answers, self._response):
                    if (answer.client, answer.sequence_number) == (self._client, self._number):
                        return answer
                time.sleep(0.001)
        return None

    def close(self) -> None:
        self._requests = self._answers = None


def _class_of(kind: str) -> type[Any]:
    """The DDS type of a message such as sensor_msgs/JointState."""
    return getattr(dds_types, kind.rpartition("/")[2])
