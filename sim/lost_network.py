"""A network between stations and the orchestrator that can be lost: a relay of TCP connections with a switch."""

from __future__ import annotations

import contextlib
import socket
import threading


class Relay:
    """Stations connect to `address`; what is said goes on to `upstream` while the network is there.

    Args:
        upstream: tcp://HOST:PORT of the orchestrator.
    """

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.removeprefix("tcp://").rpartition(":")
        self._upstream = (host, int(port))
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._door.getsockname()[1]}"
        self._there = threading.Event()
        self._there.set()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def lose(self) -> None:
        """The network is gone: connections break, and new ones are closed at once."""
        self._there.clear()
        self._break()

    def find(self) -> None:
        """The network is back."""
        self._there.set()

    def close(self) -> None:
        """End the relay. Allowed twice."""
        self.lose()
        self._door.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            if not self._there.is_set():
                near.close()
                continue
            try:
                far = socket.create_connection(self._upstream, timeout=5.0)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), name="relay pump", daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass  # The other side broke, or the network was lost: both ends are closed below.
        finally:
            _end(source)
            _end(sink)

    def _break(self) -> None:
        with self._lock:
            ended, self._open = self._open, []
        for one in ended:
            _end(one)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):  # It may not be connected any more.
        one.shutdown(socket.SHUT_RDWR)
    one.close()
