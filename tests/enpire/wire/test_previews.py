"""Live images: nothing is rendered without a request, the newest image is shown, and a missing one has a reason."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import zmq

from enpire.errors import RobotProblem
from enpire.fleet.zmq_transport import ZmqFleet
from enpire.station.preview_camera import PERIOD_S, PreviewCamera
from enpire.types import ImageArray
from enpire.wire import previews
from enpire.wire.curve_keys import EncryptedBind, enroll, server_keys, station_keys
from enpire.wire.live_images import Preview, RenderImages, no_live_images
from enpire.wire.previews import PreviewReceiver
from enpire.wire.private_socket import PREVIEWS, private_address
from tests.fakes.waiting import never, until

QUIET_S = 4 * PERIOD_S
"""Without an image for so long, a camera is no longer subscribed."""


@dataclass(slots=True)
class Arm:
    """Counts its captures, and notes the threads in which the images are rendered."""

    glances: int = 0
    glanced_s: float = 0.0
    """Monotonic clock of the last one."""
    developed_in: set[str] = field(default_factory=set[str])

    def capture_live(self) -> RenderImages:
        self.glances += 1
        self.glanced_s = time.monotonic()
        shade = self.glances

        def develop(cameras: Sequence[str]) -> Mapping[str, ImageArray]:
            self.developed_in.add(threading.current_thread().name)
            return {camera: np.full((8, 8, 3), shade % 250, np.uint8) for camera in cameras}

        return develop


@pytest.fixture
def address(tmp_path: Path) -> str:
    return private_address(tmp_path, "fleet")


@pytest.fixture
def receiver(address: str) -> Iterator[PreviewReceiver]:
    context = zmq.Context()
    opened = PreviewReceiver(context, address + PREVIEWS)
    yield opened
    opened.close()
    context.destroy(linger=0)


@pytest.fixture
def camera(address: str) -> Iterator[PreviewCamera]:
    made = PreviewCamera("sim-1", address, None)
    yield made
    made.close()


def test_images_are_sent_only_while_a_camera_is_requested(
    receiver: PreviewReceiver, camera: PreviewCamera, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "SUBSCRIBED_S", 0.4)
    arm, began_ns = Arm(), time.time_ns()

    def look() -> Preview:
        return receiver.look("sim-1", "top")

    def turn() -> None:
        camera.serve(1, arm.capture_live)

    def image_other_than(known: bytes) -> bytes:
        found = [b""]

        def comes() -> bool:
            shown = look()
            assert not shown.jpeg or began_ns < shown.came_ns <= time.time_ns()
            found.append(shown.jpeg)
            return found[-1] not in (b"", known)

        until(comes, "another image", turn=turn)
        return found[-1]

    never(lambda: arm.glances, 1.0, look, turn)
    first = image_other_than(b"")
    assert first[:2] == b"\xff\xd8"
    image_other_than(first)
    assert arm.developed_in == {"preview"}
    assert receiver.look("sim-2", "top") == Preview()
    until(lambda: time.monotonic() - arm.glanced_s > QUIET_S, "the images to end with the subscription", turn=turn)
    seen = arm.glances
    assert look() == Preview(), "the last image is forgotten"
    until(lambda: arm.glances > seen, "images for the new subscription", turn=lambda: (look(), turn()))


def test_a_robot_without_live_images_sends_the_reason(receiver: PreviewReceiver, camera: PreviewCamera) -> None:
    def says(words: str) -> Callable[[], bool]:
        return lambda: words in receiver.look("sim-1", "top").why

    until(says("gives no live images"), turn=lambda: camera.serve(1, lambda: no_live_images))

    def broken() -> RenderImages:
        raise RobotProblem("The arm is away.")

    until(says("The arm is away."), turn=lambda: camera.serve(1, broken))


@pytest.mark.parametrize("name", ["sim-1", "sim-2"])
def test_a_station_can_send_only_its_own_cameras(tmp_path: Path, name: str) -> None:
    keys = tmp_path / "keys"
    key_file = enroll(keys, "sim-1")
    fleet = ZmqFleet(EncryptedBind(address="tcp://127.0.0.1:*", keys=keys), tmp_path, tmp_path / "incoming")
    gateway = fleet._server.gateway
    assert gateway is not None
    own = station_keys(key_file, server_keys(keys).public.decode())
    camera, arm = PreviewCamera(name, fleet.address, own), Arm()

    def turn() -> None:
        camera.serve(gateway.preview_port, arm.capture_live)
        fleet.previews.look(name, "top")

    try:
        until(lambda: arm.glances > 2, turn=turn)
        if name == "sim-1":
            until(lambda: fleet.previews.look(name, "top").jpeg, "its image", turn=turn)
        assert name == "sim-1" or not fleet.previews.look(name, "top").jpeg
        os.kill(gateway.pid, signal.SIGKILL)
        seen = arm.glances
        until(lambda: arm.glances > seen + 2, turn=turn)
    finally:
        camera.close()
        fleet.close()
