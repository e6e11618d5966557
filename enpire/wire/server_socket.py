"""The socket of a server: a private one for this user's own processes, and a gateway for all other peers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

import zmq

from enpire.errors import TransportProblem
from enpire.wire.curve_keys import EncryptedBind
from enpire.wire.gateway import Gateway
from enpire.wire.private_socket import PREVIEWS, check_plain, private_address, refuse_taken
from enpire.wire.socket_limits import LINGER_MS, SocketLimits, limit_costs

Peer = tuple[bytes, ...]
"""The route to a peer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FromPeer:
    """One message."""

    peer: Peer
    key: str | None
    """The station whose key the peer has; None for a process of this user at the private socket."""
    frames: list[zmq.Frame]
    refused: str = ""
    """Why the gateway refused a connection; then there is no peer and no frame."""


class ServerSocket:
    """Receives from peers and sends to them. Use it from one thread.

    Args:
        context: of the server's sockets.
        bind: the address of a private socket, or an address that other processes reach, with its keys.
        name: of the server in its home, such as `fleet`.
        limits: of each peer.
        previews: whether peers send live images, too.

    Raises:
        TransportProblem: the address is in use, or needs keys.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], bind: str | EncryptedBind, name: str, limits: SocketLimits,
        *, previews: bool = False,
    ) -> None:  # fmt: skip
        if isinstance(bind, EncryptedBind):
            port = urlsplit(bind.address).port if not bind.address.endswith("*") else 0
            self.private = private_address(bind.keys.parent, f"{name}-{port or os.getpid()}")
        else:
            check_plain(bind)
            self.private = bind
        refuse_taken(self.private)
        self.socket = context.socket(zmq.ROUTER)
        """To be polled."""
        limit_costs(self.socket, limits, heartbeats=False)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            self.socket.bind(self.private)
        except zmq.ZMQError as problem:
            self.socket.close(linger=0)
            raise TransportProblem(f"Cannot listen at {self.private}: {problem}; use another address.") from problem
        self.gateway: Gateway | None = None
        if isinstance(bind, EncryptedBind):
            try:
                self.gateway = Gateway(bind, self.private, limits, self.private + PREVIEWS if previews else "")
            except TransportProblem:
                self.socket.close(linger=0)
                raise
        self.address = self.gateway.address if self.gateway is not None else self.private
        """Where peers connect."""

    def receive(self) -> FromPeer | None:
        """The next message or refused connection; None if none waits."""
        try:
            parts = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        gateway = self.gateway
        if gateway is None or parts[0].bytes != gateway.identity:
            return FromPeer(peer=(parts[0].bytes,), key=None, frames=parts[1:])
        if not parts[1].bytes:
            return FromPeer(peer=(), key="", frames=[], refused=parts[-1].bytes.decode(errors="replace"))
        return FromPeer(peer=(gateway.identity, parts[1].bytes), key=parts[2].bytes.decode(), frames=parts[3:])

    def send(self, peer: Peer, data: bytes) -> bool:
        """Send one frame; False if the peer is gone or reads nothing.

        Raises:
            TransportProblem: the socket failed.
        """
        try:
            self.socket.send_multipart([*peer, data], zmq.NOBLOCK)
        except zmq.ZMQError as problem:
            if problem.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise TransportProblem(f"The socket at {self.address} failed: {problem}.") from problem
        return True

    def reports(self) -> list[str]:
        """One sentence for each time that the gateway ended since the last call."""
        waiting = self.gateway.reports if self.gateway is not None else ()
        return [waiting.popleft() for _ in range(len(waiting))] if waiting else []

    def close(self) -> None:
        """Close after the last messages were sent. Allowed twice."""
        self.socket.close(linger=LINGER_MS)
        if self.gateway is not None:
            self.gateway.close()
