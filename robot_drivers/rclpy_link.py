"""A node of a robot driver over rclpy, used where a ROS 2 is sourced (`dds_link` is the one without)."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from robot_drivers.rclpy_node import RclpyNode
from robot_drivers.ros2_link import Content, absolute, fill


class RclpyLink:
    """A `Node`. Messages are taken when they are asked for; only the services have a thread.

    A thread that served every message would delay the thread that moves the robot.
    """

    def __init__(self, domain: int, *, loopback: bool) -> None:
        from rclpy.qos import qos_profile_sensor_data  # pyright: ignore[reportMissingImports]

        self._topics = RclpyNode("enpire_robot", domain, loopback=loopback)
        self._services = RclpyNode("enpire_robot_stop", domain, loopback=loopback)
        self._sensor_qos: Any = qos_profile_sensor_data
        self._services.spin()

    def publisher(self, kind: str, topic: str) -> _Publisher:
        """Send to a topic, reliably."""
        message = _message(kind)
        # With one message in the history, Fast DDS asks for an acknowledgement at once, not after up to 3 s.
        return _Publisher(self._topics.node.create_publisher(message, f"/{absolute(topic)}", 1), message)

    def subscription(self, kind: str, topic: str) -> _Subscription:
        """Receive from a topic, from reliable and from best-effort publishers."""
        made = self._topics.node.create_subscription(
            _message(kind), f"/{absolute(topic)}", callback=_never, qos_profile=self._sensor_qos
        )
        return _Subscription(made)

    def client(self, kind: str, service: str) -> _Client:
        """Call a service."""
        package, _, name = kind.partition("/")
        made: Any = getattr(import_module(f"{package}.srv"), name)
        return _Client(self._services.node.create_client(made, f"/{absolute(service)}"), made.Request)

    def close(self) -> None:
        """Leave the domain."""
        self._services.close()
        self._topics.close()


class _Publisher:
    def __init__(self, publisher: Any, message: Any) -> None:
        self._publisher, self._message = publisher, message
        self._items = {"points": _message("trajectory_msgs/JointTrajectoryPoint")} if hasattr(message, "points") else {}

    def matched(self) -> bool:
        return self._publisher.get_subscription_count() > 0

    def publish(self, content: Content) -> None:
        self._publisher.publish(fill(self._message(), content, self._items))

    def acknowledged(self, timeout_s: float) -> bool:
        from rclpy.duration import Duration  # pyright: ignore[reportMissingImports]

        return bool(self._publisher.wait_for_all_acked(Duration(seconds=timeout_s)))


class _Subscription:
    def __init__(self, subscription: Any) -> None:
        self._subscription = subscription

    def newest(self) -> Any:
        """The newest message in the queue; None when it is empty."""
        made, newest = self._subscription, None
        with made.handle:
            while (taken := made.handle.take_message(made.msg_type, made.raw)) is not None:
                newest = taken[0]
        return newest


class _Client:
    def __init__(self, client: Any, request: Any) -> None:
        self._client, self._request = client, request

    def ready(self) -> bool:
        return bool(self._client.service_is_ready())

    def call(self, content: Content, timeout_s: float) -> Any:
        """The answer to a call; None when none came in time."""
        call = self._client.call_async(fill(self._request(), content, {}))
        until_s = time.monotonic() + timeout_s
        while not call.done():
            if time.monotonic() > until_s:
                self._client.remove_pending_request(call)
                return None
            time.sleep(0.001)
        return call.result()


def _message(kind: str) -> Any:
    """The class of a message such as sensor_msgs/JointState."""
    package, _, name = kind.partition("/")
    return getattr(import_module(f"{package}.msg"), name)


def _never(_: object) -> None:
    """A subscription needs a callback; it is never called, because no thread spins the node of the topics."""
