"""The door of a guard: its socket, who is connected, whole messages in and answers out. It knows nothing of robots."""

from __future__ import annotations

import os
import resource
import selectors
import shutil
import socket
import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from enpire.errors import TransportProblem, UsageError
from enpire.fields import Fields
from enpire.wire.rpc import Message, decode, encode, error_out
from robot_drivers.streams import FrameStream

SPARE = 8
"""Descriptors that no peer gets: the latch file needs one at a time, the driver some."""
LONGEST_PATH = 100
"""Bytes that the system allows for the path of a socket, with room."""
AT_ONCE = 16
"""Messages that one peer is heard before the others have their turn: a flood delays nobody by more."""
NOBODY = 0
"""No peer has this number."""


class GuardConnections:
    """Peers have numbers that are never used again: an answer that comes late reaches nobody else.

    Args:
        folder: where the socket lies, if its path is short enough.
        group: whose members may connect; empty: only who runs this process.
        dropped: malformed messages are counted here.
    """

    def __init__(self, folder: Path, group: str, dropped: Counter[str]) -> None:
        self._listener = _listen(folder, group)
        self.address = str(self._listener.getsockname())
        self._dropped = dropped
        self._wake_in, self.wake = socket.socketpair()
        """`wake`: a byte that is written here ends `wait`."""
        self._wake_in.setblocking(False)
        self.wake.setblocking(False)
        self._peers: dict[int, FrameStream] = {}
        self._gone: deque[int] = deque()
        self._unheard: set[int] = set()
        self._numbers = count(NOBODY + 1)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)

    def wait(self, timeout_s: float) -> Iterator[tuple[int, Fields | None]]:
        """Wait for the first word, then give everything that peers say: their number and message, None for a farewell.

        Nothing that a peer sends raises here: one that speaks nonsense is told so and cut off.
        """
        speaking, self._unheard = self._unheard, set()
        for key, _ in self._selector.select(0.0 if self._gone or speaking else timeout_s):
            if key.fileobj is self._listener:
                self._welcome()
            elif key.fileobj is self._wake_in:
                self._wake_in.recv(4096)
            else:
                speaking.add(key.data)
        for number in speaking:
            yield from self._said(number)
        while self._gone:
            yield self._gone.popleft(), None

    def answer(self, number: int, message: Message) -> None:
        """Say something to a peer; one that has left hears nothing, one that does not read is cut off."""
        peer = self._peers.get(number)
        if peer is None:
            return
        try:
            peer.send(encode(message))
        except TransportProblem:
            self.cut(number)
        else:
            self._write_on(peer)

    def refuse(self, number: int, problem: TransportProblem) -> None:
        """Cut off a peer that speaks nonsense."""
        self._dropped["malformed"] += 1
        self.answer(number, error_out(problem))
        self.cut(number)

    def cut(self, number: int) -> None:
        """Close a peer's connection; `wait` tells its farewell."""
        peer = self._peers.pop(number, None)
        if peer is None:
            return
        self._selector.unregister(peer.socket)
        peer.socket.close()
        self._gone.append(number)

    def close(self) -> None:
        """No longer be reachable."""
        self._listener.close()
        Path(self.address).unlink(missing_ok=True)

    def _welcome(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # it knocks until there is a descriptor for it
        if connection.fileno() >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE:
            connection.close()
            return
        number = next(self._numbers)
        self._peers[number] = FrameStream(connection)
        self._selector.register(connection, selectors.EVENT_READ, number)

    def _said(self, number: int) -> Iterator[tuple[int, Fields]]:
        peer = self._peers.get(number)
        if peer is None:
            return
        alive = peer.heard or peer.receive()
        try:
            for _ in range(AT_ONCE):
                frame = peer.frame()
                if frame is None:
                    break
                yield number, decode(frame)
                if number not in self._peers:
                    return
        except TransportProblem as problem:
            self.refuse(number, problem)
            return
        if peer.heard:
            self._unheard.add(number)
        self._go_on(number, peer, alive=alive)

    def _go_on(self, number: int, peer: FrameStream, *, alive: bool) -> None:
        try:
            peer.flush()
        except TransportProblem:
            alive = False
        if alive:
            self._write_on(peer)
        else:
            self.cut(number)

    def _write_on(self, peer: FrameStream) -> None:
        """Wake up again for a peer that has not taken its whole answer yet."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.unsent else 0)
        key = self._selector.get_key(peer.socket)
        if key.events != wanted:
            self._selector.modify(peer.socket, wanted, key.data)


def _listen(folder: Path, group: str) -> socket.socket:
    path = folder / "guard.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        path = Path(tempfile.mkdtemp(prefix="enpire-")) / "guard.sock"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    if group:
        try:
            shutil.chown(path, group=group)
        except (LookupError, OSError) as problem:
            raise UsageError(
                f"The guard cannot let in the group {group}: {problem}. Name one of its user's."
            ) from problem
        path.chmod(0o660)
    listener.listen(128)
    listener.setblocking(False)
    return listener
