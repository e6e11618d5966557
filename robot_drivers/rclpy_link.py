"""The runner's end of a robot on ROS 2, over rclpy: used when a ROS 2 is sourced (see `dds_link` for without)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from enpire.errors import RobotProblem
from robot_drivers.rclpy_node import RclpyNode

if TYPE_CHECKING:
    from robot_drivers.ros2_robot import JointSample, Ros2Settings


class RclpyLink:
    """Messages are taken when they are asked for: a thread that served each would hold up whoever moves the robot."""

    def __init__(self, settings: Ros2Settings) -> None:
        from rclpy.qos import qos_profile_sensor_data  # pyright: ignore[reportMissingImports]
        from sensor_msgs.msg import CompressedImage, JointState  # pyright: ignore[reportMissingImports]
        from std_msgs.msg import Float64MultiArray  # pyright: ignore[reportMissingImports]
        from std_srvs.srv import Trigger  # pyright: ignore[reportMissingImports]

        self._quiet = RclpyNode("enpire_robot", settings.domain, loopback=settings.loopback)
        node = self._quiet.node
        self._message, self._question = Float64MultiArray, Trigger.Request
        listen = partial(node.create_subscription, callback=_never, qos_profile=qos_profile_sensor_data)
        self._joints = listen(JointState, settings.joint_states)
        self._cameras = {camera: listen(CompressedImage, topic) for camera, topic in settings.cameras.items()}
        self._commands = node.create_publisher(Float64MultiArray, settings.joint_commands, 10)
        self._served = RclpyNode("enpire_robot_stop", settings.domain, loopback=settings.loopback)
        self._stop = self._served.node.create_client(Trigger, settings.stop)
        self._served.spin()

    def missing(self) -> str:
        """Which end of the robot has not been found yet; empty when all have."""
        if not self._commands.get_subscription_count():
            return "nobody listens to commands"
        return "" if self._stop.service_is_ready() else "nobody serves stop"

    def joints(self) -> JointSample | None:
        """The newest joint state since the last call."""
        return _newest(self._joints)

    def picture(self, camera: str) -> bytes:
        """The newest compressed picture since the last call; empty when none came."""
        heard = _newest(self._cameras[camera])
        return b"" if heard is None else bytes(heard.data)

    def command(self, values: Sequence[float]) -> None:
        """Send one command."""
        self._commands.publish(self._message(data=list(values)))

    def stop(self, timeout_s: float) -> None:
        """Call the robot's stop service and wait for its answer."""
        asked = self._stop.call_async(self._question())
        until_s = time.monotonic() + timeout_s
        while not asked.done():
            if time.monotonic() > until_s:
                raise RobotProblem(f"The robot did not answer a stop within {timeout_s:.1f} s; use its own stop.")
            time.sleep(0.001)
        if not asked.result().success:
            raise RobotProblem(f"The robot refused to stop: {asked.result().message}")

    def close(self) -> None:
        """Leave the domain."""
        self._served.close()
        self._quiet.close()


def _newest(subscription: Any) -> Any:
    """The newest message that waits; None when none does."""
    newest = None
    with subscription.handle:
        while (taken := subscription.handle.take_message(subscription.msg_type, subscription.raw)) is not None:
            newest = taken[0]
    return newest


def _never(_: object) -> None:
    """Nobody spins the node of these topics."""
