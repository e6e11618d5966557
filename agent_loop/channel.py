"""The channel between an agent session and its room: JSON messages over a pair of sockets, each after its length."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import cast

from enpire.errors import TransportProblem

LARGEST_CALL = 256 * 1024
"""Most bytes of a message from a room."""
LARGEST_ANSWER = 16 * 2**20
"""Most bytes of a message to a room."""
_LENGTH = struct.Struct(">I")


class Channel:
    """One end of the channel."""

    def __init__(self, end: socket.socket, largest: int) -> None:
        """`largest` is the most bytes of a message that this end accepts."""
        self._end, self._largest = end, largest

    def send(self, message: Mapping[str, object]) -> None:
        """Send one message.

        Raises:
            TransportProblem: the other end is closed.
        """
        data = json.dumps(message).encode()
        try:
            self._end.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as problem:
            raise TransportProblem(f"The room of the agent session is closed ({problem.strerror}).") from problem

    def receive(self) -> Mapping[str, object] | None:
        """The next message; None after the last one.

        Raises:
            TransportProblem: the bytes are not a message.
        """
        head = self._exactly(_LENGTH.size)
        if head is None:
            return None
        (length,) = _LENGTH.unpack(head)
        if length > self._largest:
            raise TransportProblem(f"A message has {length} bytes; at most {self._largest} are allowed.")
        data = self._exactly(length)
        try:
            message: object = json.loads(data or b"")
        except (ValueError, RecursionError) as problem:
            raise TransportProblem(f"A message is not JSON: {problem}.") from problem
        if not isinstance(message, dict):
            raise TransportProblem("A message must be an object with keys and values.")
        return cast("Mapping[str, object]", message)

    def _exactly(self, count: int) -> bytes | None:
        """So many bytes; None where the other end is closed before."""
        data = b""
        while len(data) < count:
            try:
                block = self._end.recv(count - len(data))
            except OSError:
                return None
            if not block:
                return None
            data += block
        return data
