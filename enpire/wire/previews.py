"""Live images, on a socket and threads of their own: nothing here runs in a robot's control loop.

The orchestrator subscribes to `STATION/CAMERA` while a page shows that camera. The station (`preview_camera.py`)
publishes the subscribed cameras at most twice a second; without a subscription it renders, encodes and sends nothing. A
slow reader gets only the newest image; an image that cannot be sent at once is dropped.

A message is one frame: `STATION/CAMERA`, a zero byte, then `J` and a JPEG, or `W` and a sentence why there is no image.
"""

from __future__ import annotations

import threading
import time

import zmq

from enpire.wire.live_images import Preview
from enpire.wire.socket_limits import IMAGE_END, LARGEST_IMAGE, SocketLimits, limit_costs

SUBSCRIBED_S = 3.0
"""A camera stays subscribed for this long after the last request."""
TURN_S = 0.1
"""Longest wait for a message, at both ends."""


class PreviewReceiver:
    """The orchestrator's end. `look` may be called from any thread.

    Args:
        context: of the fleet's sockets.
        address: of a private socket. Images from other machines come through the gateway, which lets a station send
            only its own cameras.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self._wanted: dict[str, float] = {}
        self._newest: dict[str, Preview] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._socket = context.socket(zmq.SUB)
        limit_costs(self._socket, SocketLimits(largest=LARGEST_IMAGE, unread=256), heartbeats=False)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(address)
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
                self._socket.setsockopt(zmq.SUBSCRIBE, name.encode() + IMAGE_END)
            for name in subscribed - wanted:
                self._socket.setsockopt(zmq.UNSUBSCRIBE, name.encode() + IMAGE_END)
            subscribed = wanted
            while self._socket.poll(round(TURN_S * 1000)):
                self._take(self._socket.recv())
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

    def _take(self, message: bytes) -> None:
        topic, _, content = message.partition(IMAGE_END)
        name = topic.decode(errors="replace")
        why = content[1:301].decode(errors="replace")
        came_ns = time.time_ns()
        found = Preview(jpeg=content[1:], came_ns=came_ns) if content[:1] == b"J" else Preview(why=why, came_ns=came_ns)
        with self._lock:
            if name in self._wanted:
                self._newest[name] = found
