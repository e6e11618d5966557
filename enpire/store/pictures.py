"""What the cameras saw at every command of an episode, beside its arrays: `frames/<camera>_<tick>.png`, lossless.

Simulated episodes need none of it, because they run again exactly; episodes of a dataset have no other copy.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from enpire.errors import FileProblem, MissingExtra
from enpire.store import durable
from enpire.types import ImageArray

FOLDER = "frames"
Seen = Mapping[str, ImageArray]
"""camera -> picture (height, width, 3), RGB, of one instant."""
_CAMERA = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,63}")


def cameras_of(folder: Path) -> tuple[str, ...]:
    """The cameras that were recorded beside the episode in a folder, sorted."""
    return tuple(sorted(path.name[: -len("_00000.png")] for path in (folder / FOLDER).glob("*_00000.png")))


def keep(folder: Path, frames: Iterable[Seen]) -> int:
    """Make the pictures of an episode durable, all of them or none; how many instants there were.

    FileProblem when a camera's name cannot name a file.
    """
    target = folder / FOLDER
    files: dict[str, bytes] = {}
    count = 0
    for seen in frames:
        files |= {_name(camera, count): png(image) for camera, image in seen.items()}
        count += 1
    staged = durable.stage_folder(target)
    try:
        durable.fill_folders({staged: files})
        durable.reveal([(staged, target)])
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return count


def picture(folder: Path, camera: str, tick: int) -> ImageArray:
    """What a camera saw before the command of a tick, (height, width, 3); FileProblem when it was not recorded."""
    path = folder / FOLDER / _name(camera, tick)
    try:
        return opened(path.read_bytes())
    except OSError as error:
        raise FileProblem(
            f"Cannot read {path}: {error}. The episode has pictures of {list(cameras_of(folder)) or 'no camera'}."
        ) from error


def png(image: ImageArray) -> bytes:
    """The bytes of a picture (height, width, 3), without loss."""
    try:
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise _without_pillow() from missing
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def opened(data: bytes) -> ImageArray:
    """The picture (height, width, 3) in a file's bytes. OSError when there is none in them."""
    try:
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise _without_pillow() from missing
    with Image.open(io.BytesIO(data)) as found:
        return np.asarray(found.convert("RGB"), np.uint8)


def _name(camera: str, tick: int) -> str:
    if not _CAMERA.fullmatch(camera):
        raise FileProblem(f"A camera called {camera!r} cannot name a file: letters, digits, '-', '_' and '.' only.")
    return f"{camera}_{tick:05d}.png"


def _without_pillow() -> MissingExtra:
    return MissingExtra("Pictures need Pillow, which is not installed: pip install 'enpire[sim]'.")
