"""Connections of an agent's room to the servers that its agent names, and to no other address.

A room has no network. Inside, a port on 127.0.0.1 hands each connection out of the room (`enter`); outside, this relay
answers it as an HTTP proxy (CONNECT, or a request with a whole address) and connects to the named servers only. A
second port leads to the model gateway's Unix socket.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from urllib.parse import urlsplit

LARGEST_HEAD = 16 * 1024
"""Most bytes before the empty line of a request."""
MOST = 16
"""Connections at one time."""
PATIENCE_S = 30.0
"""Longest time for a request's head and for a connection to a server, in seconds."""
AGAIN_S = 0.2
"""Seconds between two tries to connect to the model gateway."""
BLOCK = 64 * 1024
PROXY, MODELS = b"c", b"m"
"""What a connection out of a room leads to."""
Server = tuple[str, int]
"""Host name and port."""


def server_of(url: str) -> Server:
    """The server of a URL.

    Raises:
        ValueError: the URL names none.
    """
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in ("http", "https"):
        raise ValueError(f"{url!r} is not the address of a server; give one such as https://api.example.com.")
    return parts.hostname.lower(), parts.port or (443 if parts.scheme == "https" else 80)


class Relay:
    """A proxy for the connections that a room opens; threads serve them until the room ends."""

    def __init__(self, control: socket.socket, allowed: Collection[Server], models: Path | None = None) -> None:
        """`control` receives one connection with each message (`enter`); `models` is the model gateway's socket."""
        self._control, self._allowed, self._models = control, frozenset(allowed), models
        self._free = threading.BoundedSemaphore(MOST)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with self._control:
            while True:
                self._free.acquire()
                try:
                    message, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
                    connection = socket.socket(fileno=descriptors[0]) if descriptors else None
                except OSError:  # the room ended, or sent a file that is not a socket
                    return
                if not message or connection is None:
                    return
                serve = self._serve_models if message == MODELS else self._serve_proxy
                threading.Thread(target=self._serve, args=(connection, serve), daemon=True).start()

    def _serve(self, connection: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        with connection, contextlib.suppress(OSError, ValueError):
            try:
                connection.settimeout(PATIENCE_S)
                serve(connection)
            finally:
                self._free.release()

    def _serve_proxy(self, connection: socket.socket) -> None:
        head, rest = _head(connection)
        self._forward(connection, head, rest)

    def _serve_models(self, connection: socket.socket) -> None:
        """Connect to the model gateway, which may be starting again."""
        deadline = time.monotonic() + PATIENCE_S
        while self._models is not None:
            with socket.socket(socket.AF_UNIX) as gateway:
                try:
                    gateway.connect(str(self._models))
                except OSError:
                    if time.monotonic() > deadline:
                        return
                    time.sleep(AGAIN_S)
                else:
                    join(connection, gateway)
                    return

    def _forward(self, connection: socket.socket, head: bytes, rest: bytes) -> None:
        line, _, fields = head.partition(b"\r\n")
        method, target, version = line.decode("ascii").split(" ")
        server = server_of(f"https://{target}" if method == "CONNECT" else target)
        if server not in self._allowed:
            named = ", ".join(f"{host}:{port}" for host, port in sorted(self._allowed))
            connection.sendall(_refusal(f"This room reaches {named or 'no server'} only, not {server[0]}:{server[1]}."))
            return
        with socket.create_connection(server, PATIENCE_S) as remote:
            if method == "CONNECT":
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                parts = urlsplit(target)
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                first = f"{method} {path} {version}\r\nConnection: close\r\n".encode("ascii")
                kept = [
                    item for item in fields.split(b"\r\n") if not item.lower().startswith((b"connection:", b"proxy-"))
                ]
                rest = first + b"\r\n".join(kept) + b"\r\n\r\n" + rest
            remote.sendall(rest)
            join(connection, remote)


def enter(control: socket.socket, kind: bytes = PROXY) -> int:
    """Inside a room: a port on 127.0.0.1 whose connections lead to the relay; returns the port.

    `kind`: PROXY to the named servers, or MODELS to the model gateway.
    """
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            connection, _ = listening.accept()
            here, there = socket.socketpair()
            socket.send_fds(control, [kind], [there.fileno()])
            there.close()
            threading.Thread(target=_cross, args=(connection, here), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return int(listening.getsockname()[1])


def join(one: socket.socket, other: socket.socket) -> None:
    """Copy bytes both ways until both ends are closed."""
    one.settimeout(None)
    other.settimeout(None)
    back = threading.Thread(target=_copy, args=(other, one), daemon=True)
    back.start()
    _copy(one, other)
    back.join()


def _cross(connection: socket.socket, relay: socket.socket) -> None:
    with connection, relay:
        join(connection, relay)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := source.recv(BLOCK):
            target.sendall(block)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_WR if end is target else socket.SHUT_RD)


def _head(connection: socket.socket) -> tuple[bytes, bytes]:
    """(request line and header fields, what came after them)."""
    data = b""
    while b"\r\n\r\n" not in data:
        block = connection.recv(BLOCK)
        data += block
        if not block or len(data) > LARGEST_HEAD + BLOCK:
            raise ValueError("the request has no end")
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _refusal(sentence: str) -> bytes:
    body = sentence.encode()
    return b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
