"""Ids: how processes make them, and which texts may become the name of a file or folder.

No text becomes a part of a path before `file_name` or `version_id` has checked it (tests/architecture/test_ids.py).
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable
from urllib.parse import quote

from enpire.errors import FileProblem

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no I, L, O, U, so that an id can be read aloud without mistakes."""
LENGTH = 26
RANDOM_BITS = 80
_MILLISECOND_BITS = 48
LONGEST_NAME = 128
NAME_FORM = f"1 to {LONGEST_NAME} letters, digits or . - _ : and no dot at the beginning"
_NAME = re.compile(rf"[0-9A-Za-z_:-][0-9A-Za-z_.:-]{{0,{LONGEST_NAME - 1}}}")
_VERSION = re.compile(r"[0-9a-f]{64}")


class Mint:
    """Makes ids: 48 bits of wall-clock milliseconds, then 80 random bits (the layout of a ULID).

    The ids of one mint always rise, also within one millisecond and when the wall clock steps back. A forked child
    draws new random bits, so it never repeats the ids of its parent.
    """

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._wall_ns = wall_ns
        self._lock = threading.Lock()
        self._last = 0
        self._pid = os.getpid()

    def __call__(self) -> str:
        """A new id of 26 characters, greater than every one before it."""
        with self._lock:
            if self._pid != os.getpid():
                self._pid, self._last = os.getpid(), 0
            now_ms = self._wall_ns() // 1_000_000 & ((1 << _MILLISECOND_BITS) - 1)
            fresh = now_ms << RANDOM_BITS | int.from_bytes(os.urandom(RANDOM_BITS // 8), "big")
            same_moment = fresh >> RANDOM_BITS <= self._last >> RANDOM_BITS
            self._last = self._last + 1 if same_moment else fresh
            return _spell(self._last)


def is_id(text: str) -> bool:
    """Whether a text has the form of an id."""
    return len(text) == LENGTH and text[0] in ALPHABET[:8] and all(letter in ALPHABET for letter in text)


def is_file_name(text: str) -> bool:
    """Whether a text may be the name of a file or folder (NAME_FORM)."""
    return _NAME.fullmatch(text) is not None


def is_version_id(text: str) -> bool:
    """Whether a text has the form of a version's id: a sha256 in hexadecimal."""
    return _VERSION.fullmatch(text) is not None


def file_name(text: str, noun: str) -> str:
    """The text, if it may be the name of a file or folder.

    Args:
        text: an id, or the name of a station, agent or episode.
        noun: what it names, with its article, for the error: `a station`.

    Raises:
        FileProblem: it has another form, such as a path.
    """
    if not is_file_name(text):
        raise FileProblem(f"{_shown(text)} cannot be the name of {noun}: use {NAME_FORM}.")
    return text


def version_id(text: str) -> str:
    """The text, if it has the form of a version's id.

    Raises:
        FileProblem: it has another form, such as the path of a checkpoint.
    """
    if not is_version_id(text):
        raise FileProblem(
            f"{_shown(text)} is not the id of a policy version, which has 64 hexadecimal digits: `enpire policy list` "
            "shows the ids of a campaign, and `enpire policy import FOLDER` copies a checkpoint into the home and "
            "prints its id."
        )
    return text


def quoted_name(text: str) -> str:
    """A name for a file from any text: other signs than letters, digits and _.-~ as %XX; a hash of a long text."""
    quoted = quote(text, safe="")
    return quoted if 0 < len(quoted) <= LONGEST_NAME else hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def _spell(number: int) -> str:
    letters = [ALPHABET[number >> shift & 31] for shift in range(5 * (LENGTH - 1), -1, -5)]
    return "".join(letters)


mint = Mint()
"""The mint of this process: `mint()` returns a new id."""
