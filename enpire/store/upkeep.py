"""The thread that reads every recorded file and copies the ledger daily, while a campaign runs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from enpire.errors import EnpireError
from enpire.store.copies import make_copy
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.reconcile import has_hashes

BYTES_S = 64e6
"""Most bytes of recordings that are read and hashed in one second, so that robots and learner keep the disk."""
LOOK_EVERY_S = 30.0
"""How often the thread looks whether a new day began, in seconds."""


def utc_day() -> str:
    """The day as YYYY-MM-DD, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What an operator must know about the records."""

    sentence: str
    differs: bool
    """Whether files differ from the ledger, which the ledger records."""


@dataclass(slots=True)
class Upkeep:
    """A context manager around one session of a campaign.

    At the start, at each new day and at the end of the session it makes a verified copy of the ledger. In between it
    reads each recorded file of the home once and compares its hash with the ledger's. `ledger verify` does so at once.
    """

    ledger: SqliteLedger
    store: FolderStore
    campaign_id: str
    day: Callable[[], str] = utc_day
    bytes_s: float = BYTES_S
    _found: queue.SimpleQueue[Trouble] = field(default_factory=queue.SimpleQueue[Trouble], init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _copied: str = field(default="", init=False)
    """Day of the last copy."""

    def __enter__(self) -> Self:
        """Start the thread. The list of files is read here, in the thread of the ledger."""
        files = Reading.of(self.ledger).file_hashes()
        self._thread = threading.Thread(target=self._work, args=(files,), name="upkeep of the records", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the thread; after a session without an error, copy the ledger once more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if error is None:
            self._copy(self.day())

    def troubles(self) -> list[Trouble]:
        """What was found since the last call."""
        found: list[Trouble] = []
        while not self._found.empty():
            found.append(self._found.get())
        return found

    def _work(self, files: list[tuple[str, str, str, str]]) -> None:
        self._copy_daily()
        for campaign_id, order_id, arrays_sha256, pictures_sha256 in files:
            if self._ended.is_set():
                return
            self._read(campaign_id, order_id, arrays_sha256, pictures_sha256)
            self._copy_daily()
        while not self._ended.wait(LOOK_EVERY_S):
            self._copy_daily()

    def _read(self, campaign_id: str, order_id: str, arrays_sha256: str, pictures_sha256: str) -> None:
        """Compare the files of one episode with their hashes, then pause for as long as their size asks."""
        try:
            folder = self.store.folder(order_id, campaign_id)
            if not folder.is_dir():
                return  # the start of the session reported it as missing
            size = sum(entry.stat().st_size for entry in folder.iterdir())
            whole = has_hashes(folder, arrays_sha256, pictures_sha256)
        except (EnpireError, OSError) as problem:
            self._found.put(
                Trouble(sentence=f"The files of episode {order_id} cannot be read: {problem}", differs=True)
            )
            return
        if not whole:
            sentence = (
                f"The files of episode {order_id} were changed after they were recorded: their hashes differ from the "
                f"ledger. Restore {folder} from a copy of the home folder; the ledger counts."
            )
            self._found.put(Trouble(sentence=sentence, differs=True))
        self._ended.wait(size / self.bytes_s)

    def _copy_daily(self) -> None:
        if (today := self.day()) != self._copied:
            self._copy(today)

    def _copy(self, today: str) -> None:
        self._copied = today
        try:
            make_copy(self.ledger, self.campaign_id, today)
        except EnpireError as problem:
            self._found.put(Trouble(sentence=f"The ledger could not be copied: {problem}", differs=False))
