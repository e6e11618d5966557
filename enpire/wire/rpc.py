"""Remote calls over one socket: msgpack with a schema number, arrays as (dtype, shape, bytes), never pickle.

`RpcClient` sends one call at a time; the server replies with the same number. The calls of a robot are in
`robot_drivers.rig_messages`, those of a policy server in `enpire.policy_server.policy_server`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import numpy.typing as npt

from enpire.errors import (
    EnpireError,
    EnvelopeViolation,
    PolicyProblem,
    RobotProblem,
    TransportProblem,
    UsageError,
)
from enpire.field_reader import Fields
from enpire.types import FloatArray, ImageArray, MaskArray, Observation

if TYPE_CHECKING:
    from enpire.wire.curve_keys import StationKeys

SCHEMA = 1
LARGEST = 32 * 2**20
"""Largest message in bytes; a longer one is refused before it is parsed."""
DTYPES = frozenset({"float32", "bool", "uint8", "int64"})
_EVENTS = "inproc://connections"
_SENT_ERRORS = (EnvelopeViolation, RobotProblem, PolicyProblem, TransportProblem, UsageError)

Message = dict[str, object]


class RpcClient:
    """One DEALER socket: send a call and wait for the reply with the same number. Any thread, one call at a time.

    Args:
        address: tcp://HOST:PORT.
        keys: needed for another machine.
        reply_s: how long to wait for a reply, and between two messages that report that the server is working on it.
        server: name of the server in error sentences.
        no_reply: error raised when no reply comes.
    """

    def __init__(
        self, address: str, keys: StationKeys | None, reply_s: float, server: str, no_reply: type[EnpireError]
    ) -> None:
        import zmq

        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        if keys is not None:
            from enpire.wire.curve_keys import encrypt

            encrypt(self._socket, keys)
        self._connected = self._context.socket(zmq.PAIR)
        """Gets a message for each connection that was made."""
        self._socket.monitor(_EVENTS, zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self._connected.connect(_EVENTS)
        self._connections = 0
        self._poller = zmq.Poller()
        for each in (self._socket, self._connected):
            self._poller.register(each, zmq.POLLIN)
        self._socket.connect(address)
        self._server, self._reply_s, self._no_reply = f"{server} at {address}", reply_s, no_reply
        self._lock = threading.Lock()
        self._sequence = 0
        self.closed = False

    def call(self, method: str, **content: object) -> Fields:
        """The reply to a call. An error raised by the server is raised again here."""
        return self._exchange(method, content, again=False)

    def call_repeatable(self, method: str, **content: object) -> Fields:
        """As `call`, for a call that has the same effect when it arrives twice.

        It is sent again when its connection is lost and made again, as when the server's gateway has ended.
        """
        return self._exchange(method, content, again=True)

    def close(self) -> None:
        """Close the connection. Allowed twice."""
        with self._lock:
            if not self.closed:
                self.closed = True
                self._socket.disable_monitor()
                self._connected.close(linger=0)
                self._socket.close()
                self._context.term()

    def _exchange(self, method: str, content: Mapping[str, object], *, again: bool) -> Fields:
        with self._lock:
            if self.closed:
                raise self._no_reply(f"The connection to {self._server} is closed; open it again.")
            self._sequence += 1
            call = encode({"verb": method, "sequence": self._sequence, **content})
            if len(call) > LARGEST:
                raise TransportProblem(f"A call of {len(call)} bytes is too large; at most {LARGEST} are read.")
            self._count_connections()
            self._send(call)
            return check_reply(self._reply(call if again else b""))

    def _send(self, call: bytes) -> None:
        import zmq

        with suppress(zmq.Again):  # a refused client has no connection: no reply comes
            self._socket.send(call, zmq.NOBLOCK)

    def _reply(self, again: bytes) -> Fields:
        """Wait for the reply. `again` is sent over each new connection, except the first, which sends the call."""
        before, until_s = self._connections, time.monotonic() + self._reply_s
        while (left_s := until_s - time.monotonic()) > 0:
            ready = dict(self._poller.poll(max(1, round(1e3 * left_s))))
            if self._connected in ready:
                self._count_connections()
                if before and again:
                    self._send(again)
                before = self._connections
            if self._socket not in ready:
                continue
            reply = decode(self._socket.recv())
            if reply.whole("sequence") == self._sequence:
                if "working" not in reply:
                    return reply
                until_s = time.monotonic() + self._reply_s
            # Any other number is a late reply to an earlier call that was given up.
        raise self._no_reply(
            f"{self._server[0].upper()}{self._server[1:]} did not answer within {self._reply_s:.1f} s; is it running?"
        )

    def _count_connections(self) -> None:
        while self._connected.poll(0):
            self._connected.recv_multipart()
            self._connections += 1


def encode(message: Mapping[str, object]) -> bytes:
    """The bytes of a message, with the schema number."""
    return cast("bytes", msgpack.packb({"schema": SCHEMA, **message}))  # pyright: ignore[reportUnknownMemberType]


def decode(frame: bytes) -> Fields:
    """The message in these bytes.

    Raises:
        TransportProblem: the bytes are too many, not msgpack, or of another schema.
    """
    if len(frame) > LARGEST:
        raise TransportProblem(f"A message of {len(frame)} bytes was refused; at most {LARGEST} are allowed.")
    try:
        content = cast("object", msgpack.unpackb(frame, raw=False, strict_map_key=True))  # pyright: ignore[reportUnknownMemberType]
    except (ValueError, msgpack.UnpackException) as problem:
        raise TransportProblem(f"A message is not msgpack: {problem}.") from problem
    message = Fields(content, "A message")
    if message.whole("schema") != SCHEMA:
        raise TransportProblem(
            f"A message has schema {message.whole('schema')}, this side uses {SCHEMA}; "
            "run the same version of ENPIRE on both sides."
        )
    return message


def array_out(values: npt.NDArray[np.generic]) -> Message:
    """An array of any shape as message content."""
    return {"dtype": str(values.dtype), "shape": list(values.shape), "data": np.ascontiguousarray(values).tobytes()}


def array_in(message: Fields, name: str) -> npt.NDArray[np.generic]:
    """A copy of an array in a message: any shape of at most four dimensions, dtype one of `DTYPES`.

    Raises:
        TransportProblem: size, shape or dtype do not fit.
    """
    item = Fields(message.get(name), f"The array {name!r}")
    dtype = np.dtype(item.choice("dtype", sorted(DTYPES)))
    shape = item.wholes("shape")
    if len(shape) > 4 or any(size >= 2**24 for size in shape):
        raise item.refuse("shape", "at most four whole numbers")
    data = item.data("data")
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise item.refuse("data", f"{math.prod(shape) * dtype.itemsize} bytes")
    return np.frombuffer(data, dtype).reshape(shape).copy()


def floats_in(message: Fields, name: str) -> FloatArray:
    """An array in a message as float32, any shape."""
    return array_in(message, name).astype(np.float32, copy=False)


def mask_in(message: Fields, name: str) -> MaskArray:
    """An array in a message as bool, any shape."""
    return array_in(message, name).astype(np.bool_, copy=False)


def observation_out(observation: Observation) -> Message:
    """An observation as message content."""
    images = pictures_out(observation.images)
    return {"stamp_ns": observation.stamp_ns, "state": array_out(observation.state), "images": images}


def observation_in(message: Fields) -> Observation:
    """The observation in a message."""
    return Observation(
        stamp_ns=message.whole("stamp_ns"), state=floats_in(message, "state"), images=pictures_in(message)
    )


def pictures_out(images: Mapping[str, ImageArray]) -> Message:
    """Camera -> image, uint8 (height, width, 3) or (n, height, width, 3), as the key `images` of a message has it."""
    return {camera: array_out(picture) for camera, picture in images.items()}


def pictures_in(message: Fields) -> Mapping[str, ImageArray]:
    """Camera -> image, uint8 (height, width, 3) or (n, height, width, 3), from the key `images` of a message."""
    content = message.mapping("images")
    listed = Fields(content, "The pictures")
    return {camera: array_in(listed, camera).astype(np.uint8, copy=False) for camera in content}


def error_out(error: EnpireError) -> Message:
    """An error as message content: its class and its sentence."""
    kind = next((item for item in _SENT_ERRORS if isinstance(error, item)), TransportProblem)
    return {"error": kind.__name__, "text": str(error)}


def check_reply(message: Fields) -> Fields:
    """The reply, unless it carries an error.

    Raises:
        EnpireError: the error in the reply, as the server raised it.
    """
    content = message.get("error")
    if content == "":
        return message
    known = {item.__name__: item for item in _SENT_ERRORS}
    raise known.get(str(content), TransportProblem)(message.text("text"))
