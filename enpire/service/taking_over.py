"""An operator at a page moves a robot of this machine."""

from __future__ import annotations

from enpire.wire.hand_control import HandClient, HandStatus

__all__ = ["HandClient", "HandStatus"]
