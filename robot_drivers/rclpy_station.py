"""The topics and the stop service of a station over rclpy, used where a ROS 2 is sourced (see `ros2_bridge`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from robot_drivers.rclpy_node import RclpyNode

ANSWER_S = 5.0
"""How long a call of the stop service waits for the station [s]."""

NO_ANSWER = f"The station did not answer within {ANSWER_S:.0f} s; use the robot's own emergency stop."


class RclpyStation:
    """The `StationTopics` of one station, on a node with a thread.

    A call of the stop service waits in that thread until the station has handled it.
    """

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
        """Publish one status; its time is `stamp_ns` [ns since 1970]."""
        pairs = [self._pair(key=key, value=value) for key, value in values.items()]
        status = self._status(
            level=bytes([level]), name=f"enpire: {self._station}", message=message, hardware_id=self._station,
            values=pairs,
        )  # fmt: skip
        message_out = self._array(status=[status])
        message_out.header.stamp.sec, message_out.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        self._state.publish(message_out)

    def verdict(self, text: str) -> None:
        """Publish the verdict on one episode, as JSON."""
        self._verdicts.publish(self._text(data=text))

    def stops(self) -> list[Callable[[bool, str], None]]:
        """One function per call of the stop service since the last time; it answers the call: (success, message)."""
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
        response.message = call.message or NO_ANSWER
        return response


class _Call:
    """One call of the service that waits for its answer."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.success, self.message = False, ""

    def answer(self, success: bool, message: str) -> None:
        self.success, self.message = success, message
        self.done.set()
