"""Answers of language models on disk, so that no answer is paid for twice.

The model gateway keeps each whole answer of a provider before it hands out the last part. A session that was killed
before it kept the answer itself asks again and gets this one. The name of a file says who received it. Answers are
private to the user, at most MOST and MOST_BYTES for each session, and none is older than OLDEST_S.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enpire.campaign.agent_events import ModelCalled
from enpire.errors import FileProblem
from enpire.files import parse, plain
from enpire.ids import file_name, is_id, quoted_name
from enpire.store import durable, removal

MOST = 256
"""Kept answers of one session."""
MOST_BYTES = 64 * 2**20
"""Bytes of all kept answers of one session."""
LARGEST_KEPT = 16 * 2**20
"""Bytes of the largest answer that is kept."""
OLDEST_S = 24 * 3600.0
"""Age after which an answer is removed, in seconds."""
FOLDER = ".model-answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """One whole answer of a provider."""

    call: ModelCalled
    """What the call cost."""
    request: str
    """Hash of what was asked (hexadecimal)."""
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those that reach the agent."""
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    call: ModelCalled
    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModelAnswers:
    """The kept answers of one campaign: a file each, with a line of JSON, then the answer.

    Its name is `SESSION/REQUEST-CALL`, and `SESSION/REQUEST-CALL.RECEIVER` once it was handed out to its end.
    """

    folder: Path

    @classmethod
    def of(cls, home: Path, campaign_id: str) -> ModelAnswers:
        """The kept answers of a campaign of a home."""
        return cls(home / "agents" / file_name(campaign_id, "a campaign") / FOLDER)

    def keep(self, answer: KeptAnswer) -> None:
        """Keep an answer of at most LARGEST_KEPT bytes, durable when this returns; the oldest ones make room."""
        head = _Head(call=answer.call, status=answer.status, headers=answer.headers)
        folder = self._session(answer.call.lane)
        durable.make_folder(folder)
        for private in (self.folder, folder):
            private.chmod(0o700)
        path = folder / f"{answer.request}-{file_name(answer.call.call_id, 'a model call')}"
        durable.write(path, json.dumps(plain(head)).encode() + b"\n" + answer.data, mode=0o600)
        for session in _folders(self.folder):
            _prune(session)

    def calls(self, lane: str, request: str) -> list[tuple[str, str]]:
        """(call, receiver) of each kept answer to the requests of a session that begin so, the newest first.

        The receiver is empty for an answer that nobody received to its end.
        """
        found = ((*_name_of(path), path) for path in _files(self._session(lane)))
        same = ((call, receiver, path) for asked, call, receiver, path in found if asked.startswith(request))
        answers = [(call, receiver) for call, receiver, path in same if not _is_old(path)]
        return sorted(answers, reverse=True)  # ids rise with time

    def receive(self, lane: str, request: str, call_id: str, receiver: str) -> None:
        """Note who received an answer to its end; not durable, since a power cut ends the receiver too."""
        if (path := self._find(lane, request, call_id)) is not None:
            to = path.with_name(f"{request}-{file_name(call_id, 'a model call')}.{file_name(receiver, 'a receiver')}")
            removal.replace(path, to, path.parent)

    def read(self, lane: str, request: str, call_id: str) -> KeptAnswer | None:
        """A kept answer; None if it is not there, or not whole."""
        if (path := self._find(lane, request, call_id)) is None:
            return None
        try:
            line, _, data = path.read_bytes().partition(b"\n")
            head = parse(_Head, json.loads(line), f"The kept answer {path.name}")
        except (OSError, ValueError, FileProblem):
            return None
        return KeptAnswer(call=head.call, request=request, status=head.status, headers=head.headers, data=data)

    def record_of(self, call: ModelCalled) -> ModelCalled | None:
        """The record of a call whose answer is kept: the gateway was killed before it passed the record on."""
        for path in _files(self._session(call.lane)):
            request, call_id, _ = _name_of(path)
            if call_id == call.call_id and (kept := self.read(call.lane, request, call_id)):
                return kept.call
        return None

    def prune(self) -> None:
        """Remove what is too old, and incomplete files."""
        for folder in _folders(self.folder):
            durable.sweep(folder)
            _prune(folder)

    def _find(self, lane: str, request: str, call_id: str) -> Path | None:
        return next((path for path in _files(self._session(lane)) if _name_of(path)[:2] == (request, call_id)), None)

    def _session(self, lane: str) -> Path:
        return self.folder / quoted_name(lane)


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if is_id(_name_of(path)[1]))


def _name_of(path: Path) -> tuple[str, str, str]:
    """Request, call and receiver of a file."""
    request, _, rest = path.name.partition("-")
    call_id, _, receiver = rest.partition(".")
    return request, call_id, receiver


def _prune(folder: Path) -> None:
    """Remove the oldest answers of a session beyond the limits. Ids of calls rise with time."""
    files = sorted(_files(folder), key=lambda path: _name_of(path)[1], reverse=True)
    left = MOST_BYTES
    for number, path in enumerate(files):
        left -= path.stat().st_size
        if number >= MOST or left < 0 or _is_old(path):
            removal.try_remove(path, folder)


def _is_old(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > OLDEST_S
