"""How a robot is looked at while it moves: exposed on the control path in a moment, developed and shown elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from enpire.errors import MissingExtra
from enpire.types import ImageArray

RenderImages = Callable[[Sequence[str]], Mapping[str, ImageArray]]
"""Camera names -> pictures; may take milliseconds, in any thread. EnpireError says why there is none."""


@runtime_checkable
class HasLiveImages(Protocol):
    """A rig that can be looked at while it moves."""

    def capture_live(self, lane: int) -> RenderImages:
        """Copy what the pictures of one lane need, quickly; the function that is returned makes them, elsewhere."""
        ...


def no_live_images(cameras: Sequence[str]) -> Mapping[str, ImageArray]:
    """The pictures of a rig that has none."""
    raise MissingExtra("The driver of this station gives no live pictures.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The newest picture of a camera, or why there is none; both are empty until the station has answered."""

    jpeg: bytes = b""
    why: str = ""


class Previews(Protocol):
    """Where live pictures are had."""

    def look(self, station: str, camera: str) -> Preview:
        """The newest picture; asking is looking, so ask again within three seconds."""
        ...


@runtime_checkable
class HasPreviews(Protocol):
    """A fleet that has live pictures."""

    previews: Previews


@runtime_checkable
class ShowsPreviews(Protocol):
    """Somebody who watches and can show live pictures."""

    def set_previews(self, previews: Previews) -> None:
        """Where they are had in this session."""
