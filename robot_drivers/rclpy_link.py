"""The runner's end of a robot on ROS 2, over rclpy: used when a ROS 2 is sourced (see `dds_link` for without)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from enpire.errors import RobotProblem
from robot_drivers.rclpy_node import RclpyNode

if TYPE_CHECKING:
    from robot_drivers.ros2_robot import JointSample, Ros2Settings


class RclpyLink:
    """A node of its own, spun by a thread; the newest message of each topic waits to be taken."""

    def __init__(self, settings: Ros2Settings) -> None:
        from rclpy.qos import qos_profile_sensor_data  # pyright: ignore[reportMissingImports]
        from sensor_msgs.msg import CompressedImage, JointState  # pyright: ignore[reportMissingImports]
        from std_msgs.msg import Float64MultiArray  # pyright: ignore[reportMissingImports]
        from std_srvs.srv import Trigger  # pyright: ignore[reportMissingImports]

        self._member = RclpyNode("enpire_robot", settings.domain, loopback=settings.loopback)
        node = self._member.node
        self._message, self._question = Float64MultiArray, Trigger.Request
        self._newest: dict[str, object] = {}
        self._lock = threading.Lock()
        listen = node.create_subscription
        listen(JointState, settings.joint_states, lambda heard: self._keep("joints", heard), qos_profile_sensor_data)
        for camera, topic in settings.cameras.items():
            listen(
                CompressedImage,
                topic,
                lambda heard, camera=camera: self._keep(f"camera {camera}", heard),
                qos_profile_sensor_data,
            )
        self._commands = node.create_publisher(Float64MultiArray, settings.joint_commands, 10)
        self._stop = node.create_client(Trigger, settings.stop)
        self._member.spin()

    def missing(self) -> str:
        """Which end of the robot has not been found yet; empty when all have."""
        if not self._commands.get_subscription_count():
            return "nobody listens to commands"
        return "" if self._stop.service_is_ready() else "nobody serves stop"

    def joints(self) -> JointSample | None:
        """The newest joint state since the last call."""
        return self._take("joints")  # pyright: ignore[reportReturnType]

    def picture(self, camera: str) -> bytes:
        """The newest compressed picture since the last call; empty when none came."""
        heard = self._take(f"camera {camera}")
        return b"" if heard is None else bytes(heard.data)  # pyright: ignore[reportAttributeAccessIssue]

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
        self._member.close()

    def _keep(self, what: str, heard: object) -> None:
        with self._lock:
            self._newest[what] = heard

    def _take(self, what: str) -> object | None:
        with self._lock:
            return self._newest.pop(what, None)
