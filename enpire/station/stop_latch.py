"""The stop that holds a station, kept on the station's disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from enpire.errors import EnpireError
from enpire.ids import mint
from enpire.store import durable

_UNREADABLE = "an earlier process of this station"


class StopLatch:
    """The newest stop of one station, from an operator or requested at the station.

    A station that is killed and started again is stopped by the same stop, also while no orchestrator runs.
    A file that cannot be read is a stop.

    Args:
        path: of the file; missing without a stop.
        say: prints one line when the disk refuses.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path, self._say = path, say
        self.stop_id, self.by = self._read()
        """Id of the stop (letters and digits) and who requested it; both empty without a stop."""

    def close(self, stop_id: str, by: str) -> None:
        """Keep a stop. It holds in this process also when the disk refuses it."""
        if stop_id == self.stop_id:
            return
        self.stop_id, self.by = stop_id, by or "the orchestrator"
        try:
            durable.make_folder(self._path.parent)
            durable.write(self._path, json.dumps({"stop_id": self.stop_id, "by": self.by}).encode())
        except EnpireError as problem:
            self._say(f"the stop by {self.by} holds, but it would not survive a restart of this station: {problem}")

    def open(self) -> None:
        """Forget the stop."""
        if not self.stop_id:
            return
        self.stop_id = self.by = ""
        try:
            durable.remove(self._path)
        except EnpireError as problem:
            self._say(f"this station is resumed, but it would be stopped again after a restart: {problem}")

    def _read(self) -> tuple[str, str]:
        try:
            found = json.loads(self._path.read_bytes())
            stop_id, by = found["stop_id"], found["by"]
            if isinstance(stop_id, str) and isinstance(by, str) and stop_id.isascii() and stop_id.isalnum():
                return stop_id[:64], by[:200] or _UNREADABLE
        except FileNotFoundError:
            return "", ""
        except (OSError, ValueError, RecursionError, TypeError, KeyError):
            pass
        return mint(), _UNREADABLE
