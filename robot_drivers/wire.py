"""What a rig behind a wire is asked and answers: msgpack, arrays as (dtype, shape, bytes), never pickle.

One pair for every transport: `answer` at the side of the robot, `ask_*` at the side of the runner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

import msgpack
import numpy as np
import numpy.typing as npt

from enpire import errors
from enpire.errors import EnpireError, EnvelopeViolation, FileProblem, RobotProblem, TransportProblem, UsageError
from enpire.files import parse
from enpire.fleet.fields import Fields
from enpire.interfaces import Rig
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start, TaskSpec

SCHEMA = 1
LARGEST = 32 * 2**20
"""Bytes of one message; a longer one is refused before it is read."""
DTYPES = frozenset({"float32", "bool", "uint8", "int64"})
BOUNDLESS = 1e30
"""Stands for an infinite bound on the wire: the reader of files refuses numbers that are not finite."""
_TELLING = (EnvelopeViolation, RobotProblem, TransportProblem, UsageError, FileProblem, EnpireError)

Message = dict[str, object]


def encode(message: Mapping[str, object]) -> bytes:
    """A message as bytes, with the schema number."""
    return cast("bytes", msgpack.packb({"schema": SCHEMA, **message}, use_bin_type=True))


def decode(frame: bytes) -> Fields:
    """Bytes as a message; TransportProblem for whatever is not one."""
    if len(frame) > LARGEST:
        raise TransportProblem(f"A message of {len(frame)} bytes was refused; at most {LARGEST} are allowed.")
    try:
        content = msgpack.unpackb(frame, raw=False, strict_map_key=True)
    except (ValueError, msgpack.exceptions.UnpackException) as problem:
        raise TransportProblem(f"A message is not msgpack: {problem}.") from problem
    message = Fields(content, "A message to a robot")
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
    shape = item.get("shape")
    if not isinstance(shape, list) or len(shape) > 4 or not all(isinstance(n, int) and 0 <= n < 2**24 for n in shape):
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


def spec_out(spec: TaskSpec) -> Message:
    """A spec for a message."""
    content = asdict(spec)
    for bounds in (*content["state"], *content["action"]):
        bounds["low"] = max(bounds["low"], -BOUNDLESS)
        bounds["high"] = min(bounds["high"], BOUNDLESS)
    return content


def spec_in(content: object) -> TaskSpec:
    """A spec out of a message."""
    try:
        return parse(TaskSpec, content, "The spec of the robot behind the wire")
    except FileProblem as problem:
        raise TransportProblem(str(problem)) from problem


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
    content = message.get("images")
    if not isinstance(content, dict):
        raise message.refuse("images", "a mapping of cameras to pictures")
    listed = Fields(content, "The pictures")
    return {str(camera): array_in(listed, camera).astype(np.uint8, copy=False) for camera in content}


def answer(rig: Rig, verb: str, message: Fields) -> Message:
    """What a rig says to a question (`spec`, `place`, `observe`, `act`, `look`); errors are the rig's own."""
    if verb == "spec":
        return {"spec": spec_out(rig.spec), "lanes": rig.lanes}
    if verb == "place":
        rig.place(message.whole("lane", 0, rig.lanes - 1), start_in(message.get("start")))
        return {}
    if verb == "observe":
        return observation_out(rig.observe())
    if verb == "act":
        return {"sent": array_out(rig.act(floats_in(message, "action"), mask_in(message, "moving")))}
    if verb == "look":
        pictures = rig.look(message.whole("lane", 0, rig.lanes - 1))
        return {"images": {camera: array_out(picture) for camera, picture in pictures.items()}}
    raise TransportProblem(f"A robot cannot be asked to {verb!r}; it can spec, place, observe, act, look.")


def start_in(content: object) -> Start:
    """A start out of a message."""
    try:
        return parse(Start, content, "The start of a robot behind the wire")
    except FileProblem as problem:
        raise TransportProblem(str(problem)) from problem


def error_out(error: EnpireError) -> Message:
    """An error for a message: its class and its sentence."""
    kind = next(item for item in _TELLING if isinstance(error, item))
    return {"error": kind.__name__, "text": str(error)}


def check_answer(message: Fields) -> Fields:
    """The answer itself, or the error that it carries, raised again at this side."""
    content = message.get("error")
    if content == "":
        return message
    known = {item.__name__: item for item in _TELLING}
    raise known.get(str(content), errors.TransportProblem)(message.text("text"))
