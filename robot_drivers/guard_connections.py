"""The connections of a guard: its socket, its peers, messages in and answers out. It knows nothing of robots."""

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
from enpire.field_reader import Fields
from enpire.store import removal
from enpire.wire.rpc import Message, decode, encode, error_out
from robot_drivers.streams import FrameStream

SPARE = 8
"""File descriptors that are kept free: the latch file needs one at a time, the driver some."""
LONGEST_PATH = 100
"""Longest path of a socket [bytes]; the system allows a few more."""
AT_ONCE = 16
"""Messages that are read from one peer before the others have their turn, so that one peer cannot delay the rest."""
NO_PEER = 0
"""The number of no peer."""


class GuardConnections:
    """The peers of a guard. A peer's number is never used again, so a late answer reaches no other peer.

    Args:
        folder: folder of the socket, if its path is short enough.
        group: Unix group whose members may connect; empty: only the user of this process.
        dropped: counts malformed messages.
    """

    def __init__(self, folder: Path, group: str, dropped: Counter[str]) -> None:
        self._listener = _listen(folder, group)
        self.address = str(self._listener.getsockname())
        self._dropped = dropped
        self._wake_in, self.wake = socket.socketpair()
        """A byte written to `wake` ends `wait`."""
        self._wake_in.setblocking(False)
        self.wake.setblocking(False)
        self._peers: dict[int, FrameStream] = {}
        self._gone: deque[int] = deque()
        self._unread: set[int] = set()
        self._numbers = count(NO_PEER + 1)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)

    def wait(self, timeout_s: float) -> Iterator[tuple[int, Fields | None]]:
        """Wait for messages; yields the peer's number and its message, or None when the peer has left.

        No message of a peer raises here: a malformed one is answered with an error, and the peer is disconnected.
        """
        ready, self._unread = self._unread, set()
        for key, _ in self._selector.select(0.0 if self._gone or ready else timeout_s):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._wake_in:
                self._wake_in.recv(4096)
            else:
                ready.add(key.data)
        for number in ready:
            yield from self._messages_of(number)
        while self._gone:
            yield self._gone.popleft(), None

    def answer(self, number: int, message: Message) -> None:
        """Send a message to a peer, if it is still connected; one that does not read is disconnected."""
        peer = self._peers.get(number)
        if peer is None:
            return
        try:
            peer.send(encode(message))
        except TransportProblem:
            self.disconnect(number)
        else:
            self._await_reading(peer)

    def refuse(self, number: int, problem: TransportProblem) -> None:
        """Answer a malformed message and disconnect its peer."""
        self._dropped["malformed"] += 1
        self.answer(number, error_out(problem))
        self.disconnect(number)

    def disconnect(self, number: int) -> None:
        """Disconnect a peer; `wait` then yields None for it."""
        peer = self._peers.pop(number, None)
        if peer is None:
            return
        self._selector.unregister(peer.socket)
        peer.socket.close()
        self._gone.append(number)

    def close(self) -> None:
        """Close the socket and remove its file."""
        self._listener.close()
        removal.remove(Path(self.address), Path(self.address).parent)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # the system keeps it waiting until a descriptor is free
        if connection.fileno() >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE:
            connection.close()
            return
        number = next(self._numbers)
        self._peers[number] = FrameStream(connection)
        self._selector.register(connection, selectors.EVENT_READ, number)

    def _messages_of(self, number: int) -> Iterator[tuple[int, Fields]]:
        peer = self._peers.get(number)
        if peer is None:
            return
        alive = peer.has_frame or peer.receive()
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
        if peer.has_frame:
            self._unread.add(number)
        self._flush(number, peer, alive=alive)

    def _flush(self, number: int, peer: FrameStream, *, alive: bool) -> None:
        try:
            peer.flush()
        except TransportProblem:
            alive = False
        if alive:
            self._await_reading(peer)
        else:
            self.disconnect(number)

    def _await_reading(self, peer: FrameStream) -> None:
        """Wait until a peer has read the rest of its answer."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.unsent else 0)
        key = self._selector.get_key(peer.socket)
        if key.events != wanted:
            self._selector.modify(peer.socket, wanted, key.data)


def _listen(folder: Path, group: str) -> socket.socket:
    path = folder / "guard.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        path = Path(tempfile.mkdtemp(prefix="enpire-")) / "guard.sock"
    removal.remove(path, path.parent)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    if group:
        try:
            shutil.chown(path, group=group)
        except (LookupError, OSError) as problem:
            raise UsageError(
                f"The guard cannot admit the group {group}: {problem}. Name a group that its user belongs to."
            ) from problem
        path.chmod(0o660)
    listener.listen(128)
    listener.setblocking(False)
    return listener
