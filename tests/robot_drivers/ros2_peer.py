"""A robot on ROS 2 that shares no message types with the driver.

It speaks DDS as a node with rmw_cyclonedds does: topics are rt/NAME, requests rq/NAMERequest, answers rr/NAMEReply.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from enpire.types import Bounds, TaskSpec
from robot_drivers.dds_link import participant
from tests.robot_drivers.ros2_types import Head, Joints, Picture, Stamp, SwitchRequest, SwitchResponse

QOS = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.Durability.Volatile, Policy.History.KeepLast(10))
JOINTS = ("shoulder", "elbow")


class Peer:
    """Two joints that obey the newest command at once, on the topics below `/arm`; `heard` keeps every message."""

    def __init__(
        self, domain: int, command: type[Any], *, stop: type[Any] | None = None, picture: bool = False
    ) -> None:
        self._member: DomainParticipant = participant(domain, loopback=True)
        self.position, self.velocity = [0.25, -0.5], [0.0, 0.0]
        self.heard: list[Any] = []
        self.switched: list[SwitchRequest] = []
        self.active: dict[str, bool] = {"mover": True, "gripper": True, "keeper": False}
        self.stuck: set[str] = set()
        """Controllers that cannot be deactivated."""
        self.picture: Picture | None = None
        self.quiet = threading.Event()
        self._joints: Any = self._topic("rt/arm/joint_states", Joints, DataWriter)
        self._commands: Any = self._topic("rt/arm/command", command, DataReader)
        self._stops: Any = self._topic("rt/arm/halt", stop, DataReader) if stop else None
        self._camera: Any = self._topic("rt/arm/camera", Picture, DataWriter) if picture else None
        self._requests: Any = self._topic("rq/arm/manager/switch_controllerRequest", SwitchRequest, DataReader)
        self._answers: Any = self._topic("rr/arm/manager/switch_controllerReply", SwitchResponse, DataWriter)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(300)

    def wait(self, true: Callable[[], object], what: str, patience_s: float = 20.0) -> None:
        until_s = time.monotonic() + patience_s
        while not true():
            assert time.monotonic() < until_s, f"waited in vain for {what}"
            time.sleep(0.005)

    def _topic(self, name: str, kind: type[Any], end: Any) -> Any:
        return end(self._member, Topic(self._member, name, kind), QOS)

    def _run(self) -> None:
        while not self._ended.is_set():
            for reader in (self._commands, self._stops):
                if reader is not None:
                    self.heard += [sample for sample in reader.take(N=50) if isinstance(sample, IdlStruct)]
            for request in self._requests.take(N=50):
                if isinstance(request, SwitchRequest):
                    self._switch(request)
            if not self.quiet.is_set():
                head = Head(stamp=Stamp(sec=int(time.monotonic()), nanosec=time.monotonic_ns() % 10**9))
                self._joints.write(
                    Joints(header=head, name=list(JOINTS), position=self.position, velocity=self.velocity)
                )
                if self._camera is not None and self.picture is not None:
                    self._camera.write(self.picture)
            time.sleep(0.005)

    def _switch(self, request: SwitchRequest) -> None:
        """As ros2_control does with BEST_EFFORT: false when every named controller of a list fails."""
        self.switched.append(request)
        failed = [name for name in request.deactivate_controllers if name in self.stuck or name not in self.active]
        for name in request.deactivate_controllers:
            if name not in failed:
                self.active[name] = False
        unknown = [name for name in request.activate_controllers if name not in self.active]
        self.active.update({name: True for name in request.activate_controllers if name not in unknown})
        lists = ((failed, request.deactivate_controllers), (unknown, request.activate_controllers))
        good = not any(bad and len(bad) == len(all_of) for bad, all_of in lists)
        message = "" if good else f"failed: {', '.join(failed + unknown)}"
        self._answers.write(
            SwitchResponse(client=request.client, sequence_number=request.sequence_number, ok=good, message=message)
        )


@contextmanager
def peer(*arguments: Any, **named: Any) -> Iterator[Peer]:
    made = Peer(*arguments, **named)
    try:
        yield made
    finally:
        made.close()


def arm_spec(cameras: tuple[str, ...] = ()) -> TaskSpec:
    """Two joints, positions in rad."""
    joints = tuple(Bounds(name=f"{joint}_rad", unit="rad", low=-2.0, high=2.0) for joint in JOINTS)
    return TaskSpec(
        name="arm", instruction="Reach.", state=joints, action=joints, rate_hz=20.0, limit_ticks=100, cameras=cameras
    )


def base_spec() -> TaskSpec:
    """A base whose wheels are joints: velocity commands that are also sensed."""
    speeds = (
        Bounds(name="forward_m_s", unit="m/s", low=-1.0, high=1.0),
        Bounds(name="turn_rad_s", unit="rad/s", low=-2.0, high=2.0),
    )
    return TaskSpec(name="base", instruction="Drive.", state=speeds, action=speeds, rate_hz=20.0, limit_ticks=100)


def pixels(encoding: str, *, pad: int = 3, big_endian: bool = False) -> tuple[Picture, np.ndarray]:
    """A raw image of 4 rows and 6 columns with padded rows, and the picture (4, 6, 3) uint8 that it shows."""
    random = np.random.default_rng(5)
    if encoding == "16UC1":
        near_mm = random.integers(0, 6000, (4, 6)).astype(np.uint16)
        near_mm[0, :2] = 0, 4000
        rows = near_mm.astype(">u2" if big_endian else "<u2").view(np.uint8).reshape(4, 12)
        gray = np.minimum(near_mm / 4000 * 255, 255).astype(np.uint8)
        shown = np.stack([gray] * 3, axis=2)
    elif encoding == "mono8":
        rows = random.integers(0, 255, (4, 6), np.uint8)
        shown = np.stack([rows] * 3, axis=2)
    else:
        shown = random.integers(0, 255, (4, 6, 3), np.uint8)
        rows = (shown if encoding == "rgb8" else shown[:, :, ::-1]).reshape(4, 18)
    padded = np.pad(rows, ((0, 0), (0, pad)), constant_values=77)
    message = Picture(
        height=4, width=6, encoding=encoding, is_bigendian=int(big_endian), step=padded.shape[1],
        data=padded.flatten().tolist(),
    )  # fmt: skip
    return message, shown
