"""Messages of openpi's policy protocol: msgpack maps, with arrays as `{b"__ndarray__", b"data", b"dtype", b"shape"}`.

The protocol is a WebSocket. The server sends a map of metadata when a client connects; then each observation map is
answered by a map with `actions`. An error is a text, after which the server closes the connection. Messages carry no
sequence number, so a connection with an unanswered call must not be used again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import numpy.typing as npt

from enpire.errors import TransportProblem
from enpire.files import is_mapping

LARGEST = 32 * 2**20
"""Largest message in bytes."""
_KINDS = "biuf"
"""numpy's kinds of numbers that are read."""
_MOST_DIMENSIONS = 8
_MSGPACK: Any = msgpack
type Value = (
    bool | int | float | str | bytes | npt.NDArray[Any] | np.generic[Any] | Sequence[Value] | Mapping[str, Value] | None
)
type Content = Mapping[str, Value]
"""A map of the protocol."""
_MESSAGE = "A message of an openpi server or client"


def pack(content: Content) -> bytes:
    """The bytes of a map of texts, numbers, arrays and such maps."""
    return _MSGPACK.packb(content, default=_pack_array)


def unpack(data: bytes) -> dict[str, Value]:
    """The map in a message; arrays are copies of numbers, never objects.

    Raises:
        TransportProblem: it is no such map.
    """
    if len(data) > LARGEST:
        raise TransportProblem(f"{_MESSAGE} has {len(data)} bytes; at most {LARGEST} are read.")
    try:
        found: Any = _MSGPACK.unpackb(data, object_hook=_unpack_array, strict_map_key=True)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as problem:
        raise TransportProblem(f"{_MESSAGE} cannot be read: {problem}.") from problem
    checked: object = found
    if not is_mapping(checked):
        raise TransportProblem(f"{_MESSAGE} must be a map, not {type(checked).__name__}.")
    return {str(key): value for key, value in found.items()}


def array_of(content: Content, key: str) -> npt.NDArray[Any] | None:
    """The array under a key; None where there is none."""
    value: object = content.get(key)
    return value if _is_array(value) else None


def _is_array(value: object) -> TypeGuard[npt.NDArray[Any]]:
    return isinstance(value, np.ndarray)


def nested(content: Content) -> dict[str, Value]:
    """The map in which `a.b` is the key b of the map under a, as some policies of openpi need it."""
    made: Any = {}
    for name, value in content.items():
        *path, last = name.split(".")
        inner: Any = made
        for key in path:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return made


def _pack_array(value: Any) -> object:
    name = type(value).__name__
    is_array, is_scalar = isinstance(value, np.ndarray), isinstance(value, np.generic)
    numbers: Any = value
    if not (is_array or is_scalar) or numbers.dtype.kind not in _KINDS:
        raise TypeError(f"{name} cannot be sent")
    if is_scalar:
        return {b"__npgeneric__": True, b"data": numbers.item(), b"dtype": numbers.dtype.str}
    shape = list(numbers.shape)
    return {b"__ndarray__": True, b"data": numbers.tobytes(), b"dtype": numbers.dtype.str, b"shape": shape}


def _unpack_array(item: Mapping[Any, Any]) -> object:
    if b"__ndarray__" in item:
        data, shape = item.get(b"data"), _sizes(item.get(b"shape"))
        dtype: np.dtype[Any] = np.dtype(item.get(b"dtype"))
        if dtype.kind not in _KINDS or not isinstance(data, bytes):
            raise ValueError("an array is no array of numbers")
        if len(data) != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"an array of {len(data)} bytes does not have the shape {str(shape)[:80]}")
        return np.frombuffer(data, dtype).reshape(shape).copy()
    if b"__npgeneric__" in item:
        dtype = np.dtype(item.get(b"dtype"))
        if dtype.kind not in _KINDS or not isinstance(item.get(b"data"), int | float):
            raise ValueError("a scalar is no number")
        return dtype.type(item[b"data"])
    return item


def _sizes(shape: Any) -> list[int]:
    found = [size for size in shape if isinstance(size, int) and 0 <= size <= LARGEST]
    if len(found) != len(shape) or len(found) > _MOST_DIMENSIONS:
        raise ValueError(f"{str(shape)[:80]} is no shape of an array")
    return found
