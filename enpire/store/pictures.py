"""The camera images of an episode: one file for all cameras, next to the arrays file.

It is a zip of members `<camera>_<tick>.jpg` or `.png`. They are stored without further compression, so that each can be
read alone. The file is written during the episode. A file from a station is not trusted: its directory is checked when
it is opened, and the bytes of an image before they are decoded.
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
from enpire.store import durable, removal

if TYPE_CHECKING:
    from enpire.types import ImageArray

NAME = "pictures.zip"
"""File name, in the folder of an episode, of the camera images that were recorded."""
TAKEN_AGAIN = "taken_again.zip"
"""File name, in the folder of a simulated episode, of the camera images of its replay."""
JPEG_QUALITY = 90
"""`python -m benchmarks.recording` compares it with other qualities."""
LARGEST_PICTURE = 16 * 2**20
"""Most bytes of one stored image."""
MOST_PIXELS = 2**24
"""Most pixels of one decoded image."""
MOST_MEMBERS = 2**16 - 2
"""Most images in one file."""
type Seen = Mapping[str, ImageArray]
"""camera -> image (height, width, 3), uint8, RGB, of one instant."""
Kind = Literal["jpg", "png"]

_CAMERA = r"[0-9A-Za-z][0-9A-Za-z_.-]{0,63}"
_MEMBER = re.compile(rf"({_CAMERA})_([0-9]{{5}})\.(jpg|png)")
_END = struct.Struct("<20s4s4H2LH")
"""The last bytes of a zip without a comment: the count of members and the place of their directory. The 20 bytes before
them mark a zip of more than 4 GB."""
_NO_END = (b"", b"", 0, 0, 0, 0, 0, 0, 0)
_ENTRY = 46 + 80
"""Most bytes of a member in the directory: its header and a name CAMERA_TICK.jpg, with no extra field."""
_PLACE = 4
"""Numbers that locate an image: offset of its member, bytes of the image, their CRC, and 1 for PNG or 0 for JPEG."""
_LOCAL = struct.Struct("<26s2H")
"""The header of a member ends with the lengths of its name and of its extra field."""


class PicturesWriter:
    """Writes the camera images of one episode, one at a time; `path` appears when the file is complete and durable."""

    def __init__(self, path: Path) -> None:
        """Create the staged file.

        Raises:
            FileProblem: the file cannot be written; every method may raise it.
            StorageFull: the disk is full; every method may raise it.
        """
        self._path, self._staged = path, durable.staged_name(path)
        try:
            self._file: BinaryIO = self._staged.open("xb")
            self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED)
        except OSError as error:
            raise durable.refusal(error, path) from error
        self._count = 0

    def add(self, camera: str, tick: int, image: ImageArray, kind: Kind = "jpg") -> None:
        """Compress and append one image (height, width, 3), uint8, RGB.

        Raises:
            FileProblem: the camera's name is not allowed, the file is full, or `image` is no image.
        """
        name = _name(camera, tick, kind)
        if not _MEMBER.fullmatch(name):
            raise FileProblem(
                f"The image {name!r} cannot be stored: a camera is named with at most 64 letters, digits, '-', '_' or "
                "'.', and an episode has at most 100000 ticks."
            )
        if self._count == MOST_MEMBERS:
            raise FileProblem(f"{self._path.name} is full with {self._count} images; record fewer cameras.")
        self._count += 1
        try:
            self._zip.writestr(zipfile.ZipInfo(name), jpeg(image) if kind == "jpg" else png(image))
        except OSError as error:
            raise durable.refusal(error, self._path) from error
        except (TypeError, ValueError) as error:
            raise FileProblem(
                f"Camera {camera} gave {image.dtype} of shape {image.shape}, which is no image: {error}."
            ) from error

    def finish(self) -> str:
        """Make the file durable under its name and return its sha256."""
        try:
            self._zip.close()
            self._file.close()
            with self._staged.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise durable.refusal(error, self._path) from error
        durable.adopt(self._staged, self._path, self._path.parent)
        return digest

    def discard(self) -> None:
        """Close and delete the staged file, also after a failure; a finished file stays. Allowed twice."""
        with contextlib.suppress(OSError):  # a full disk also refuses the directory of the zip, which is deleted next
            self._zip.close()
        with contextlib.suppress(OSError):
            self._file.close()
        removal.remove(self._staged, self._path.parent)


class Pictures:
    """The camera images in one file. Each call reads from the file, which is not held open."""

    def __init__(self, path: Path) -> None:
        """Read and check the directory; FileProblem when the file is missing or not as a station writes it."""
        self._path = path
        try:
            with path.open("rb") as file:
                members = _members(file)
        except (OSError, zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
            raise FileProblem(f"The camera images {path} cannot be read: {error}.") from error
        # Training keeps many episodes open: arrays take a fifth of the memory of tuples.
        self._ticks = {camera: array("q", (tick for tick, *_ in rows)) for camera, rows in members}
        self._places = {camera: array("q", chain.from_iterable(row[1:] for row in rows)) for camera, rows in members}

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the cameras with images, sorted."""
        return tuple(self._ticks)

    @property
    def names(self) -> tuple[str, ...]:
        """`<camera>_<tick>.jpg` or `.png` of all images, camera by camera, in the order of their ticks."""
        return tuple(
            _name(camera, tick, "png" if is_png else "jpg")
            for camera, ticks in self._ticks.items()
            for tick, (*_, is_png) in zip(ticks, batched(self._places[camera], _PLACE), strict=True)
        )

    def has(self, camera: str, tick: int) -> bool:
        """Whether the file has an image of this camera before the command of this tick."""
        return self._place(camera, tick) is not None

    def data(self, camera: str, tick: int) -> bytes:
        """The recorded bytes of an image, JPEG or PNG; FileProblem when it is missing or damaged."""
        place = self._place(camera, tick)
        if place is None:
            raise FileProblem(
                f"{self._path} has no image of {camera} before command {tick}; it has images of "
                f"{', '.join(self.cameras) or 'no camera'}."
            )
        offset, size, crc, _ = place
        try:
            with self._path.open("rb") as file:
                file.seek(offset)
                _, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
                file.seek(name + extra, io.SEEK_CUR)
                data = file.read(size)
        except (OSError, struct.error) as error:
            raise FileProblem(f"{self._path} cannot be read: {error}.") from error
        if len(data) != size or zlib.crc32(data) != crc:
            raise FileProblem(f"The image of {camera} before command {tick} in {self._path} is damaged.")
        return data

    def bytes_of(self, name: str) -> bytes:
        """The bytes of the image with a name as in `names`; FileProblem when there is none."""
        found = _MEMBER.fullmatch(name)
        if found is None:
            raise FileProblem(f"{name[:80]!r} is no name of an image; give CAMERA_TICK.jpg, the tick in five digits.")
        return self.data(found[1], int(found[2]))

    def picture(self, camera: str, tick: int) -> ImageArray:
        """The image of a camera before the command of a tick, (height, width, 3), uint8, RGB.

        Raises:
            FileProblem: the image is missing, damaged or cannot be decoded.
        """
        try:
            return opened(self.data(camera, tick))
        except OSError as error:
            raise FileProblem(f"The image of {camera} before command {tick} in {self._path}: {error}.") from error

    def last(self) -> Seen:
        """The last image of each camera: after the last command, if that was recorded."""
        return {camera: self.picture(camera, ticks[-1]) for camera, ticks in self._ticks.items()}

    def _place(self, camera: str, tick: int) -> Sequence[int] | None:
        ticks = self._ticks.get(camera, ())
        index = bisect_left(ticks, tick)
        if index == len(ticks) or ticks[index] != tick:
            return None
        return self._places[camera][_PLACE * index : _PLACE * (index + 1)]


def _members(file: BinaryIO) -> list[tuple[str, list[tuple[int, ...]]]]:
    """By camera, sorted: rows of (tick, offset of the member, bytes, CRC, 1 for PNG). BadZipFile when malformed."""
    # Checked first, because zipfile reads a directory of any size into memory.
    file.seek(max(0, file.seek(0, io.SEEK_END) - _END.size))
    tail = file.read(_END.size)
    large, sign, _, _, _, count, size, _, comment = _END.unpack(tail) if len(tail) == _END.size else _NO_END
    if sign != b"PK\5\6" or comment or large.startswith(b"PK\6\7"):
        raise zipfile.BadZipFile("it does not end as a zip of camera images does")
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
                raise zipfile.BadZipFile(f"its member {member.filename[:80]!r} is no stored image CAMERA_TICK.jpg")
            if not 0 < member.file_size == member.compress_size <= LARGEST_PICTURE:
                raise zipfile.BadZipFile(f"its member {member.filename} has {member.file_size} bytes")
            row = (int(found[2]), member.header_offset, member.file_size, member.CRC, int(found[3] == "png"))
            members.setdefault(found[1], []).append(row)
    return [(camera, sorted(rows)) for camera, rows in sorted(members.items())]


def _name(camera: str, tick: int, kind: Kind) -> str:
    return f"{camera}_{tick:05d}.{kind}"


def media_type(name: str) -> str:
    """The media type of the image with this name."""
    return "image/png" if name.endswith("png") else "image/jpeg"


def cameras_of(folder: Path) -> tuple[str, ...]:
    """The cameras that were recorded with the episode in a folder, sorted; empty if there were none."""
    return Pictures(folder / NAME).cameras if (folder / NAME).is_file() else ()


def shown(folder: Path) -> Pictures | None:
    """The camera images to show of an episode: the recorded ones, else those of its replay, else None."""
    path = next((folder / name for name in (NAME, TAKEN_AGAIN) if (folder / name).is_file()), None)
    return Pictures(path) if path is not None else None


def keep(path: Path, frames: Iterable[Seen] | Mapping[int, Seen], kind: Kind = "png") -> str:
    """Write the camera images of an episode durably, all or none; returns the sha256 of the file.

    `frames` is one Seen per tick from 0, or a mapping from ticks. PNG stores the images without loss.

    Raises:
        FileProblem: an image or its camera's name is not allowed, or the file cannot be written.
        StorageFull: the disk refuses.
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
    """The PNG bytes of an image (height, width, 3), uint8, RGB, without loss."""
    return _saved(image, "PNG", compress_level=1)


def jpeg(image: ImageArray) -> bytes:
    """The JPEG bytes of an image (height, width, 3), uint8, RGB."""
    return _saved(image, "JPEG", quality=JPEG_QUALITY)


def opened(data: bytes) -> ImageArray:
    """Decode the bytes of a JPEG or PNG to an image (height, width, 3), uint8, RGB.

    Raises:
        OSError: the bytes are malformed, or the image has more than MOST_PIXELS pixels.
        MissingExtra: Pillow is not installed.
    """
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
        raise OSError(f"no image can be decoded from these bytes ({error})") from error


def _saved(image: ImageArray, kind: str, **options: int) -> bytes:
    try:
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise _without_pillow() from missing
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind, **options)
    return buffer.getvalue()


def _without_pillow() -> MissingExtra:
    return MissingExtra("Camera images need Pillow, which is not installed: pip install 'enpire[sim]'.")
