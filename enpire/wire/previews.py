"""Live images, on a socket and threads of their own: nothing here runs in a robot's control loop.

The orchestrator subscribes to `STATION/CAMERA` while a page shows that camera. The station (`preview_camera.py`)
publishes the subscribed cameras at most twice a second; without a subscription it renders, encodes and sends nothing. A
slow reader gets only the newest image; an image that cannot be sent at once is dropped.

A message is one frame: `STATION/CAMERA`, a zero byte, then `J` and a JPEG, or `W` and a sentence why there is no image.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import zmq

from enpire.wire.live_images import Preview

SUBSCRIBED_S = 3.0
"""A camera stays subscribed for this long after the last request."""
LARGEST = 512 * 1024
"""Largest size of one message, in bytes."""
TURN_S = 0.1
"""Longest wait for a message, at both ends."""
END = b"\0"
"""Separates the name of a camera from its image."""


class PreviewReceiver:
    """The orchestrator's end. `look` may be called from any thread.

    Args:
        context: of the fleet's sockets.
        address: where the fleet listens; the images get a free port of the same host.
        encrypt: encrypts the socket before it is bound; a station may then send only its own cameras.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, encrypt: Callable[[zmq.Socket[bytes]], None] | None
    ) -> None:
        self._encrypted = encrypt is not None
        self._wanted: dict[str, float] = {}
        self._newest: dict[str, Preview] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._socket = context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, 256)
        self._socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        if encrypt is not None:
            encrypt(self._socket)
        host = address.rpartition(":")[0] if address.startswith("tcp:") else "tcp://127.0.0.1"
        self._socket.bind(f"{host}:*")
        self.port = urlsplit(self._socket.getsockopt_string(zmq.LAST_ENDPOINT)).port or 0
        self._thread = threading.Thread(target=self._serve, name="previews", daemon=True)
        self._thread.start()

    def look(self, station: str, camera: str) -> Preview:
        """The newest image of one camera; returns at once."""
        name = f"{station}/{camera}"
        with self._lock:
            self._wanted[name] = time.monotonic()
            return self._newest.get(name, Preview())

    def close(self) -> None:
        """End the thread and its socket. Allowed twice."""
        self._ended.set()
        self._thread.join()

    def _serve(self) -> None:
        subscribed: set[str] = set()
        while not self._ended.is_set():
            wanted = self._requested()
            for name in wanted - subscribed:
                self._socket.setsockopt(zmq.SUBSCRIBE, name.encode() + END)
            for name in subscribed - wanted:
                self._socket.setsockopt(zmq.UNSUBSCRIBE, name.encode() + END)
            subscribed = wanted
            while self._socket.poll(round(TURN_S * 1000)):
                self._take(self._socket.recv(copy=False))
                if self._requested() != subscribed:
                    break
        self._socket.close()

    def _requested(self) -> set[str]:
        latest_s = time.monotonic() - SUBSCRIBED_S
        with self._lock:
            for name in [name for name, asked_s in self._wanted.items() if asked_s < latest_s]:
                del self._wanted[name]
                self._newest.pop(name, None)
            return set(self._wanted)

    def _take(self, frame: zmq.Frame) -> None:
        topic, _, content = frame.bytes.partition(END)
        name = topic.decode(errors="replace")
        if self._encrypted and frame.get("User-Id") != name.partition("/")[0]:
            return
        why = content[1:301].decode(errors="replace")
        found = Preview(jpeg=content[1:]) if content[:1] == b"J" else Preview(why=why)
        with self._lock:
            if name in self._wanted:
                self._newest[name] = found
