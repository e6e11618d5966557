"""The bridge `ros2`: a station's state, verdicts and stop on ROS 2.

The namespace /enpire/<station> has two topics and a service: `diagnostics`, a diagnostic_msgs/DiagnosticArray with the
state of the station, twice a second; `verdict`, a std_msgs/String with one JSON object per episode; and `stop`, a
std_srvs/Trigger. It uses rclpy where a ROS 2 is sourced, otherwise cyclonedds, which speaks the same protocol.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from enpire.codec import result_fields, result_of
from enpire.errors import MissingExtra
from enpire.files import parse
from enpire.types import Episode
from enpire.wire.arrivals import Heartbeat

OK, WARN, ERROR = 0, 1, 2
"""Levels of diagnostic_msgs/DiagnosticStatus."""
CALLER = "a node on ROS 2"
"""Who stopped the station, for its record; a Trigger request does not name its sender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ros2BridgeOptions:
    """Where a station appears on ROS 2."""

    domain: int = 0
    """ROS 2 domain id."""
    namespace: str = "enpire"
    loopback: bool = False
    """Use only the loopback interface of this computer."""


class StationTopics(Protocol):
    """The two topics and the service, over either library."""

    def diagnostics(self, stamp_ns: int, level: int, message: str, values: Mapping[str, str]) -> None:
        """Publish one status; its time is `stamp_ns` [ns since 1970]."""

    def verdict(self, text: str) -> None:
        """Publish the verdict on one episode, as JSON."""

    def stops(self) -> list[Callable[[bool, str], None]]:
        """One function per call of the stop service since the last time; it answers the call: (success, message)."""
        ...

    def close(self) -> None:
        """Leave the domain."""


class Ros2Bridge:
    """A `Bridge` of one station to ROS 2."""

    def __init__(self, topics: StationTopics) -> None:
        self._topics = topics

    def show(self, heartbeat: Heartbeat) -> None:
        """Publish the state: level ERROR when the station needs an operator, WARN when it is stopped or paused."""
        level = ERROR if heartbeat.alarm else WARN if heartbeat.stopped or heartbeat.paused else OK
        message = heartbeat.alarm or (
            "stopped" if heartbeat.stopped else "paused" if heartbeat.paused else heartbeat.phase
        )
        values = {
            "phase": heartbeat.phase, "running": str(heartbeat.running), "queued": str(heartbeat.queued),
            "policy": heartbeat.deployed,
            **{f"{phase} s": f"{seconds:.1f}" for phase, seconds in heartbeat.seconds.items()},
        }  # fmt: skip
        self._topics.diagnostics(time.time_ns(), level, message, values)

    def ended(self, episode: Episode) -> None:
        """Publish the episode as JSON, with its policy and purpose."""
        body = result_fields(result_of(episode))
        body |= {"policy_id": episode.order.policy_id, "purpose": episode.order.purpose, "task": episode.order.task}
        self._topics.verdict(json.dumps(body, sort_keys=True))

    def hear(self, stop: Callable[[str], str]) -> None:
        """Stop the robot for each request, then answer it."""
        for answer in self._topics.stops():
            why_not = stop(CALLER)
            answer(not why_not, why_not or "The robot is stopped; an operator resumes it in ENPIRE.")

    def close(self) -> None:
        """Leave the domain."""
        self._topics.close()


def open_bridge(station: str, options: Mapping[str, object]) -> Ros2Bridge:
    """Connect a station to ROS 2; MissingExtra when neither rclpy nor cyclonedds is installed."""
    settings = parse(Ros2BridgeOptions, options, f"The bridge `ros2` of station {station}")
    where = "/".join((settings.namespace.strip("/"), ros_name(station)))
    if find_spec("rclpy") is not None:
        from robot_drivers.rclpy_station import RclpyStation

        return Ros2Bridge(RclpyStation(where, station, settings.domain, loopback=settings.loopback))
    if find_spec("cyclonedds") is None:
        raise MissingExtra(
            "The bridge `ros2` of a station needs a sourced ROS 2, or cyclonedds: pip install 'enpire[ros2]'."
        )
    from robot_drivers.dds_station import DdsStation

    return Ros2Bridge(DdsStation(where, station, settings.domain, loopback=settings.loopback))


def ros_name(station: str) -> str:
    """The station's name as ROS 2 allows it: letters, digits and underscores, no digit first."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", station)
    return f"_{plain}" if plain[0].isdigit() else plain
