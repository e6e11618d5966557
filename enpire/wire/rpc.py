"""Questions and answers over one socket: msgpack with a schema number, arrays as (dtype, shape, bytes), never pickle.

`RpcClient` asks, one question at a time; whoever serves answers with the same number. What a robot is asked is in
`robot_drivers.rig_messages`, what a policy server is asked in `enpire.policy_server.policy_server`.
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
from enpire.fields import Fields
from enpire.types import FloatArray, ImageArray, MaskArray, Observation

if TYPE_CHECKING:
    from enpire.wire.curve_keys import StationKeys

SCHEMA = 1
LARGEST = 32 * 2**20
"""Bytes of one message; a longer one is refused before it is read."""
DTYPES = frozenset({"float32", "bool", "uint8", "int64"})
_TELLING = (EnvelopeViolation, RobotProblem, PolicyProblem, TransportProblem, UsageError)

Message = dict[str, object]


class RpcClient:
    """One DEALER socket: ask, and wait for the answer with the same number. Any thread, one at a time.

    Args:
        address: tcp://HOST:PORT.
        keys: for another machine.
        answer_s: how long an answer may take, and how long whoever says that it works on it may be silent.
        whom: who is asked, for the sentences.
        silence: what is raised when no answer comes.
    """

    def __init__(
        self, address: str, keys: StationKeys | None, answer_s: float, whom: str, silence: type[EnpireError]
    ) -> None:
        import zmq

        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        if keys is not None:
            from enpire.wire.curve_keys import encrypt

            encrypt(self._socket, keys)
        self._socket.connect(address)
        self._whom, self._answer_s, self._silence = f"{whom} at {address}", answer_s, silence
        self._lock = threading.Lock()
        self._sequence = 0
        self.closed = False

    def ask(self, verb: str, **content: object) -> Fields:
        """What is answered; an error at the other end is raised at this one."""
        import zmq

        with self._lock:
            if self.closed:
                raise self._silence(f"The connection to {self._whom} is closed; open it again.")
            self._sequence += 1
            question = encode({"verb": verb, "sequence": self._sequence, **content})
            if len(question) > LARGEST:
                raise TransportProblem(f"A question of {len(question)} bytes is too large; at most {LARGEST} are read.")
            with suppress(zmq.Again):  # who was refused has nobody to send to: no answer comes
                self._socket.send(question, zmq.NOBLOCK)
            return check_reply(self._answer())

    def close(self) -> None:
        """Hang up. Allowed twice."""
        with self._lock:
            if not self.closed:
                self.closed = True
                self._socket.close()
                self._context.term()

    def _answer(self) -> Fields:
        until_s = time.monotonic() + self._answer_s
        while (left_s := until_s - time.monotonic()) > 0:
            if not self._socket.poll(max(1, round(1e3 * left_s))):
                break
            answer = decode(self._socket.recv())
            if answer.whole("sequence") == self._sequence:
                if "working" not in answer:
                    return answer
                until_s = time.monotonic() + self._answer_s
            # The late answer to a question that was given up: nobody waits for it any more.
        raise self._silence(
            f"{self._whom[0].upper()}{self._whom[1:]} did not answer within {self._answer_s:.1f} s; is it running?"
        )


def encode(message: Mapping[str, object]) -> bytes:
    """A message as bytes, with the schema number."""
    return cast("bytes", msgpack.packb({"schema": SCHEMA, **message}))  # pyright: ignore[reportUnknownMemberType]


def decode(frame: bytes) -> Fields:
    """Bytes as a message; TransportProblem for whatever is not one."""
    if len(frame) > LARGEST:
        raise TransportProblem(f"A message of {len(frame)} bytes was refused; at most {LARGEST} are allowed.")
    try:
        content = cast("object", msgpack.unpackb(frame, raw=False, strict_map_key=True))  # pyright: ignore[reportUnknownMemberType]
    except (ValueError, msgpack.UnpackException) as problem:
        raise TransportProblem(f"A message is not msgpack: {problem}.") from problem
    message = Fields(content, "A message")
    if message.whole("schema") != SCHEMA:
        raise TransportProblem(f"A message has schema {message.whole('schema')}, this side speaks {SCHEMA}; update it.")
    return message


def array_out(values: npt.NDArray[np.generic]) -> Message:
    """An array for a message."""
    return {"dtype": str(values.dtype), "shape": list(values.shape), "data": np.ascontiguousarray(values).tobytes()}


def array_in(message: Fields, name: str) -> npt.NDArray[np.generic]:
    """An array of a message, its own copy; TransportProblem when size and shape disagree."""
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
    """A float32 array of a message."""
    return array_in(message, name).astype(np.float32, copy=False)


def mask_in(message: Fields, name: str) -> MaskArray:
    """A boolean array of a message."""
    return array_in(message, name).astype(np.bool_, copy=False)


def observation_out(observation: Observation) -> Message:
    """An observation for a message."""
    images = {camera: array_out(picture) for camera, picture in observation.images.items()}
    return {"stamp_ns": observation.stamp_ns, "state": array_out(observation.state), "images": images}


def observation_in(message: Fields) -> Observation:
    """An observation out of a message."""
    return Observation(
        stamp_ns=message.whole("stamp_ns"), state=floats_in(message, "state"), images=pictures_in(message)
    )


def pictures_in(message: Fields) -> Mapping[str, ImageArray]:
    """The pictures under `images` of a message."""
    content = message.mapping("images")
    listed = Fields(content, "The pictures")
    return {camera: array_in(listed, camera).astype(np.uint8, copy=False) for camera in content}


def error_out(error: EnpireError) -> Message:
    """An error for a message: its class and its sentence."""
    kind = next((item for item in _TELLING if isinstance(error, item)), TransportProblem)
    return {"error": kind.__name__, "text": str(error)}


def check_reply(message: Fields) -> Fields:
    """The answer itself, or the error that it carries, raised again at this side."""
    content = message.get("error")
    if content == "":
        return message
    known = {item.__name__: item for item in _TELLING}
    raise known.get(str(content), TransportProblem)(message.text("text"))
