"""Ids that every process makes on its own: unique, sortable by time, safe in file names and addresses."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no I, L, O, U, so that an id can be read aloud without mistakes."""
LENGTH = 26
RANDOM_BITS = 80
_MILLISECOND_BITS = 48


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


def _spell(number: int) -> str:
    letters = [ALPHABET[number >> shift & 31] for shift in range(5 * (LENGTH - 1), -1, -5)]
    return "".join(letters)


mint = Mint()
"""The mint of this process: `mint()` returns a new id."""
