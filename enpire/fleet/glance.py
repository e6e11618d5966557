"""How a rig is looked at while it moves: exposed on the control path in a moment, developed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from enpire.errors import MissingExtra
from enpire.types import ImageArray

Develop = Callable[[Sequence[str]], Mapping[str, ImageArray]]
"""Camera names -> pictures; may take milliseconds, in any thread. EnpireError says why there is none."""


@runtime_checkable
class Glancing(Protocol):
    """A rig that can be looked at while it moves."""

    def glance(self, lane: int) -> Develop:
        """Copy what the pictures of one lane need, quickly; the function that is returned makes them, elsewhere."""
        ...


def blind(cameras: Sequence[str]) -> Mapping[str, ImageArray]:
    """The pictures of a rig that has none."""
    raise MissingExtra("The driver of this station gives no live pictures.")
