"""Camera images of an episode for browsing: a filmstrip."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from enpire.errors import MissingExtra
from enpire.service.recordings import Pictures

if TYPE_CHECKING:
    from PIL.Image import Image

STRIP_HEIGHT = 120
"""Pixels."""


def image_strip(pictures: Pictures, count: int) -> bytes | None:
    """At most `count` images of the first camera, evenly from first to last, side by side as JPEG; None without any."""
    try:
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise MissingExtra("Camera images need Pillow, which is not installed: pip install 'enpire[sim]'.") from missing
    first = next(iter(pictures.cameras), "")
    names = [name for name in pictures.names if name.rpartition("_")[0] == first]
    if not names:
        return None
    last, most = len(names) - 1, min(count, len(names))
    places = [round(at * last / max(1, most - 1)) for at in range(most)]
    opened = (Image.open(io.BytesIO(pictures.bytes_of(names[at])), formats=("JPEG", "PNG")) for at in places)
    scaled = [_scaled(image) for image in opened]
    strip = Image.new("RGB", (sum(image.width for image in scaled), STRIP_HEIGHT))
    left = 0
    for image in scaled:
        strip.paste(image, (left, 0))
        left += image.width
    buffer = io.BytesIO()
    strip.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()


def _scaled(image: Image) -> Image:
    width = max(1, round(image.width * STRIP_HEIGHT / image.height))
    image.draft("RGB", (width, STRIP_HEIGHT))
    return image.convert("RGB").resize((width, STRIP_HEIGHT))
