"""A station on ROS 2: what it does, its verdicts and its stop, for the tooling that a laboratory already has.

Under /enpire/<station> lie `diagnostics`, a diagnostic_msgs/DiagnosticArray (its state, twice a second), `verdict`, a
std_msgs/String with one JSON object per episode, and `stop`, a std_srvs/Trigger. Over rclpy where a ROS 2 is sourced,
otherwise over cyclonedds, which speaks the same wire.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from enpire.errors import MissingExtra
from enpire.files import parse
from enpire.station.bridges import Options
from enpire.store.records import episode_body
from enpire.types import Episode
from enpire.wire.arrivals import Heartbeat

OK, WARN, ERROR = 0, 1, 2
"""Levels of diagnostic_msgs/DiagnosticStatus."""
CALLER = "somebody on ROS 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ros2BridgeOptions:
    """Where a station shows itself."""

    domain: int = 0
    namespace: str = "enpire"
    loopback: bool = False
    """Stay on this machine."""


class StationTopics(Protocol):
    """The two topics and the service, whichever library carries them."""

    def diagnostics(self, stamp_ns: int, level: int, message: str, values: Mapping[str, str]) -> None:
        """Publish one status under the station's name."""

    def verdict(self, text: str) -> None:
        """Publish one verdict."""

    def stops(self) -> list[Callable[[bool, str], None]]:
        """For each call of the stop service since the last time: what answers it, given success and one sentence."""
        ...

    def close(self) -> None:
        """Leave the domain."""


class Ros2Bridge:
    """The station's state in the words of ROS 2."""

    def __init__(self, topics: StationTopics) -> None:
        self._topics = topics

    def show(self, beat: Heartbeat) -> None:
        """The state as a diagnostic status: an error when a person is needed, a warning when it does not work."""
        level = ERROR if beat.alarm else WARN if beat.stopped or beat.paused else OK
        said = beat.alarm or ("stopped" if beat.stopped else "paused" if beat.paused else beat.phase)
        values = {
            "phase": beat.phase, "running": str(beat.running), "queued": str(beat.queued), "policy": beat.deployed,
            **{f"{phase} s": f"{seconds:.1f}" for phase, seconds in beat.seconds.items()},
        }  # fmt: skip
        self._topics.diagnostics(time.time_ns(), level, said, values)

    def ended(self, episode: Episode) -> None:
        """The episode as JSON, with its policy and purpose."""
        body = episode_body(episode)
        body |= {"policy_id": episode.order.policy_id, "purpose": episode.order.purpose, "task": episode.order.task}
        self._topics.verdict(json.dumps(body, sort_keys=True))

    def hear(self, stop: Callable[[str], str]) -> None:
        """Carry out the stops that were asked for, then answer them."""
        for answer in self._topics.stops():
            why_not = stop(CALLER)
            answer(not why_not, why_not or "The station holds a stop; resume it in ENPIRE.")

    def close(self) -> None:
        """Leave the domain."""
        self._topics.close()


def open_bridge(station: str, options: Options) -> Ros2Bridge:
    """A station on ROS 2; MissingExtra when neither rclpy nor cyclonedds is there."""
    settings = parse(Ros2BridgeOptions, dict(options), f"The bridge `ros2` of station {station}")
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
    """The station's name as ROS 2 allows names: letters, digits and underscores, no digit first."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", station)
    return f"_{plain}" if plain[0].isdigit() else plain
