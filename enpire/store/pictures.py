"""What the cameras saw at every command of an episode, beside its arrays: one file for all cameras.

A zip of members `<camera>_<tick>.jpg` or `.png`, stored as they are (a picture is compressed already), so that any of
them can be read alone. It is written as the episode goes. One that a station sent is not trusted: what its directory
says is checked when it is opened, the bytes of a picture before they are decoded.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import struct
import zipfile
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import batched, chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from enpire.errors import FileProblem, MissingExtra
from enpire.store import durable

if TYPE_CHECKING:
    from enpire.types import ImageArray

NAME = "pictures.zip"
"""In the folder of an episode: what its cameras saw when it was recorded."""
TAKEN_AGAIN = "taken_again.zip"
"""In the folder of a simulated episode: the few pictures that were taken when it ran again."""
JPEG_QUALITY = 90
"""`python -m benchmarks.recording` says what other qualities cost."""
LARGEST_PICTURE = 16 * 2**20
"""Bytes of one picture's file."""
MOST_PIXELS = 2**24
"""Of one picture when it is decoded."""
MOST_MEMBERS = 2**16 - 2
"""Pictures in one file."""
type Seen = Mapping[str, ImageArray]
"""camera -> picture (height, width, 3), RGB, of one instant."""
Kind = Literal["jpg", "png"]

_CAMERA = r"[0-9A-Za-z][0-9A-Za-z_.-]{0,63}"
_MEMBER = re.compile(rf"({_CAMERA})_([0-9]{{5}})\.(jpg|png)")
_END = struct.Struct("<20s4s4H2LH")
"""The last bytes of a zip without a comment (how many members there are, where their directory is), and those before,
where a zip of more than 4 GB would say so."""
_NO_END = (b"", b"", 0, 0, 0, 0, 0, 0, 0)
_ENTRY = 46 + 80
"""Bytes of a member in the directory, at most: a name of our kind, nothing beside it."""
_PLACE = 4
"""Numbers that say where a picture lies: the first byte of its member, the picture's bytes, their CRC, whether PNG."""
_LOCAL = struct.Struct("<26s2H")
"""The head before a member's bytes ends with the lengths of its name and of what else stands there."""


class PicturesWriter:
    """Writes the pictures of one episode, one after the other; `path` appears when they are whole and durable."""

    def __init__(self, path: Path) -> None:
        """FileProblem or StorageFull when the disk refuses, here and in every method."""
        self._path, self._staged = path, durable.staged_name(path)
        try:
            self._file: BinaryIO = self._staged.open("xb")
            self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED)
        except OSError as error:
            raise durable.refusal(error, path) from error
        self._count = 0

    def add(self, camera: str, tick: int, image: ImageArray, kind: Kind = "jpg") -> None:
        """Compress and append one picture (height, width, 3); FileProblem when its camera cannot name a member."""
        name = _name(camera, tick, kind)
        if not _MEMBER.fullmatch(name):
            raise FileProblem(
                f"The picture {name!r} cannot be kept: a camera is named with letters, digits, '-', '_' and '.', at "
                "most 64, and an episode has at most 100000 ticks."
            )
        if self._count == MOST_MEMBERS:
            raise FileProblem(f"{self._path.name} is full with {self._count} pictures; record fewer cameras.")
        self._count += 1
        try:
            self._zip.writestr(zipfile.ZipInfo(name), jpeg(image) if kind == "jpg" else png(image))
        except OSError as error:
            raise durable.refusal(error, self._path) from error
        except (TypeError, ValueError) as error:
            raise FileProblem(
                f"Camera {camera} gave {image.dtype} of shape {image.shape}, which is no picture: {error}."
            ) from error

    def finish(self) -> str:
        """Make the file durable under its name; its sha256."""
        try:
            self._zip.close()
            self._file.close()
            with self._staged.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise durable.refusal(error, self._path) from error
        durable.adopt(self._staged, self._path)
        return digest

    def discard(self) -> None:
        """Leave nothing behind that is half-written, also after a failure; what `finish` made stays. Allowed twice."""
        with contextlib.suppress(OSError):  # a full disk refuses the directory of the zip, too, which goes anyhow
            self._zip.close()
        with contextlib.suppress(OSError):
            self._file.close()
        self._staged.unlink(missing_ok=True)


class Pictures:
    """The pictures in one file, each read when it is asked for. The file is not held open."""

    def __init__(self, path: Path) -> None:
        """Read the directory and check all of it; FileProblem says what is not as a station writes it."""
        self._path = path
        try:
            with path.open("rb") as file:
                members = _members(file)
        except (OSError, zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
            raise FileProblem(f"The pictures {path} cannot be read: {error}.") from error
        # Many episodes are open while a policy learns from them: arrays take a fifth of what tuples would.
        self._ticks = {camera: array("q", (tick for tick, *_ in rows)) for camera, rows in members}
        self._places = {camera: array("q", chain.from_iterable(row[1:] for row in rows)) for camera, rows in members}

    @property
    def cameras(self) -> tuple[str, ...]:
        """Whose pictures there are, sorted."""
        return tuple(self._ticks)

    @property
    def names(self) -> tuple[str, ...]:
        """`<camera>_<tick>.jpg` or `.png` of all pictures, camera by camera, in the order of their ticks."""
        return tuple(
            _name(camera, tick, "png" if is_png else "jpg")
            for camera, ticks in self._ticks.items()
            for tick, (*_, is_png) in zip(ticks, batched(self._places[camera], _PLACE), strict=True)
        )

    def has(self, camera: str, tick: int) -> bool:
        """Whether there is a picture of this camera before the command of this tick."""
        return self._place(camera, tick) is not None

    def data(self, camera: str, tick: int) -> bytes:
        """The bytes of a picture as they were recorded, JPEG or PNG; FileProblem when it is missing or damaged."""
        place = self._place(camera, tick)
        if place is None:
            raise FileProblem(
                f"{self._path} has no picture of {camera} before command {tick}; it has those of "
                f"{', '.join(self.cameras) or 'no camera'}."
            )
        offset, size, crc, _ = place
        try:
            with self._path.open("rb") as file:
                file.seek(offset)
                _, name, beside = _LOCAL.unpack(file.read(_LOCAL.size))
                file.seek(name + beside, io.SEEK_CUR)
                data = file.read(size)
        except (OSError, struct.error) as error:
            raise FileProblem(f"{self._path} cannot be read: {error}.") from error
        if len(data) != size or zlib.crc32(data) != crc:
            raise FileProblem(f"The picture of {camera} before command {tick} in {self._path} is damaged.")
        return data

    def bytes_of(self, name: str) -> bytes:
        """The bytes of the picture of that name; FileProblem when there is none."""
        found = _MEMBER.fullmatch(name)
        if found is None:
            raise FileProblem(f"{name[:80]!r} is no name of a picture: CAMERA_TICK.jpg, the tick in five digits.")
        return self.data(found[1], int(found[2]))

    def picture(self, camera: str, tick: int) -> ImageArray:
        """What a camera saw before the command of a tick, (height, width, 3); FileProblem when that cannot be said."""
        try:
            return opened(self.data(camera, tick))
        except OSError as error:
            raise FileProblem(f"The picture of {camera} before command {tick} in {self._path}: {error}.") from error

    def last(self) -> Seen:
        """What each camera saw last: after the last command, where that was recorded."""
        return {camera: self.picture(camera, ticks[-1]) for camera, ticks in self._ticks.items()}

    def _place(self, camera: str, tick: int) -> Sequence[int] | None:
        ticks = self._ticks.get(camera, ())
        index = bisect_left(ticks, tick)
        if index == len(ticks) or ticks[index] != tick:
            return None
        return self._places[camera][_PLACE * index : _PLACE * (index + 1)]


def _members(file: BinaryIO) -> list[tuple[str, list[tuple[int, ...]]]]:
    """By camera (tick, where the member begins, its bytes, their CRC, whether it is a PNG); BadZipFile if not ours."""
    # Looked at before zipfile reads a directory of any size into memory.
    file.seek(max(0, file.seek(0, io.SEEK_END) - _END.size))
    tail = file.read(_END.size)
    large, sign, _, _, _, count, size, _, comment = _END.unpack(tail) if len(tail) == _END.size else _NO_END
    if sign != b"PK\5\6" or comment or large.startswith(b"PK\6\7"):
        raise zipfile.BadZipFile("it does not end as a zip of pictures does")
    if count > MOST_MEMBERS or size > count * _ENTRY:
        raise zipfile.BadZipFile(f"its directory of {count} members has {size} bytes, which no station writes")
    members: dict[str, list[tuple[int, ...]]] = {}
    with zipfile.ZipFile(file) as archive:
        listed = archive.infolist()
        if len({member.filename for member in listed}) < len(listed):
            raise zipfile.BadZipFile("it has two members of one name")
        for member in listed:
            found = _MEMBER.fullmatch(member.filename)
            if found is None or member.compress_type != zipfile.ZIP_STORED or member.flag_bits:
                raise zipfile.BadZipFile(f"its member {member.filename[:80]!r} is no stored picture CAMERA_TICK.jpg")
            if not 0 < member.file_size == member.compress_size <= LARGEST_PICTURE:
                raise zipfile.BadZipFile(f"its member {member.filename} has {member.file_size} bytes")
            row = (int(found[2]), member.header_offset, member.file_size, member.CRC, int(found[3] == "png"))
            members.setdefault(found[1], []).append(row)
    return [(camera, sorted(rows)) for camera, rows in sorted(members.items())]


def _name(camera: str, tick: int, kind: Kind) -> str:
    return f"{camera}_{tick:05d}.{kind}"


def media_type(name: str) -> str:
    """Of the picture of that name."""
    return "image/png" if name.endswith("png") else "image/jpeg"


def cameras_of(folder: Path) -> tuple[str, ...]:
    """The cameras that were recorded with the episode in a folder, sorted; none where nothing was."""
    return Pictures(folder / NAME).cameras if (folder / NAME).is_file() else ()


def shown(folder: Path) -> Pictures | None:
    """The pictures of an episode to look at: those recorded with it, or those taken when it ran again."""
    there = next((folder / name for name in (NAME, TAKEN_AGAIN) if (folder / name).is_file()), None)
    return Pictures(there) if there is not None else None


def keep(path: Path, frames: Iterable[Seen] | Mapping[int, Seen], kind: Kind = "png") -> str:
    """Write the pictures of an episode durably, all of them or none; the sha256 of the file.

    `frames` are those of one tick after the other, or by tick; as PNG they are kept without loss.
    """
    writer = PicturesWriter(path)
    try:
        by_tick = cast("Mapping[int, Seen]", frames).items() if isinstance(frames, Mapping) else enumerate(frames)
        for tick, seen in by_tick:
            for camera, image in seen.items():
                writer.add(camera, tick, image, kind)
        return writer.finish()
    finally:
        writer.discard()


def png(image: ImageArray) -> bytes:
    """The bytes of a picture (height, width, 3), without loss."""
    return _saved(image, "PNG", compress_level=1)


def jpeg(image: ImageArray) -> bytes:
    """The bytes of a picture (height, width, 3), as JPEG."""
    return _saved(image, "JPEG", quality=JPEG_QUALITY)


def opened(data: bytes) -> ImageArray:
    """The picture (height, width, 3) in the bytes of a JPEG or PNG. OSError when there is none that may be decoded."""
    try:
        import numpy as np
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise _without_pillow() from missing
    broken = (SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as found:
            if found.width * found.height > MOST_PIXELS:
                raise ValueError(f"{found.width} x {found.height} pixels are more than the {MOST_PIXELS} allowed")
            return np.asarray(found.convert("RGB"), np.uint8)
    except broken as error:
        raise OSError(f"no picture can be decoded from these bytes ({error})") from error


def _saved(image: ImageArray, kind: str, **options: int) -> bytes:
    try:
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise _without_pillow() from missing
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind, **options)
    return buffer.getvalue()


def _without_pillow() -> MissingExtra:
    return MissingExtra("Pictures need Pillow, which is not installed: pip install 'enpire[sim]'.")
