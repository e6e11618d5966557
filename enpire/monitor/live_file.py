"""A running lab seen from another process: `enpire serve` and `enpire run` in the same home.

While a reader looks, the loop writes its newest snapshot to one file, the live file. The reader leaves commands in the
inbox and reads their state from the ledger. A reader that ends or hangs does not affect the loop.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Self

from enpire.campaign.events import Event
from enpire.errors import EnpireError, FileProblem
from enpire.files import parse, plain
from enpire.home import Home
from enpire.monitor.image_files import ImageFileReader, ImageFileWriter
from enpire.monitor.lab_snapshot import LabSnapshot
from enpire.monitor.live_lab import COMMAND_KINDS, LiveLab
from enpire.queries import campaigns
from enpire.queries.campaign_history import MARKS
from enpire.store import removal
from enpire.wire.live_images import Previews

WRITE_EVERY_S = 0.25
LOOK_EVERY_S = 0.1
DRIVEN_EVERY_S = 0.5
"""How often a reader checks whether a loop runs, and notes that it looks, in seconds."""
LOOKED_S = 5.0
"""How long the loop writes the file after a reader looked, in seconds."""
LARGEST = 8 * 2**20
"""Most bytes of a snapshot."""
SILENT = "the loop has not reported its state yet"


def _looked_at(home: Home) -> Path:
    return home.root / "looked_at"


def _now(home: Home) -> Path:
    return home.root / "now.json"


class LiveFileWriter:
    """The loop's side: a `LabObserver` that writes the newest snapshot to one file of the home."""

    def __init__(self, home: Home) -> None:
        """Write nothing before a reader looks."""
        self._home = home
        self._written_s = -WRITE_EVERY_S
        self._images: ImageFileWriter | None = None

    def set_previews(self, previews: Previews) -> None:
        """Write live images from here, where a page in another process shows them."""
        self._images = ImageFileWriter(self._home, previews)

    def update(self, snapshot: LabSnapshot) -> None:
        """Write the newest snapshot if a reader looks. Not synced: it is valid for a moment only."""
        if self._images is not None:
            self._images.write()
        now_s = time.monotonic()
        if now_s < self._written_s + WRITE_EVERY_S:
            return
        self._written_s = now_s
        path = _now(self._home)
        staged = path.with_name(f".{path.name}")
        with contextlib.suppress(OSError):  # readers notice that the file gets old
            if time.time() - _looked_at(self._home).stat().st_mtime < LOOKED_S:
                staged.write_text(json.dumps(plain(snapshot)), encoding="utf-8")
                removal.replace(staged, path, path.parent)

    def note(self, event: Event) -> None:
        """Events are read from the ledger."""


class LiveFileReader:
    """The reader's side: while entered, a thread keeps a `LiveLab` up to date with the lab of another process."""

    def __init__(self, home: Home, watched: LiveLab) -> None:
        """Show that no lab runs, until one is found."""
        self._home = home
        self._watched = watched
        self._read = 0
        """Number of the newest event that was read."""
        self._file = (0, 0)
        """The snapshot that was read last: time of writing in nanoseconds, inode."""
        self._begun: LabSnapshot | None = None
        """The running campaign by the ledger; shown until the loop writes a snapshot."""
        self._asked_s = -DRIVEN_EVERY_S
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="live file", daemon=True)
        watched.update(None)
        watched.set_previews(ImageFileReader(home))

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                self.look()
            except (EnpireError, OSError) as problem:
                self._begun = None
                self._watched.update(LabSnapshot(home=str(self._home.root), phase_text=str(problem)))

    def look(self) -> None:
        """Show what changed since the last look.

        Raises:
            EnpireError, OSError: the ledger cannot be read.
        """
        if not self._home.ledger.is_file():
            return
        now_s = time.monotonic()
        if now_s >= self._asked_s + DRIVEN_EVERY_S:
            self._asked_s = now_s
            _looked_at(self._home).touch()
            self._ask_who_runs()
        self._read_commands()
        if self._begun is not None:
            self._read_snapshot(self._begun)

    def _ask_who_runs(self) -> None:
        """Check whether a loop runs in this home; the snapshot of an earlier loop is not shown."""
        if not campaigns.is_driven(self._home.root):
            self._begun = None
            self._watched.update(None)
        elif self._begun is None:
            self._begun, self._file = self._latest(), self._stamp()
            self._watched.update(self._begun)

    def _latest(self) -> LabSnapshot | None:
        """The running campaign by the ledger; None before it starts."""
        with campaigns.open_records(self._home.root) as records:
            past = campaigns.history(records, campaigns.latest_begun(records), MARKS)
            newest = records.reading.tail(1)
        if not past.campaign_id or past.ended is not None:
            return None
        return LabSnapshot(
            campaign_id=past.campaign_id,
            campaign_name=past.name,
            task=past.task,
            phase_text=SILENT,
            home=str(self._home.root),
            newest_event=newest[0].seq if newest else 0,
        )

    def _stamp(self) -> tuple[int, int]:
        try:
            found = _now(self._home).stat()
        except FileNotFoundError:
            return (0, 0)
        return found.st_mtime_ns, found.st_ino

    def _read_snapshot(self, begun: LabSnapshot) -> None:
        stamp, path = self._stamp(), _now(self._home)
        if stamp == self._file:
            return
        self._file = stamp
        with path.open("rb") as file:
            data = file.read(LARGEST)
        try:
            self._watched.update(parse(LabSnapshot, json.loads(data), f"{path}, the snapshot of the loop,"))
        except (ValueError, RecursionError, FileProblem) as problem:
            self._watched.update(replace(begun, phase_text=f"the snapshot of the loop cannot be read: {problem}"))

    def _read_commands(self) -> None:
        with campaigns.open_records(self._home.root) as records:
            newest = records.reading.tail(1)
            seq = newest[0].seq if newest else 0
            if not self._read:
                self._read = seq
            newer = list(records.ledger.events(after=self._read, kinds=COMMAND_KINDS)) if seq > self._read else []
        for entry in newer:
            self._watched.note(entry.event)
        self._read = max(seq, newer[-1].seq if newer else 0)
