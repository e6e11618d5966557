"""Slows down whoever guesses passwords."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque

ALLOWED = 8
WINDOW_S = 60.0
REMEMBERED = 10_000
"""Names and addresses kept; a flood of names cannot fill the memory."""


class Attempts:
    """Counts failed sign-ins by key over the last minute. Safe to call from several threads."""

    def __init__(self) -> None:
        self._failed: defaultdict[str, deque[float]] = defaultdict(deque)
        self._lock = threading.Lock()

    def wait_s(self, key: str) -> float:
        """Seconds until this key may try again; 0 when it may now."""
        now = time.monotonic()
        with self._lock:
            failed = self._failed.get(key)
            while failed and failed[0] < now - WINDOW_S:
                failed.popleft()
            return failed[0] + WINDOW_S - now if failed and len(failed) >= ALLOWED else 0.0

    def failed(self, key: str) -> None:
        """One more failed sign-in of this key."""
        with self._lock:
            if len(self._failed) > REMEMBERED:
                self._failed.clear()
            self._failed[key].append(time.monotonic())

    def succeeded(self, key: str) -> None:
        """Forget the failures of this key."""
        with self._lock:
            self._failed.pop(key, None)
