"""A robot as a ROS 2 node over cyclonedds: it publishes joint states and images, and takes actions and stops.

`python -m tests.robot_drivers.dds_robot_node FILE.py DOMAIN` runs it for the robot of a driver file.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from enpire.errors import RobotProblem
from enpire.interfaces import Robot
from enpire.types import ImageArray, Observation
from robot_drivers.dds_link import RELIABLE, SENSOR, participant, taken
from robot_drivers.dds_types import (
    CompressedImage,
    Float64MultiArray,
    Header,
    JointState,
    Time,
    TriggerRequest,
    TriggerResponse,
)
from robot_drivers.driver_file import load_robot
from robot_drivers.ros2_link import Ros2Settings


class DdsRobotNode:
    """One connected robot on ROS 2. It publishes state numbers as positions, velocities or efforts of joints."""

    def __init__(self, robot: Robot, names: Ros2Settings, joints: Mapping[str, tuple[str, str]]) -> None:
        """Join the domain.

        Args:
            robot: what is shown; connected.
            names: of the topics and the stop service, and the domain.
            joints: state name -> (joint, one of position, velocity, effort).
        """
        member = participant(names.domain, loopback=True)
        self._robot = robot
        self._names = names
        self._places = [(joints[item.name], index) for index, item in enumerate(robot.spec.state)]
        self._out = DataWriter(member, Topic(member, f"rt/{names.joint_states}", JointState), RELIABLE)
        self._in = DataReader(member, Topic(member, f"rt/{names.joint_commands}", Float64MultiArray), SENSOR)
        self._pictures = {
            camera: DataWriter(member, Topic(member, f"rt/{topic}", CompressedImage), RELIABLE)
            for camera, topic in names.cameras.items()
        }
        self._asked = DataReader(member, Topic(member, f"rq/{names.stop}Request", TriggerRequest), RELIABLE)
        self._answer = DataWriter(member, Topic(member, f"rr/{names.stop}Reply", TriggerResponse), RELIABLE)
        self.refused = 0
        """Number of actions with a wrong shape or a value that is not finite."""

    def run(self, ended: threading.Event, publish_hz: float = 100.0) -> None:
        """Serve until `ended` is set; stops are handled before actions."""
        next_s = 0.0
        while not ended.is_set():
            for request in taken(self._asked, TriggerRequest):
                self._robot.stop()
                self._in.take(N=100)  # actions from before the stop must not undo it
                self._answer.write(
                    TriggerResponse(client=request.client, sequence_number=request.sequence_number, success=True)
                )
            for command in taken(self._in, Float64MultiArray):
                self._handle(command)
            now_s = time.monotonic()
            if now_s >= next_s:
                next_s = now_s + 1.0 / publish_hz
                self._show(self._robot.observe())
            time.sleep(0.001)
        self._robot.stop()

    def _handle(self, command: Float64MultiArray) -> None:
        values = np.array(list(command.data), np.float32)
        if values.shape != (self._robot.spec.action_dim,) or not np.isfinite(values).all():
            self.refused += 1
            return
        self._robot.act(values)

    def _show(self, seen: Observation) -> None:
        joints = list(dict.fromkeys(joint for (joint, _), _ in self._places))
        columns = {what: [0.0] * len(joints) for what in ("position", "velocity", "effort")}
        for (joint, what), index in self._places:
            columns[what][joints.index(joint)] = float(seen.state[0, index])
        header = Header(stamp=Time(sec=seen.stamp_ns // 10**9, nanosec=seen.stamp_ns % 10**9))
        self._out.write(JointState(header=header, name=joints, **columns))
        for camera, writer in self._pictures.items():
            if camera in seen.images:
                writer.write(CompressedImage(header=header, format="png", data=_png(seen.images[camera][0])))


def joints_by_unit(robot: Robot) -> dict[str, tuple[str, str]]:
    """Joint and kind of each state number, by its unit: `elbow_rad_s` is the velocity of joint `elbow`."""
    kinds = {"rad/s": ("_rad_s", "velocity"), "N": ("_n", "effort"), "N m": ("_nm", "effort")}
    found: dict[str, tuple[str, str]] = {}
    for item in robot.spec.state:
        ending, what = kinds.get(item.unit, ("_rad", "position"))
        found[item.name] = (item.name.removesuffix(ending), what)
    return found


def _png(picture: ImageArray) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(picture).save(out, format="png")
    return out.getvalue()


def main(arguments: list[str]) -> int:
    """Show the robot of a driver file until the input ends."""
    if len(arguments) != 2:
        print("Usage: python -m tests.robot_drivers.dds_robot_node FILE.py DOMAIN")
        return 2
    robot = load_robot(Path(arguments[0]), {})
    try:
        robot.connect()
    except RobotProblem as problem:
        print(problem, file=sys.stderr)
        return 1
    cameras = {camera: f"{camera}/compressed" for camera in robot.spec.cameras}
    names = Ros2Settings(cameras=cameras, domain=int(arguments[1]))
    node = DdsRobotNode(robot, names, joints_by_unit(robot))
    ended = threading.Event()
    thread = threading.Thread(target=node.run, args=(ended,))
    thread.start()
    print("serving", flush=True)
    sys.stdin.read()
    ended.set()
    thread.join()
    robot.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
