"""The station's end of live images (see `wire/previews.py`): captured in the station's turn, rendered in a thread."""

from __future__ import annotations

import io
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import zmq

from enpire.errors import EnpireError, MissingExtra
from enpire.types import ImageArray
from enpire.wire.curve_keys import StationKeys, encrypt
from enpire.wire.live_images import RenderImages
from enpire.wire.previews import TURN_S
from enpire.wire.private_socket import PREVIEWS, is_private
from enpire.wire.socket_limits import IMAGE_END

PERIOD_S = 0.5
"""Time between two images of a station."""
QUALITY = 80


class PreviewCamera:
    """Call `serve` in every turn of the station's loop; without a subscription it costs one comparison.

    Args:
        station: its name.
        address: of the orchestrator; the port for images comes with its welcome.
        keys: None for a local address.
    """

    def __init__(self, station: str, address: str, keys: StationKeys | None) -> None:
        self._station, self._keys = station, keys
        self._address = address
        self._port = 0
        self._due, self._ended = threading.Event(), threading.Event()
        self._captured: queue.Queue[RenderImages] = queue.Queue(1)
        self._thread: threading.Thread | None = None

    def serve(self, port: int, capture_live: Callable[[], RenderImages]) -> None:
        """Connect to the orchestrator's port for images; capture when an image is due. Call it in the station's thread.

        Args:
            port: where the orchestrator takes images; 0 when it takes none.
            capture_live: captures; an EnpireError that it raises is sent as the reason why there is no image.
        """
        if port != self._port:
            self._port = port
            self._ended.set()
            self._ended = threading.Event()
            if port:
                self._thread = threading.Thread(target=self._publish, args=(port, self._ended), name="preview")
                self._thread.daemon = True
                self._thread.start()
        if self._due.is_set() and not self._captured.full():
            self._due.clear()
            self._captured.put_nowait(_capture(capture_live))

    def close(self) -> None:
        """End the thread and its socket. Allowed twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _publish(self, port: int, ended: threading.Event) -> None:
        context = zmq.Context()
        socket = context.socket(zmq.XPUB)
        socket.setsockopt(zmq.SNDHWM, 4)
        if self._keys is not None:
            encrypt(socket, self._keys)
        socket.connect(_image_address(self._address, port))
        wanted: set[str] = set()
        taken_s = 0.0
        try:
            while not ended.is_set():
                if socket.poll(round(TURN_S * 1000)):
                    _follow(wanted, socket.recv(), self._station)
                elif wanted and time.monotonic() - taken_s >= PERIOD_S:
                    taken_s = time.monotonic()
                    self._due.set()
                if wanted and not self._captured.empty():
                    for message in preview_messages(self._captured.get_nowait(), self._station, sorted(wanted)):
                        socket.send(message)  # never waits: a message that does not fit is dropped
        finally:
            context.destroy(linger=0)


def _image_address(address: str, port: int) -> str:
    """Where live images go: a socket next to the orchestrator's private one, or another port of its host."""
    return address + PREVIEWS if is_private(address) else f"{address.rpartition(':')[0]}:{port}"


def preview_messages(render: RenderImages, station: str, cameras: Sequence[str]) -> list[bytes]:
    """The messages of one capture: a JPEG for each camera, or why there is none."""
    try:
        images = render(cameras)
        return [_message(station, camera, b"J" + _jpeg(images[camera])) for camera in cameras if camera in images]
    except EnpireError as problem:
        return [_message(station, camera, b"W" + str(problem).encode()[:300]) for camera in cameras]


def _capture(capture_live: Callable[[], RenderImages]) -> RenderImages:
    """What `capture_live` returns; if it fails, a function that raises the same error when the images are made."""
    try:
        return capture_live()
    except EnpireError as problem:
        reason = problem

        def failed(cameras: Sequence[str]) -> Mapping[str, ImageArray]:
            raise reason

        return failed


def _message(station: str, camera: str, content: bytes) -> bytes:
    return f"{station}/{camera}".encode() + IMAGE_END + content


def _follow(wanted: set[str], event: bytes, station: str) -> None:
    """Note a subscription (1) or its end (0) as XPUB reports it; those of other stations are ignored."""
    name, _, camera = event[1:].removesuffix(IMAGE_END).decode(errors="replace").partition("/")
    if name == station and camera:
        (wanted.add if event[:1] == b"\1" else wanted.discard)(camera)


def _jpeg(image: ImageArray) -> bytes:
    try:
        from PIL import Image
    except ImportError as problem:
        raise MissingExtra("No live images: this station has no Pillow; pip install 'enpire[sim]'.") from problem
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
