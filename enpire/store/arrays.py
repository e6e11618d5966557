"""The arrays file of an episode: an uncompressed .npz with one member per field of EpisodeArrays.

`numpy.load(file)` opens it. `unpack` does not trust the file: it checks members, dtypes and sizes before it allocates
memory, and it unpickles nothing.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from enpire.errors import FileProblem
from enpire.types import SOURCE_EXPERT, EpisodeArrays, FloatArray

_npy: Any = np.lib.format
_MAGIC = b"\x93NUMPY\x01\x00"
"""Begins a .npy member of format version 1.0."""
_LENGTH = struct.Struct("<H")
_LOCAL_HEADER, _SIGNATURE, _ENCRYPTED = struct.Struct("<4s22xHH"), b"PK\x03\x04", 1
"""Before each member of a zip file, with the lengths of its name and its extra field; the flag of encrypted members."""
_Header = tuple[tuple[int, ...], bool, np.dtype[np.generic]]
_DTYPES: dict[str, np.dtype[Any]] = {
    "state": np.dtype(np.float32),
    "action": np.dtype(np.float32),
    "source": np.dtype(np.uint8),
    "chunk": np.dtype(np.int32),
}
_UNREADABLE = (
    zipfile.BadZipFile,
    ValueError,
    EOFError,
    OSError,
    KeyError,
    RuntimeError,
    OverflowError,
    struct.error,
    SyntaxError,
)
"""What `zipfile` and the .npy header parser raise on malformed bytes (RuntimeError: an encrypted member or an unknown
compression method)."""


def pack(arrays: EpisodeArrays) -> bytes:
    """The bytes of the arrays file; equal arrays give equal bytes.

    Args:
        arrays: T frames with the shapes, dtypes and units of `EpisodeArrays`.

    Raises:
        FileProblem: shapes, dtypes or source codes do not agree with `EpisodeArrays`.
    """
    check(arrays, "The arrays to pack")
    buffer = io.BytesIO()
    np.savez(
        buffer,
        allow_pickle=False,
        state=arrays.state,
        action=arrays.action,
        source=arrays.source,
        chunk=arrays.chunk,
    )
    return buffer.getvalue()


def unpack(data: bytes) -> EpisodeArrays:
    """The arrays in the bytes of an arrays file, read-only, with the shapes, dtypes and units of `EpisodeArrays`.

    Raises:
        FileProblem: the file is malformed.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as members:
            found = {name: _member(data, members.getinfo(f"{name}.npy"), name) for name in _DTYPES}
            extra = set(members.namelist()) - {f"{name}.npy" for name in _DTYPES}
    except _UNREADABLE as error:
        raise FileProblem(
            f"This is not an arrays file of an episode ({len(data)} bytes): {error}. It must be the complete file that "
            "a station recorded."
        ) from error
    if extra:
        raise FileProblem(f"The arrays file has unknown members {sorted(extra)}; allowed are {list(_DTYPES)}.")
    arrays = EpisodeArrays(
        state=cast(FloatArray, found["state"]),
        action=cast(FloatArray, found["action"]),
        source=cast(npt.NDArray[np.uint8], found["source"]),
        chunk=cast(npt.NDArray[np.int32], found["chunk"]),
    )
    check(arrays, "The arrays file")
    return arrays


def decision_of(chunk: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Index of the decision that commanded each frame, from 0.

    One chunk of a policy is one decision; every frame that a policy did not command is a decision of its own.

    Args:
        chunk: (T,) int32, the chunk index of each frame; -1 where no policy commanded it.

    Returns:
        (T,) int64, not decreasing.
    """
    fresh = (chunk < 0) | (np.diff(chunk, prepend=np.int32(-1)) != 0)
    return np.cumsum(fresh) - 1


def check(arrays: EpisodeArrays, what: str) -> None:
    """Check shapes, dtypes, lengths and source codes of T frames; `what` is the subject of the error sentence.

    Raises:
        FileProblem: a field disagrees with `EpisodeArrays`.
    """
    fields = {name: getattr(arrays, name) for name in _DTYPES}
    for name, value in fields.items():
        if value.dtype != _DTYPES[name]:
            raise FileProblem(f"{what} hold {name} as {value.dtype}; it must be {_DTYPES[name]}.")
    ticks = arrays.chunk.size
    width = {"state": arrays.state.shape[-1:], "action": arrays.action.shape[-1:]}
    wanted = {
        "state": (ticks + 1, *width["state"]),
        "action": (ticks, *width["action"]),
        "source": (ticks,),
        "chunk": (ticks,),
    }
    for name, shape in wanted.items():
        if fields[name].shape != shape or 0 in shape[1:]:
            raise FileProblem(
                f"{what} hold {name} with shape {fields[name].shape}; with {ticks} frames it must be "
                "state (frames + 1, state_dim), action (frames, action_dim), source (frames,), chunk (frames,)."
            )
    if ticks and int(arrays.source.max()) > SOURCE_EXPERT:
        raise FileProblem(f"{what} hold source code {int(arrays.source.max())}; allowed are 0 to {SOURCE_EXPERT}.")


def _member(file: bytes, entry: zipfile.ZipInfo, name: str) -> npt.NDArray[np.generic]:
    """An array in the bytes of the file. Not with `ZipFile.read`, which takes ten times as long for small members."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & _ENCRYPTED:
        raise ValueError(f"its member {name} is compressed or encrypted")
    signature, name_length, extra_length = _LOCAL_HEADER.unpack_from(file, entry.header_offset)
    named = entry.header_offset + _LOCAL_HEADER.size
    begins = named + name_length + extra_length
    data = file[begins : begins + entry.file_size]
    is_it = signature == _SIGNATURE and file[named : named + name_length] == entry.orig_filename.encode()
    if not is_it or len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
        raise ValueError(f"its member {name} is damaged")
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError(f"its member {name} has an unknown format version")
    (length,) = _LENGTH.unpack_from(data, len(_MAGIC))
    begins = len(_MAGIC) + _LENGTH.size + length
    shape, fortran, dtype = _header(data[len(_MAGIC) : begins])
    if dtype != _DTYPES[name] or fortran:
        raise ValueError(f"its member {name} is {dtype}, it must be {_DTYPES[name]} in row order")
    return np.frombuffer(data[begins:], dtype=dtype).reshape(shape)


@lru_cache(maxsize=4096)
def _header(data: bytes) -> _Header:
    """Shape, whether in column order, and dtype in a .npy header with its length in front.

    Kept, because numpy compiles the header as Python code. Episodes of one length have equal headers, so a task with a
    limit of 1000 commands has at most 4000.
    """
    return cast(_Header, _npy.read_array_header_1_0(io.BytesIO(data)))
