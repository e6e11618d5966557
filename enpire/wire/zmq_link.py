"""A station's end of the wire, and what both ends do so that no peer costs more than a little memory and time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

import zmq

from enpire.errors import TransportProblem
from enpire.wire.curve_keys import StationKeys, encrypt
from enpire.wire.host_services import THIS_HOST, HostServices
from enpire.wire.messages import LARGEST, Envelope, Message, decode, encode

LINGER_MS = 500
_AT_ONCE = 512
"""Messages that one `receive` takes at most."""


class StationLink:
    """A station's end: one DEALER socket that never blocks and never queues for an orchestrator that is away."""

    def __init__(
        self, address: str, name: str, keys: StationKeys | None = None, host: HostServices = THIS_HOST
    ) -> None:
        if keys is None:
            check_plain(address)
        self.address, self.name, self._keys = address, name, keys
        self._identity = f"{name}/".encode()[:200] + os.urandom(8)
        self._context = host.sockets()
        self._socket = self._open()

    def send(self, message: Message, lease: int = 0, number: int = 0) -> bool:
        """Say it if the orchestrator is there and takes it; False otherwise."""
        return self.post(encode(message, lease, number))

    def post(self, data: bytes) -> bool:
        """`send` of a message that is encoded already."""
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self, timeout_s: float) -> Sequence[Envelope]:
        """What the orchestrator said, waiting at most `timeout_s`; what cannot be understood is dropped."""
        heard: list[Envelope] = []
        if not self._socket.poll(max(0, int(timeout_s * 1000))):
            return heard
        while len(heard) < _AT_ONCE:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
                heard.append(decode(frames[-1]))
            except zmq.Again:
                break
            except TransportProblem:
                # The gap in the numbers that it leaves makes the station say hello again.
                continue
        return heard

    def restart(self) -> None:
        """Drop the connection with all that waits in it, and connect anew."""
        self._socket.close(linger=0)
        self._socket = self._open()

    def close(self) -> None:
        """Give the last words half a second to leave. Allowed twice."""
        self._context.destroy(linger=LINGER_MS)

    def _open(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        limit_costs(socket)
        socket.setsockopt(zmq.IDENTITY, self._identity)
        socket.setsockopt(zmq.IMMEDIATE, 1)
        if self._keys is not None:
            encrypt(socket, self._keys)
        socket.setsockopt(zmq.RECONNECT_IVL, 100)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        try:
            socket.connect(self.address)
        except zmq.ZMQError as problem:
            socket.close(linger=0)
            raise TransportProblem(
                f"{self.address!r} is not an address to connect to ({problem}); write tcp://HOST:PORT."
            ) from problem
        return socket


def stays_here(address: str) -> bool:
    """Whether what is said at an address stays on this machine: loopback and local sockets."""
    parts = urlsplit(address)
    return parts.scheme in ("ipc", "inproc") or (parts.hostname or "") in ("127.0.0.1", "localhost", "::1")


def check_plain(address: str) -> None:
    """TransportProblem unless an address may be used without encryption: loopback and local sockets only."""
    if not stays_here(address):
        raise TransportProblem(
            f"{address!r} leaves this machine, and that needs encryption: give keys, or use tcp://127.0.0.1:PORT."
        )


def listen(socket: zmq.Socket[bytes], address: str) -> str:
    """Bind a socket; the address that it has now, port included. TransportProblem when that cannot be."""
    try:
        socket.bind(address)
    except zmq.ZMQError as problem:
        raise TransportProblem(f"Cannot listen on {address}: {problem}. Use another port.") from problem
    return socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")


def limit_costs(socket: zmq.Socket[bytes], largest: int = LARGEST, unread: int = 1000) -> None:
    """What keeps a hostile or dead peer from costing more than a little memory and time.

    Args:
        socket: before it is bound or connected.
        largest: bytes of one message; who sends a longer one is cut off.
        unread: messages of one peer that may wait here.
    """
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, largest)
    socket.setsockopt(zmq.RCVHWM, unread)
    socket.setsockopt(zmq.SNDHWM, 1000)
    socket.setsockopt(zmq.HANDSHAKE_IVL, 5000)
    socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3000)
    socket.setsockopt(zmq.HEARTBEAT_TTL, 3000)
