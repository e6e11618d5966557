"""The gateway's process: `python -m enpire.wire.gateway_process`, started by `enpire.wire.gateway`.

It reads its settings from its input, and ends when that closes, so it ends with the process that started it.

Frames to the server: the peer's id, the name of the station whose key the peer has, then the peer's own frames. An
empty peer id comes with the reason of a refused connection. Frames from the server: the peer's id, then the reply.
"""

from __future__ import annotations

import json
import resource
import sys
from contextlib import suppress
from pathlib import Path

import zmq

from enpire.wire.curve_keys import KeyAuthenticator
from enpire.wire.gateway import GatewaySettings
from enpire.wire.socket_limits import IMAGE_END, LARGEST_IMAGE, LINGER_MS, SocketLimits, limit_costs

_AT_ONCE = 64
"""Most messages that are passed on in one direction before the other directions are looked at."""
_QUEUED = 32
"""Most messages that wait between gateway and server; the others wait in the queues of their own peers."""
_LAST_MS = 100
"""How long the gateway waits for the next of the server's last messages, in milliseconds."""
_MOST_BYTES = 4 * 2**30
"""Memory of this process: what peers may make it hold at most before it is started again."""
_OOM_SCORE = 400
"""When memory runs out, Linux ends this process before the processes that move robots."""


class Passing:
    """The sockets of a gateway, and what is passed between them."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator = KeyAuthenticator(self._context, Path(settings.keys))
        self._server = self._context.socket(zmq.DEALER)
        self._server.setsockopt(zmq.IDENTITY, settings.identity.encode())
        self._server.set_hwm(_QUEUED)
        self._server.connect(settings.server)
        self._peers = self._context.socket(zmq.ROUTER)
        limit_costs(self._peers, SocketLimits(largest=settings.largest, unread=settings.unread))
        self._peers.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._peers.setsockopt(zmq.ROUTER_HANDOVER, settings.handover)
        self._open(self._peers, settings.listener)
        self._previews = self._cameras = None
        if settings.previews:
            self._previews = self._context.socket(zmq.XPUB)
            self._previews.set_hwm(_QUEUED)
            self._previews.connect(settings.previews)
            self._cameras = self._context.socket(zmq.XSUB)
            limit_costs(self._cameras, SocketLimits(largest=LARGEST_IMAGE, unread=256))
            self._open(self._cameras, settings.preview_listener)

    def run(self, ended: int) -> None:
        """Pass messages on until the descriptor `ended` becomes readable; then send the last replies."""
        poller = zmq.Poller()
        poller.register(ended, zmq.POLLIN)
        for each in (self._authenticator.socket, self._previews, self._cameras):
            if each is not None:
                poller.register(each, zmq.POLLIN)
        while True:
            full = not self._has_room()
            poller.register(self._peers, 0 if full else zmq.POLLIN)
            poller.register(self._server, zmq.POLLIN | (zmq.POLLOUT if full else 0))
            ready = dict(poller.poll())
            if self._authenticator.socket in ready and (why := self._authenticator.decide()):
                with suppress(zmq.Again):
                    self._server.send_multipart([b"", b"", why.encode()], zmq.NOBLOCK)
            self._to_peers()
            if ended in ready:
                break
            self._to_server()
            if self._previews is not None and self._cameras is not None:
                _pass_images(self._cameras, self._previews)
        while self._server.poll(_LAST_MS):
            self._to_peers()
        self._context.destroy(linger=LINGER_MS)

    def _open(self, outside: zmq.Socket[bytes], listener: int) -> None:
        self._authenticator.encrypt(outside)
        outside.setsockopt(zmq.USE_FD, listener)
        outside.bind("tcp://127.0.0.1:*")  # the descriptor listens already; ZeroMQ ignores the address

    def _has_room(self) -> bool:
        return bool(self._server.poll(0, zmq.POLLOUT))

    def _to_server(self) -> None:
        for _ in range(_AT_ONCE):
            if not self._has_room():
                return
            try:
                parts = self._peers.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            name = str(parts[-1].get("User-Id")).encode()
            self._server.send_multipart([parts[0], name, *parts[1:]], zmq.NOBLOCK, copy=False)

    def _to_peers(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                parts = self._server.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            with suppress(zmq.ZMQError):  # the peer is gone or reads nothing: it notices the gap
                self._peers.send_multipart(parts, zmq.NOBLOCK, copy=False)


def _pass_images(cameras: zmq.Socket[bytes], previews: zmq.Socket[bytes]) -> None:
    """Pass subscriptions to the stations, and images of a station's own cameras to the server."""
    for _ in range(_AT_ONCE):
        try:
            cameras.send(previews.recv(zmq.NOBLOCK), zmq.NOBLOCK)
        except zmq.Again:
            break
    for _ in range(_AT_ONCE):
        try:
            frame = cameras.recv(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            break
        station = frame.bytes.partition(IMAGE_END)[0].decode(errors="replace").partition("/")[0]
        if frame.get("User-Id") == station:
            with suppress(zmq.Again):
                previews.send(frame, zmq.NOBLOCK, copy=False)


def main() -> int:
    """Entry point of the process."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    with open(0, "rb", buffering=0, closefd=False) as given:  # unbuffered: the end of the input must stay visible
        settings = GatewaySettings(**json.loads(given.readline()))
    Passing(settings).run(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
