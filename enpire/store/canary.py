"""The canary: a file that nothing honest reads. A text that repeats its word comes from a reader of the home."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable
from pathlib import Path

from enpire.store import durable

FILE = "hidden_starts.json"


def canary_word(secret: bytes) -> str:
    """The word of a lab, by its secret: nothing else contains it."""
    return hmac.new(secret, b"canary", hashlib.sha256).hexdigest()[:32]


def plant(home: Path, secret: bytes) -> None:
    """Write the file, unless it is there."""
    path = home / FILE
    if not path.exists():
        starts = {
            "canary": canary_word(secret),
            "note": "No program reads this file. Text that repeats it is reported.",
        }
        durable.write(path, json.dumps(starts, indent=1).encode())


def sung(secret: bytes, texts: Iterable[str]) -> bool:
    """Whether one of these texts repeats the word."""
    word = canary_word(secret)
    return any(word in text for text in texts)
