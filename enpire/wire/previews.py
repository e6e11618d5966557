"""Live pictures for whoever looks, on a socket and in threads of their own: nothing here is on a robot's control path.

The orchestrator's end subscribes to `STATION/CAMERA` while somebody looks, and the station (`preview_camera.py`)
publishes what is subscribed to, at most twice a second: where nobody looks, nothing is rendered, encoded or sent. A
reader that is slow gets the newest picture, not every one; a picture that cannot be sent at once is dropped.

A message is one frame: `STATION/CAMERA`, a zero byte, then `J` and a JPEG, or `W` and a sentence why there is none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import zmq

from enpire.wire.live_images import Preview

LOOKED_S = 3.0
"""Who asked for a picture is taken to look for so long."""
LARGEST = 512 * 1024
"""Bytes of one message."""
TURN_S = 0.1
"""How long both ends sleep while nothing comes."""
END = b"\0"
"""Between the name of a camera and its picture."""


class PreviewReceiver:
    """The orchestrator's end. `look` may be called from any thread.

    Args:
        context: of the fleet's sockets.
        address: where the fleet listens; this is a free port beside it.
        guard: encrypts the socket before it is bound; with it a station may only show its own cameras.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, guard: Callable[[zmq.Socket[bytes]], None] | None
    ) -> None:
        self._guarded = guard is not None
        self._wanted: dict[str, float] = {}
        self._newest: dict[str, Preview] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._socket = context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, 256)
        self._socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        if guard is not None:
            guard(self._socket)
        beside = address.rpartition(":")[0] if address.startswith("tcp:") else "tcp://127.0.0.1"
        self._socket.bind(f"{beside}:*")
        self.port = urlsplit(self._socket.getsockopt_string(zmq.LAST_ENDPOINT)).port or 0
        self._thread = threading.Thread(target=self._serve, name="previews", daemon=True)
        self._thread.start()

    def look(self, station: str, camera: str) -> Preview:
        """The newest picture of one camera, at once."""
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
            wanted = self._looked_at()
            for name in wanted - subscribed:
                self._socket.setsockopt(zmq.SUBSCRIBE, name.encode() + END)
            for name in subscribed - wanted:
                self._socket.setsockopt(zmq.UNSUBSCRIBE, name.encode() + END)
            subscribed = wanted
            while self._socket.poll(round(TURN_S * 1000)):
                self._take(self._socket.recv(copy=False))
                if self._looked_at() != subscribed:
                    break
        self._socket.close()

    def _looked_at(self) -> set[str]:
        latest_s = time.monotonic() - LOOKED_S
        with self._lock:
            for name in [name for name, asked_s in self._wanted.items() if asked_s < latest_s]:
                del self._wanted[name]
                self._newest.pop(name, None)
            return set(self._wanted)

    def _take(self, frame: zmq.Frame) -> None:
        name, _, content = frame.bytes.partition(END)
        known = name.decode(errors="replace")
        if self._guarded and frame.get("User-Id") != known.partition("/")[0]:
            return
        said = content[1:301].decode(errors="replace")
        found = Preview(jpeg=content[1:]) if content[:1] == b"J" else Preview(why=said)
        with self._lock:
            if known in self._wanted:
                self._newest[known] = found
