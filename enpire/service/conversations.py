"""The conversation of an agent session with its model, in a file that outlives the session's processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from enpire.store import durable

MOST_BYTES = 4 * 2**20
"""Most bytes of a kept conversation. It must fit into the message that begins a room, where JSON may double it."""


class KeptConversation:
    """Lines that an agent kept, one for each message. A line that was acknowledged survives kill -9 and power loss."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> Sequence[str]:
        """The kept lines. A line that a killed process did not end was never acknowledged; it is removed."""
        data = self._path.read_bytes() if self._path.is_file() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            durable.write(self._path, whole)
        return whole.decode(errors="replace").splitlines()

    def add(self, line: str, *, anew: bool) -> bool:
        """Keep a line; False when the conversation is full and nothing was kept. `anew`: it begins a conversation."""
        data = " ".join(line.splitlines()).encode(errors="replace") + b"\n"
        size = self._path.stat().st_size if self._path.is_file() and not anew else 0
        if size + len(data) > MOST_BYTES:
            return False
        if size:
            durable.append(self._path, data)
        else:
            durable.write(self._path, data)
        return True
