"""Messages over the stream socket of a guard: four bytes of length, then the message."""

from __future__ import annotations

import socket
import struct
import time
from collections import deque

from enpire.errors import RobotProblem, TransportProblem
from enpire.wire.rpc import LARGEST

_HEAD = struct.Struct("!I")
REQUEST_MAX = 2**15
"""Largest request to a guard [bytes], so that it is read within milliseconds; only answers contain images."""
UNREAD_MAX = 2 * LARGEST
"""Bytes that may wait for a peer that does not read; with more, it is disconnected."""
UNREAD_FRAMES = 1000
"""The same in messages."""


class GuardGone(RobotProblem):
    """The guard did not answer, or its connection broke; it is unknown whether it got the request."""


class FrameStream:
    """A non-blocking connection of a server: reads and writes whole messages (frames)."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self._in = bytearray()
        self._out: deque[bytes] = deque()
        self._waiting = 0

    @property
    def unsent(self) -> bool:
        """Whether bytes wait to be read by the peer."""
        return bool(self._out)

    @property
    def has_frame(self) -> bool:
        """Whether a whole frame has arrived, or the head of one that is too long."""
        if len(self._in) < _HEAD.size:
            return False
        (length,) = _HEAD.unpack_from(self._in)
        return length > REQUEST_MAX or len(self._in) >= _HEAD.size + length

    def receive(self) -> bool:
        """Read the bytes that have arrived; False when the peer is gone."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._in += data
        return bool(data)

    def frame(self) -> bytes | None:
        """The next whole frame, or None; TransportProblem when it is too long."""
        if len(self._in) < _HEAD.size:
            return None
        (length,) = _HEAD.unpack_from(self._in)
        if length > REQUEST_MAX:
            raise TransportProblem(f"A frame of {length} bytes was announced; at most {REQUEST_MAX} are allowed.")
        end = _HEAD.size + length
        if len(self._in) < end:
            return None
        frame = bytes(self._in[_HEAD.size : end])
        del self._in[:end]
        return frame

    def send(self, frame: bytes) -> None:
        """Queue a frame and write what the peer accepts; TransportProblem when too much is unread."""
        if self._waiting > UNREAD_MAX or len(self._out) > UNREAD_FRAMES:
            raise TransportProblem("A peer does not read its answers; it was disconnected.")
        self._out.append(_HEAD.pack(len(frame)) + frame)
        self._waiting += len(self._out[-1])
        self.flush()

    def flush(self) -> None:
        """Write what the peer accepts now; TransportProblem when it is gone."""
        while self._out:
            try:
                written = self.socket.send(self._out[0])
            except BlockingIOError:
                return
            except OSError as problem:
                raise TransportProblem(f"A peer is gone: {problem}.") from problem
            self._waiting -= written
            rest = self._out.popleft()[written:]
            if rest:
                self._out.appendleft(rest)


def exchange(connection: socket.socket, frame: bytes, timeout_s: float) -> bytes:
    """Send a request over a blocking socket and wait for the answer; GuardGone when none comes."""
    until_s = time.monotonic() + timeout_s
    try:
        connection.settimeout(timeout_s)
        connection.sendall(_HEAD.pack(len(frame)) + frame)
        (length,) = _HEAD.unpack(_exactly(connection, _HEAD.size, until_s))
        if length > LARGEST:
            raise TransportProblem(f"The guard announced {length} bytes; at most {LARGEST} are allowed.")
        return _exactly(connection, length, until_s)
    except TimeoutError as problem:
        raise GuardGone(f"The guard did not answer within {timeout_s:.1f} s; check its process.") from problem
    except OSError as problem:
        raise GuardGone(f"The guard has ended ({problem}); start a new guard.") from problem


def _exactly(connection: socket.socket, count: int, until_s: float) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        connection.settimeout(max(until_s - time.monotonic(), 1e-3))
        data = connection.recv(count - len(parts))
        if not data:
            raise ConnectionResetError("it closed the connection")
        parts += data
    return bytes(parts)
