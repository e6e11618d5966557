"""The files of one episode: its arrays and its camera images."""

from __future__ import annotations

from enpire.store.arrays import decision_of, unpack
from enpire.store.pictures import Pictures, jpeg, media_type, opened, shown

__all__ = ["Pictures", "decision_of", "jpeg", "media_type", "opened", "shown", "unpack"]
