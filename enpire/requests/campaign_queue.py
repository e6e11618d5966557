"""The queue of campaigns of one home: campaign files that wait until no campaign runs there.

Each waiting campaign is one durable file, named by an id that sorts by time. A started one moves to another folder as a
campaign file, so that `enpire run FILE` resumes it. Any process may add one; one process at a time starts them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from enpire.campaign.campaign import Campaign
from enpire.errors import FileProblem, UnknownName, UsageError
from enpire.files import document, parse, read_json
from enpire.home import Home
from enpire.ids import file_name, mint
from enpire.store import durable, removal

MOST = 50
"""Most campaigns that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """One campaign that waits, or could not start."""

    id: str
    campaign: Campaign
    by: str
    """Name of the operator who asked for it."""
    asked_ns: int
    """Wall clock, in nanoseconds since 1970."""
    why: str = ""
    """Why it could not start; empty while it waits."""


class CampaignQueue:
    """The queue of one home."""

    def __init__(self, home: Home) -> None:
        """Make nothing before the first campaign is added."""
        self._folder = home.root / "queue"
        self._started = self._folder / "started"
        self._failed = self._folder / "failed"

    def add(self, campaign: Campaign, by: str) -> Queued:
        """Add a campaign at the end; it is durable when this returns.

        Raises:
            UsageError: MOST campaigns wait, or one of the same name does.
        """
        with self._lock("adding") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of two that ask at the same time, the second sees the first
            waiting = self.waiting()
            if len(waiting) >= MOST:
                raise UsageError(f"{MOST} campaigns wait in this home, which is the limit; remove one first.")
            if campaign.name in {one.campaign.name for one in waiting}:
                raise UsageError(
                    f"A campaign {campaign.name!r} waits already; give this one another name, or remove that."
                )
            queued = Queued(id=mint(), campaign=campaign, by=by, asked_ns=time.time_ns())
            self._write(self._folder, queued)
            return queued

    def waiting(self) -> list[Queued]:
        """The campaigns that wait, oldest first."""
        return self._read(self._folder)

    def failed(self) -> list[Queued]:
        """The campaigns that could not start, oldest first."""
        return self._read(self._failed)

    def remove(self, queued_id: str) -> None:
        """Remove a campaign that waits or could not start.

        Raises:
            UnknownName: there is none with that id.
        """
        found = [folder for folder in (self._folder, self._failed) if _file_of(folder, queued_id).is_file()]
        if not found:
            raise UnknownName(f"No campaign {queued_id[:40]!r} waits in this home; it may have started meanwhile.")
        removal.remove(_file_of(found[0], queued_id), found[0])

    def start(self, queued: Queued) -> Path:
        """Take a campaign out of the queue; returns its campaign file."""
        path = _file_of(self._started, queued.id, "yaml")
        durable.make_folder(self._started)
        durable.write(path, json.dumps(document(queued.campaign), indent=1).encode())  # JSON is YAML
        self.remove(queued.id)
        return path

    def fail(self, queued: Queued, why: str) -> None:
        """Keep a campaign that could not start, with the reason."""
        kept = Queued(id=queued.id, campaign=queued.campaign, by=queued.by, asked_ns=queued.asked_ns, why=why)
        self._write(self._failed, kept)

    @contextlib.contextmanager
    def held(self) -> Generator[bool]:
        """Whether this process starts the campaigns while entered; another process of the home may do so."""
        with self._lock("lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    @contextlib.contextmanager
    def _lock(self, name: str) -> Generator[int]:
        """The descriptor of a lock file, which unlocks when it is closed."""
        durable.make_folder(self._folder)
        lock = os.open(self._folder / file_name(name, "a lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield lock
        finally:
            os.close(lock)

    def _write(self, folder: Path, queued: Queued) -> None:
        durable.make_folder(folder)
        durable.write(_file_of(folder, queued.id), json.dumps(document(queued)).encode())

    def _read(self, folder: Path) -> list[Queued]:
        found: list[Queued] = []
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            with contextlib.suppress(FileNotFoundError, FileProblem):  # started or removed meanwhile
                found.append(parse(Queued, read_json(path), f"The waiting campaign {path}"))
        return found


def _file_of(folder: Path, queued_id: str, kind: str = "json") -> Path:
    return folder / f"{file_name(queued_id, 'a waiting campaign')}.{kind}"
