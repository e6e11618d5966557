"""Messages between the harness and a room that holds a candidate's code: the policy server's wire, over a socket pair.

A message is the bytes of `enpire.wire.rpc.encode` after their length. Nothing is pickled, and the size of each message
is limited before it is read.
"""

from __future__ import annotations

import socket
import struct
import threading
import time

from enpire.errors import TransportProblem
from enpire.field_reader import Fields
from enpire.wire.rpc import LARGEST, Message, decode, encode

_LENGTH = struct.Struct(">I")
_BLOCK = 2**20


class RoomSilent(TransportProblem):
    """The other end did not answer in time."""


class Frames:
    """One end of the channel. Any thread may send; one thread receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._one = end, threading.Lock()

    def send(self, message: Message, limit_s: float | None = None) -> bool:
        """Send one message, within `limit_s`; returns whether the other end still takes messages."""
        data = encode(message)
        with self._one:
            self._end.settimeout(limit_s)
            try:
                self._end.sendall(_LENGTH.pack(len(data)) + data)
            except OSError:
                return False
        return True

    def receive(self, until_s: float | None = None) -> Fields | None:
        """The next message; None where the other end is closed.

        Args:
            until_s: monotonic time until which to wait; None: without end.

        Raises:
            RoomSilent: no message came in time.
            TransportProblem: the bytes are not a message.
        """
        head = self._exactly(_LENGTH.size, until_s)
        if head is None:
            return None
        (length,) = _LENGTH.unpack(head)
        if length > LARGEST:
            raise TransportProblem(f"A message has {length} bytes; at most {LARGEST} are allowed.")
        data = self._exactly(length, until_s)
        return None if data is None else decode(data)

    def _exactly(self, count: int, until_s: float | None) -> bytes | None:
        """So many bytes; None where the other end is closed before."""
        found = bytearray()
        while len(found) < count:
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise RoomSilent("No answer came in time.")
            self._end.settimeout(left_s)
            try:
                block = self._end.recv(min(_BLOCK, count - len(found)))
            except TimeoutError as problem:
                raise RoomSilent("No answer came in time.") from problem
            except OSError:
                block = b""
            if not block:
                return None
            found += block
        return bytes(found)
