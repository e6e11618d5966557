"""A network between stations and orchestrator that can be lost: a relay of connections with a switch.

`enpire run CAMPAIGN --on lossy` starts the campaign's own stations behind one.
"""

from __future__ import annotations

import random
import selectors
import socket
import threading
import time
from collections.abc import Callable

from enpire.store import removal
from enpire.wire.private_socket import PREVIEWS, socket_path

LOST_EVERY_S = 60.0
"""Mean time for which the network is there [s]."""
LOST_S = (1.0, 8.0, 35.0)
"""Times for which it is lost [s]: shorter than a station may be silent (5 s), longer than that, and longer than orders
wait for their station (30 s)."""


class Relay:
    """Stations connect to `address`; the relay passes their bytes on to `upstream` while the network is there.

    Args:
        upstream: address of the orchestrator, tcp://HOST:PORT or ipc:///FOLDER/NAME.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._listener, self.address = _listen_before(upstream)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._other: dict[socket.socket, socket.socket] = {}
        self._lost, self._stalled, self._ending = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def lose(self) -> None:
        """Lose the network: connections break, and new ones are closed at once."""
        self._lost.set()

    def stall(self) -> None:
        """Pass on no byte; connections stay open."""
        self._stalled.set()

    def restore(self) -> None:
        """End a loss or a stall."""
        self._stalled.clear()
        self._lost.clear()

    def close(self) -> None:
        """End the relay. Allowed twice."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(0.02 if self._stalled.is_set() else 0.0):
            if self._lost.is_set():
                self._drop_all()
            if not self._stalled.is_set():
                for key, _ in self._selector.select(0.02):
                    self._ready(key.fileobj)  # pyright: ignore[reportArgumentType]
        self._drop_all()
        self._listener.close()
        self._selector.close()

    def _ready(self, ready: socket.socket) -> None:
        if ready is self._listener:
            self._accept()
        elif ready in self._other:
            self._pass_on(ready)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        if self._lost.is_set():
            near.close()
            return
        try:
            far = _connect(self._upstream)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            one.settimeout(1.0)
            self._other[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, source: socket.socket) -> None:
        try:
            data = source.recv(65536)
            if data:
                self._other[source].sendall(data)
                return
        except OSError:
            pass  # one side broke: close both
        self._drop(source)

    def _drop(self, one: socket.socket) -> None:
        for side in (one, self._other.get(one)):
            if side is not None and self._other.pop(side, None) is not None:
                self._selector.unregister(side)
                side.close()

    def _drop_all(self) -> None:
        for one in list(self._other):
            self._drop(one)


def _listen_before(upstream: str) -> tuple[socket.socket, str]:
    """(listening socket, address) of a relay: another Unix socket in the same private folder, or a TCP port."""
    path = socket_path(upstream)
    if path is None:
        listener = socket.create_server(("127.0.0.1", 0))
        return listener, f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    near = path.with_name(path.name + "-relay")
    images = near.with_name(near.name + PREVIEWS)
    for earlier in (near, images):
        removal.remove(earlier, earlier.parent)
    images.symlink_to(path.name + PREVIEWS)  # live images are not lost
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(near))
    listener.listen()
    return listener, f"ipc://{near}"


def _connect(upstream: str) -> socket.socket:
    path = socket_path(upstream)
    if path is None:
        host, _, port = upstream.removeprefix("tcp://").rpartition(":")
        return socket.create_connection((host, int(port)), timeout=1.0)
    far = socket.socket(socket.AF_UNIX)
    try:
        far.settimeout(1.0)
        far.connect(str(path))
    except OSError:
        far.close()
        raise
    return far


class LossyNetwork:
    """A relay that loses and restores the network from time to time: the plug-in `lossy` of the group `networks`.

    Args:
        upstream: address of the orchestrator, tcp://HOST:PORT or ipc:///FOLDER/NAME.
        say: gets one sentence each time the network is lost.
        every_s: mean time for which the network is there [s].
    """

    def __init__(self, upstream: str, say: Callable[[str], None], every_s: float = LOST_EVERY_S) -> None:
        self._relay, self._say, self._every_s = Relay(upstream), say, every_s
        self.address = self._relay.address
        """Where the stations connect."""
        self._random = random.Random(0)
        self._there, self._change_s = True, time.monotonic() + every_s
        self.lost = 0
        """How often the network was lost."""

    def supervise(self) -> None:
        """Lose or restore the network if it is time; call it several times a second."""
        if (now := time.monotonic()) < self._change_s:
            return
        if self._there:
            self._relay.lose()
            self.lost += 1
            gone_s = self._random.choice(LOST_S)
            self._change_s = now + gone_s
            self._say(f"The network is lost for {gone_s:g} s.")
        else:
            self._relay.restore()
            self._change_s = now + self._every_s * self._random.uniform(0.5, 1.5)
        self._there = not self._there

    def close(self) -> None:
        """End the relay. Allowed twice."""
        self._relay.close()
