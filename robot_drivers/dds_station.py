"""The topics and the stop service of a station over cyclonedds, used where no ROS 2 is sourced (see `ros2_bridge`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from robot_drivers.dds_link import RELIABLE, participant, taken
from robot_drivers.dds_types import (
    DiagnosticArray,
    DiagnosticStatus,
    Header,
    KeyValue,
    String,
    Time,
    TriggerRequest,
    TriggerResponse,
)


class DdsStation:
    """The `StationTopics` of one station on a DDS domain."""

    def __init__(self, where: str, station: str, domain: int, *, loopback: bool) -> None:
        """Join the domain. `where` is the namespace of the topics, such as enpire/cell_7."""
        member = participant(domain, loopback)
        self._station, self._member = station, member
        self._state = DataWriter(member, Topic(member, f"rt/{where}/diagnostics", DiagnosticArray), RELIABLE)
        self._verdicts = DataWriter(member, Topic(member, f"rt/{where}/verdict", String), RELIABLE)
        self._requests = DataReader(member, Topic(member, f"rq/{where}/stopRequest", TriggerRequest), RELIABLE)
        self._answers = DataWriter(member, Topic(member, f"rr/{where}/stopReply", TriggerResponse), RELIABLE)

    def diagnostics(self, stamp_ns: int, level: int, message: str, values: Mapping[str, str]) -> None:
        """Publish one status; its time is `stamp_ns` [ns since 1970]."""
        pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
        status = DiagnosticStatus(
            level=level, name=f"enpire: {self._station}", message=message, hardware_id=self._station, values=pairs
        )
        header = Header(stamp=Time(sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9))
        self._state.write(DiagnosticArray(header=header, status=[status]))

    def verdict(self, text: str) -> None:
        """Publish the verdict on one episode, as JSON."""
        self._verdicts.write(String(data=text))

    def stops(self) -> list[Callable[[bool, str], None]]:
        """One function per call of the stop service since the last time; it answers the call: (success, message)."""
        return [partial(self._answer, request) for request in taken(self._requests, TriggerRequest)]

    def close(self) -> None:
        """Leave the domain."""
        del self._state, self._verdicts, self._requests, self._answers, self._member

    def _answer(self, request: TriggerRequest, success: bool, message: str) -> None:
        self._answers.write(
            TriggerResponse(
                client=request.client, sequence_number=request.sequence_number, success=success, message=message
            )
        )
