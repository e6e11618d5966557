"""Live images: nothing is rendered without a request, the newest image is shown, and a missing one has a reason."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import zmq

from enpire.errors import RobotProblem
from enpire.fleet.zmq_transport import ZmqFleet
from enpire.station.preview_camera import PreviewCamera
from enpire.types import ImageArray
from enpire.wire import previews
from enpire.wire.curve_keys import EncryptedBind, enroll, server_keys, station_keys
from enpire.wire.live_images import Preview, RenderImages, no_live_images
from enpire.wire.previews import PreviewReceiver
from enpire.wire.private_socket import PREVIEWS, private_address
from tests.fakes.waiting import never, until

PATIENT_S = 20.0


@dataclass(slots=True)
class Arm:
    """Counts its captures, and notes the threads in which the images are rendered."""

    glances: int = 0
    developed_in: set[str] = field(default_factory=set[str])

    def capture_live(self) -> RenderImages:
        self.glances += 1
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
    arm = Arm()

    def turn() -> None:
        camera.serve(1, arm.capture_live)

    never(lambda: arm.glances, 1.0, lambda: receiver.look("sim-1", "top"), turn)
    until(lambda: receiver.look("sim-1", "top").jpeg, turn=turn)
    first = receiver.look("sim-1", "top").jpeg
    assert first[:2] == b"\xff\xd8"
    until(lambda: receiver.look("sim-1", "top").jpeg != first, turn=turn)
    assert arm.developed_in == {"preview"}
    assert receiver.look("sim-2", "top") == Preview()
    lapsed_s = time.monotonic() + 1.5
    until(lambda: time.monotonic() > lapsed_s, turn=turn)
    seen = arm.glances

    def look_again() -> None:
        assert receiver.look("sim-1", "top") == Preview()

    never(lambda: arm.glances > seen, 1.2, look_again, turn)


def test_a_robot_without_live_images_sends_the_reason(receiver: PreviewReceiver, camera: PreviewCamera) -> None:
    until(lambda: receiver.look("sim-1", "top").why, turn=lambda: camera.serve(1, lambda: no_live_images))
    assert "gives no live images" in receiver.look("sim-1", "top").why

    def broken() -> RenderImages:
        raise RobotProblem("The arm is away.")

    until(lambda: receiver.look("sim-1", "top").why == "The arm is away.", turn=lambda: camera.serve(1, broken))


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
        assert bool(fleet.previews.look(name, "top").jpeg) == (name == "sim-1")
        os.kill(gateway.pid, signal.SIGKILL)
        seen = arm.glances
        until(lambda: arm.glances > seen + 2, turn=turn)
    finally:
        camera.close()
        fleet.close()
