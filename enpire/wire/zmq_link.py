"""The station's socket."""

from __future__ import annotations

import os
from collections.abc import Sequence

import zmq

from enpire.errors import TransportProblem
from enpire.wire.curve_keys import StationKeys, encrypt
from enpire.wire.host_services import THIS_HOST, HostServices
from enpire.wire.messages import Envelope, Message, decode, encode
from enpire.wire.private_socket import check_plain, is_private
from enpire.wire.socket_limits import LINGER_MS, limit_costs

_AT_ONCE = 512
"""Most messages that one `receive` takes."""


class StationLink:
    """The station's DEALER socket. It never blocks, and never queues messages while the orchestrator is away."""

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
        """Send a message; False if the orchestrator is away or its queue is full."""
        return self.post(encode(message, lease, number))

    def post(self, data: bytes) -> bool:
        """Send an encoded message, as `send` does."""
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self, timeout_s: float) -> Sequence[Envelope]:
        """Messages from the orchestrator, waiting at most `timeout_s` for the first. Drops unreadable messages."""
        received: list[Envelope] = []
        if not self._socket.poll(max(0, int(timeout_s * 1000))):
            return received
        while len(received) < _AT_ONCE:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
                received.append(decode(frames[-1]))
            except zmq.Again:
                break
            except TransportProblem:
                # The station sees the gap in the sequence numbers and says hello again.
                continue
        return received

    def restart(self) -> None:
        """Drop the connection with all its queued messages, and connect again."""
        self._socket.close(linger=0)
        self._socket = self._open()

    def close(self) -> None:
        """Close after waiting at most 0.5 s for the last messages to be sent. Allowed twice."""
        self._context.destroy(linger=LINGER_MS)

    def _open(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        limit_costs(socket, heartbeats=not is_private(self.address))
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
                f"{self.address!r} is not an address to connect to ({problem}); write tcp://HOST:PORT or ipc:///FOLDER/NAME."
            ) from problem
        return socket
