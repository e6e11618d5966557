"""Live images of a moving robot: captured briefly in the control loop, then rendered and shown in other threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from enpire.errors import MissingExtra
from enpire.types import ImageArray

RenderImages = Callable[[Sequence[str]], Mapping[str, ImageArray]]
"""Camera names -> images, uint8 (height, width, 3). May take milliseconds, in any thread. Raises EnpireError if there
is no image."""


@runtime_checkable
class HasLiveImages(Protocol):
    """A rig that gives live images while it moves."""

    def capture_live(self, lane: int) -> RenderImages:
        """Copy quickly what the images of one lane need; the returned function renders them in another thread."""
        ...


def no_live_images(cameras: Sequence[str]) -> Mapping[str, ImageArray]:
    """Raise MissingExtra: the driver gives no live images, uint8 (height, width, 3)."""
    raise MissingExtra("The driver of this station gives no live images; write a driver with `capture_live`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The newest image of a camera, or why there is none. Both are empty until the station has replied."""

    jpeg: bytes = b""
    why: str = ""
    came_ns: int = field(default=0, compare=False)
    """Wall-clock time at which it came from the station, in ns since 1970; 0 while there is nothing. A station sends an
    image within a second of its capture, or not at all."""

    @property
    def age_s(self) -> float:
        """Seconds since it came, at least 0; 0 while there is nothing."""
        return max(0.0, time.time() - self.came_ns / 1e9) if self.came_ns else 0.0


class Previews(Protocol):
    """The source of live images."""

    def look(self, station: str, camera: str) -> Preview:
        """The newest image. A station stops sending images of a camera three seconds after the last call."""
        ...


@runtime_checkable
class HasPreviews(Protocol):
    """A fleet that gives live images."""

    previews: Previews


@runtime_checkable
class ShowsPreviews(Protocol):
    """A view of the lab that can show live images."""

    def set_previews(self, previews: Previews) -> None:
        """Show the images of this source from now on."""
