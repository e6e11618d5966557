"""The stop latch: a file that holds whether a robot may move. A missing, unreadable or wrong file means latched."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import EnpireError, RobotProblem
from enpire.store import durable


@dataclass(frozen=True, slots=True, kw_only=True)
class LatchState:
    """Content of the latch file."""

    latched: bool
    cause: str
    """Why the robot must not move, or who allowed motion; one sentence."""
    nonce: str
    """New with every close; `open` must give it, so that an old permission cannot be replayed. Empty when unknown."""


class Latch:
    """The latch file of one robot. Every change is on disk when the call returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open_file: tuple[int, int] | None = None

    def read(self) -> LatchState:
        """The present state; a file that is missing, unreadable or damaged means latched."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return LatchState(latched=True, cause=f"The latch file {self.path} is missing.", nonce="")
        except (OSError, UnicodeDecodeError) as problem:
            return LatchState(latched=True, cause=f"The latch file {self.path} cannot be read: {problem}.", nonce="")
        return _parsed(text) or LatchState(latched=True, cause=f"The latch file {self.path} is damaged.", nonce="")

    @property
    def is_open(self) -> bool:
        """Whether the file allows motion; costs one `stat` while the file does not change."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        file = (found.st_ino, found.st_mtime_ns)
        if file != self._open_file:
            self._open_file = None if self.read().latched else file
        return self._open_file is not None

    def close(self, cause: str) -> LatchState:
        """Close the latch on disk. If the disk refuses the new file, the old one is removed: missing means latched.

        Raises:
            EnpireError: the disk refuses the removal too. The file may still be open, so the caller stays latched.
        """
        state = LatchState(latched=True, cause=cause, nonce=secrets.token_hex(8))
        try:
            durable.write(self.path, _text(state))
        except EnpireError:
            durable.remove(self.path)
            return LatchState(latched=True, cause=cause, nonce="")
        return state

    def open(self, nonce: str, person: str) -> LatchState:
        """Allow motion; `nonce` must be that of the last close.

        A file without a nonce (it is open although the robot is latched, or it was damaged) is closed first.

        Raises:
            RobotProblem: the nonce is old or unknown; the latch stays closed.
            EnpireError: the disk refuses the file.
        """
        now = self.read()
        if not now.nonce:
            now = self.close(now.cause if now.latched else "The latch file was open while the robot was latched.")
        if not now.nonce or not secrets.compare_digest(now.nonce.encode(), nonce.encode()):
            raise RobotProblem(
                f"The latch {self.path} was closed again after this permission was requested ({now.cause}) Look at the"
                " robot and resume it again."
            )
        state = LatchState(latched=False, cause=f"{person} allowed motion.", nonce="")
        durable.write(self.path, _text(state))
        return state


def _text(state: LatchState) -> bytes:
    body = {"latched": state.latched, "cause": state.cause, "nonce": state.nonce}
    return json.dumps({"body": body, "sha256": _digest(body)}, indent=1).encode()


def _digest(body: object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _parsed(text: str) -> LatchState | None:
    try:
        content = json.loads(text)
        body = content.get("body") if isinstance(content, dict) else None
        if not isinstance(body, dict) or content.get("sha256") != _digest(body):
            return None
    except (ValueError, RecursionError):
        return None
    latched, cause, nonce = body.get("latched"), body.get("cause"), body.get("nonce")
    if not isinstance(latched, bool) or not isinstance(cause, str) or not isinstance(nonce, str):
        return None
    return LatchState(latched=latched, cause=cause, nonce=nonce)
