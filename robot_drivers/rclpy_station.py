"""A station's topics and its stop service over rclpy: used when a ROS 2 is sourced (see `dds_station` for without)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from robot_drivers.rclpy_node import RclpyNode

ANSWER_S = 5.0
"""How long a call of the service waits for the station's next look."""


class RclpyStation:
    """A node of its own, spun by a thread. A service call waits there until the station has carried the stop out."""

    def __init__(self, where: str, station: str, domain: int, *, loopback: bool) -> None:
        from diagnostic_msgs.msg import (  # pyright: ignore[reportMissingImports]
            DiagnosticArray,
            DiagnosticStatus,
            KeyValue,
        )
        from std_msgs.msg import String  # pyright: ignore[reportMissingImports]
        from std_srvs.srv import Trigger  # pyright: ignore[reportMissingImports]

        self._station = station
        self._array, self._status, self._pair, self._text = DiagnosticArray, DiagnosticStatus, KeyValue, String
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._member = RclpyNode("enpire_station", domain, loopback=loopback)
        node = self._member.node
        self._state = node.create_publisher(DiagnosticArray, f"/{where}/diagnostics", 10)
        self._verdicts = node.create_publisher(String, f"/{where}/verdict", 10)
        node.create_service(Trigger, f"/{where}/stop", self._serve)
        self._member.spin()

    def diagnostics(self, stamp_ns: int, level: int, message: str, values: Mapping[str, str]) -> None:
        """Publish one status under the station's name."""
        pairs = [self._pair(key=key, value=value) for key, value in values.items()]
        status = self._status(
            level=bytes([level]), name=f"enpire: {self._station}", message=message, hardware_id=self._station,
            values=pairs,
        )  # fmt: skip
        told = self._array(status=[status])
        told.header.stamp.sec, told.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        self._state.publish(told)

    def verdict(self, text: str) -> None:
        """Publish one verdict."""
        self._verdicts.publish(self._text(data=text))

    def stops(self) -> list[Callable[[bool, str], None]]:
        """What answers each call of the stop service that came since the last time."""
        found: list[Callable[[bool, str], None]] = []
        while True:
            try:
                found.append(self._calls.get_nowait().answer)
            except Empty:
                return found

    def close(self) -> None:
        """Leave the domain."""
        self._member.close()

    def _serve(self, request: object, response: Any) -> Any:
        call = _Call()
        self._calls.put(call)
        response.success = call.done.wait(ANSWER_S) and call.success
        response.message = call.said or f"The station did not look within {ANSWER_S:.0f} s; use the robot's own stop."
        return response


class _Call:
    """One call of the service, until it is answered."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.success, self.said = False, ""

    def answer(self, success: bool, message: str) -> None:
        self.success, self.said = success, message
        self.done.set()
