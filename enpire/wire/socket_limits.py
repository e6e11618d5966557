"""Limits of sockets, so that a peer can cost only a little memory and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zmq

LARGEST = 16 * 2**20
"""Largest message in bytes; the arrays of an episode take most of it. A peer that sends more is disconnected."""
LARGEST_IMAGE = 512 * 1024
"""Largest message with a live image, in bytes."""
IMAGE_END = b"\0"
"""Separates the name of a camera from its live image."""
LINGER_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketLimits:
    """What one peer may cost."""

    largest: int = LARGEST
    """Most bytes of one message; a peer that sends more is disconnected."""
    unread: int = 1000
    """Most unread messages of one peer."""


def limit_costs(socket: zmq.Socket[bytes], limits: SocketLimits = SocketLimits(), *, heartbeats: bool = True) -> None:
    """Limit the memory and time that a hostile or dead peer can cost.

    Args:
        socket: before it is bound or connected.
        limits: of each peer.
        heartbeats: whether dead peers on other machines are noticed. A peer on this machine needs none: the kernel
            closes its connection. A PING that arrives after its sender closed its end can abort libzmq 4.3.5.
    """
    import zmq

    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, limits.largest)
    socket.setsockopt(zmq.RCVHWM, limits.unread)
    socket.setsockopt(zmq.SNDHWM, 1000)
    socket.setsockopt(zmq.HANDSHAKE_IVL, 5000)
    if heartbeats:
        socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3000)
        socket.setsockopt(zmq.HEARTBEAT_TTL, 3000)
