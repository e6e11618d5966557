"""A wire that can be cut: bytes pass both ways over TCP until somebody cuts it, and again when it is mended."""

from __future__ import annotations

import selectors
import socket
import threading


class CutProxy:
    """Listens at `address`, passes everything on to `upstream` (host, port).

    `cut` closes every connection and refuses new ones; `stall` keeps the connections and lets nothing through, as a
    half-open link does.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._other: dict[socket.socket, socket.socket] = {}
        self._whole, self._ending = threading.Event(), threading.Event()
        self._stalled = threading.Event()
        self._whole.set()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def cut(self) -> None:
        self._whole.clear()

    def stall(self) -> None:
        self._stalled.set()

    def mend(self) -> None:
        self._stalled.clear()
        self._whole.set()

    def close(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(0.02 if self._stalled.is_set() else 0.0):
            if not self._whole.is_set():
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
        front, _ = self._listener.accept()
        if not self._whole.is_set():
            front.close()
            return
        try:
            back = socket.create_connection(self._upstream, timeout=1.0)
        except OSError:
            front.close()
            return
        for one, other in ((front, back), (back, front)):
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
            pass
        self._drop(source)

    def _drop(self, one: socket.socket) -> None:
        for side in (one, self._other.get(one)):
            if side is not None and self._other.pop(side, None) is not None:
                self._selector.unregister(side)
                side.close()

    def _drop_all(self) -> None:
        for one in list(self._other):
            self._drop(one)
