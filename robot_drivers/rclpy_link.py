"""The connection to a robot on ROS 2 over rclpy, used where a ROS 2 is sourced (`dds_link` is the one without)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from enpire.errors import RobotProblem
from robot_drivers.rclpy_node import RclpyNode
from robot_drivers.ros2_link import JointSample, Ros2Settings


class RclpyLink:
    """A `Link`. Messages are taken when they are asked for; only the stop service has a thread.

    A thread that served every message would delay the thread that moves the robot.
    """

    def __init__(self, settings: Ros2Settings) -> None:
        from rclpy.qos import qos_profile_sensor_data  # pyright: ignore[reportMissingImports]
        from sensor_msgs.msg import CompressedImage, JointState  # pyright: ignore[reportMissingImports]
        from std_msgs.msg import Float64MultiArray  # pyright: ignore[reportMissingImports]
        from std_srvs.srv import Trigger  # pyright: ignore[reportMissingImports]

        self._topics = RclpyNode("enpire_robot", settings.domain, loopback=settings.loopback)
        node = self._topics.node
        self._message, self._request = Float64MultiArray, Trigger.Request
        subscribe = partial(node.create_subscription, callback=_never, qos_profile=qos_profile_sensor_data)
        self._joints = subscribe(JointState, settings.joint_states)
        self._cameras = {camera: subscribe(CompressedImage, topic) for camera, topic in settings.cameras.items()}
        self._commands = node.create_publisher(Float64MultiArray, settings.joint_commands, 10)
        self._services = RclpyNode("enpire_robot_stop", settings.domain, loopback=settings.loopback)
        self._stop = self._services.node.create_client(Trigger, settings.stop)
        self._services.spin()

    def missing(self) -> str:
        """Which subscriber or service of the robot has not been found yet; empty when all have."""
        if not self._commands.get_subscription_count():
            return "no node subscribes to its joint commands"
        return "" if self._stop.service_is_ready() else "no node serves its stop"

    def joints(self) -> JointSample | None:
        """The newest joint state since the last call; None when none came."""
        return _newest(self._joints)

    def image(self, camera: str) -> bytes:
        """The newest compressed image since the last call; empty when none came."""
        message = _newest(self._cameras[camera])
        return b"" if message is None else bytes(message.data)

    def send_action(self, values: Sequence[float]) -> None:
        """Publish one action (action_dim,), in the units of the spec."""
        self._commands.publish(self._message(data=list(values)))

    def stop(self, timeout_s: float) -> None:
        """Call the robot's stop service and wait for its answer.

        Raises:
            RobotProblem: no answer came within `timeout_s`, or the robot refused.
        """
        call = self._stop.call_async(self._request())
        until_s = time.monotonic() + timeout_s
        while not call.done():
            if time.monotonic() > until_s:
                raise RobotProblem(
                    f"The robot did not answer a stop within {timeout_s:.1f} s; use its own emergency stop."
                )
            time.sleep(0.001)
        if not call.result().success:
            raise RobotProblem(f"The robot refused to stop: {call.result().message}")

    def close(self) -> None:
        """Leave the domain."""
        self._services.close()
        self._topics.close()


def _newest(subscription: Any) -> Any:
    """The newest message in the queue; None when it is empty."""
    newest = None
    with subscription.handle:
        while (taken := subscription.handle.take_message(subscription.msg_type, subscription.raw)) is not None:
            newest = taken[0]
    return newest


def _never(_: object) -> None:
    """A subscription needs a callback; it is never called, because no thread spins the node of the topics."""
