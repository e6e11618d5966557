"""The ledger in SQLite: an append-only, hash-chained table of events, and the orders table computed from it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from enpire.campaign.events import Event, LedgerEntry, kind_of
from enpire.errors import CutWrite, FileProblem, LedgerProblem, OldSchema, OutcomeUnknown, UnrecordableEvent
from enpire.store import connection, durable
from enpire.store.connection import run
from enpire.store.copy_names import advice
from enpire.store.entries import COLUMNS, entry_from, read_entry, stored_text
from enpire.store.head import Head, HeadFile, SignedHead, signed_head
from enpire.store.migrations import SIGNED, STEPS, migrate, require_known
from enpire.store.projection import project
from enpire.store.secret import known_secret, lab_secret
from enpire.store.verification import Progress, Verified, Witness, hash_at, link, verify

LABEL_S = 1.0
"""Seconds that a writer waits for the lock. A label holds it while it verifies the ledger, a campaign while it runs."""
_CHUNK = 1000
_STEP_PAGES, _PAUSE_S = 256, 0.002
"""Pages that a copy takes at once, and its pause in seconds after them."""


class SqliteLedger:
    """A ledger in one SQLite file, with an fsync in every append.

    One process writes: it holds an flock on `ledger.lock` in the same folder, and a second writer is refused. Readers
    (`read_only=True`, or `enpire.store.reading.Reading`) open their own connection, in any thread or process.
    """

    def __init__(self, path: Path, read_only: bool = False, wall_ns: Callable[[], int] = time.time_ns) -> None:
        """Open or create; LedgerProblem when it is in use, damaged, or written by newer software.

        A writer verifies the whole ledger first (`examine`), about 0.1 ms per order.
        `wall_ns` gives the time stamps, which people read; events are ordered by their number.
        """
        self.path = path
        self.read_only = read_only
        self._wall_ns = wall_ns
        self._guard = threading.RLock()
        self._broken = ""
        self._lock: int | None = None
        self._secret = b""
        self._since = 0
        """Number of events that are older than the first HMAC of the head."""
        self._head_file = HeadFile(path)
        self._newest: SignedHead | None = None
        """The head of the last append, until the head file has it."""
        if not read_only:
            durable.make_folder(path.parent)
            self._lock = _lock_file(path.with_suffix(".lock"), path)
        try:
            self._db = connection.open_reader(path) if read_only else connection.open_writer(path)
            with connection.sentences(path):
                self._prepare()
        except BaseException:
            self.close()
            raise

    @property
    def database(self) -> sqlite3.Connection:
        """The connection, for queries in the writer's own thread (`Reading(ledger.database)`)."""
        return self._db

    def append(self, events: Iterable[Event], campaign_id: str = "") -> Sequence[LedgerEntry]:
        """Append events of one campaign and update the orders in one transaction; returns after its fsync.

        All events are appended or none. Each is first parsed from its stored form, so every stored event can be read.

        Raises:
            LedgerProblem: a body is not plain JSON or cannot be parsed, or an order would be issued or ended twice.
            StorageFull: the disk refuses.
            OutcomeUnknown: the disk failed in this append or in an earlier one.
        """
        if self.read_only:
            raise LedgerProblem(f"The ledger {self.path} is open for reading only; only the orchestrator writes to it.")
        bodies = [(_checked_kind(kind_of(event)), stored_text(event, campaign_id)) for event in events]
        with self._guard:
            if self._broken:
                raise OutcomeUnknown(self._broken)
            try:
                with connection.sentences(self.path), connection.atomic(self._db):
                    appended, newest = self._append(bodies, campaign_id)
            except OutcomeUnknown as error:
                # A disk that failed once may lose writes that it reported as stored: this connection writes no more.
                self._broken = str(error)
                raise
            self._newest = newest
            self._head_file.follow(newest)
            return appended

    def events(self, after: int = 0, kinds: Sequence[str] = (), limit: int = 0) -> Iterator[LedgerEntry]:
        """Entries with seq > after, in order; empty `kinds` selects all kinds, `limit` 0 sets no limit."""
        allowed = f"AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        left = limit or -1
        while left:
            size = _CHUNK if left < 0 else min(_CHUNK, left)
            with self._guard, connection.sentences(self.path):
                # Fetch the whole chunk: an open cursor would keep the writer from committing.
                chunk = run(
                    self._db,
                    f"SELECT {COLUMNS} FROM events WHERE seq > ? {allowed} ORDER BY seq LIMIT ?",
                    (after, *kinds, size),
                ).fetchall()
            yield from map(entry_from, chunk)
            if len(chunk) < size:
                return
            after = chunk[-1][0]
            left -= len(chunk) if left > 0 else 0

    def verify(self, progress: Progress = lambda done, total: None) -> int:
        """Check everything that `examine` checks; returns the number of events."""
        return self.examine(progress).head.seq

    def examine(self, progress: Progress = lambda done, total: None) -> Verified:
        """Check pages, tables, the whole hash chain, the head with its HMAC, and the orders table.

        A reader checks a snapshot, so that it neither disturbs the writer nor sees half of its work. `progress`
        receives the number of checked events and the number of all events.

        Raises:
            LedgerProblem: names the first fault, for example the first event that does not verify.
        """
        with self._guard, connection.sentences(self.path):
            witness = self._witness()  # before the events: a writer may append meanwhile
            if not self.read_only:
                return verify(self._db, self.path, witness, progress)
            with closing(connection.snapshot(self._db)) as snapshot:
                return verify(snapshot, self.path, witness, progress)

    @property
    def head(self) -> Head:
        """Number and hash of the last event, as the ledger records them."""
        with self._guard, connection.sentences(self.path):
            return Head(*run(self._db, "SELECT seq, hash FROM head").fetchone())

    def hash_at(self, seq: int) -> str:
        """The recorded hash of an event; empty for 0 and for an event that there is not."""
        with self._guard, connection.sentences(self.path):
            return hash_at(self._db, seq)

    def back_up(self, target: Path) -> Verified:
        """Copy the ledger to a new file and verify the copy. Any thread may call this while another one appends.

        Raises:
            LedgerProblem: the copy does not verify.
        """
        copy = sqlite3.connect(target, isolation_level=None)
        with closing(copy), connection.sentences(target):
            copy.execute("PRAGMA synchronous = OFF")  # `durable.adopt` syncs the whole copy
            # In small steps: between two of them the writer appends, and SQLite copies what it changed.
            self._db.backup(copy, pages=_STEP_PAGES, progress=_pause, sleep=_PAUSE_S)
            copy.execute("PRAGMA journal_mode = DELETE")
            secret = self._secret or known_secret(self.path.parent)  # a reader has made none
            return verify(copy, self.path, Witness(secret=secret, needs_file=False))

    def close(self) -> None:
        """Close the database and release the lock. Allowed twice."""
        db = getattr(self, "_db", None)
        if self._newest is not None:
            self._head_file.follow(self._newest, now=True)
            self._newest = None
        if db is not None:
            db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _prepare(self) -> None:
        version = require_known(self._db, self.path)
        if not self.read_only:
            return self._prepare_to_write(version)
        if not version:
            raise LedgerProblem(
                f"{self.path} is an empty database and no ledger: start a campaign, or name another home."
            )
        if version < len(STEPS):
            raise OldSchema(f"The ledger {self.path} has an old schema: open it once for writing to migrate it.")

    def _prepare_to_write(self, version: int) -> None:
        """Verify the ledger before anything is written to it; then migrate it and bring its head file up to date."""
        witness, head = self._witness(), Head(0, "")
        if version:
            head = verify(self._db, self.path, witness).head
        elif witness.filed is not None and witness.filed.head.seq:
            raise LedgerProblem(
                f"The ledger {self.path} is missing, but {self._head_file.path} records its event "
                f"{witness.filed.head.seq}. {advice(self.path)}"
            )
        if version >= SIGNED and witness.secret is None:
            migrate(self._db, self.path)  # for readers of evidence of an older ENPIRE, which travels without the secret
            raise LedgerProblem(
                f"The lab's secret {self.path.parent / 'secret'} is missing or cannot be read, so the ledger cannot be "
                "written: its head has an HMAC with that secret. Restore the file from a backup of the home."
            )
        self._secret = lab_secret(self.path.parent)
        if version < SIGNED:
            # The file comes first: a signed ledger without it means that it was removed.
            self._head_file.write(signed_head(self._secret, head, since=head.seq))
        migrate(self._db, self.path)
        (self._since,) = run(self._db, "SELECT since FROM head_hmac").fetchone()
        if version >= SIGNED and (witness.filed is None or witness.filed.head != head):
            self._head_file.write(signed_head(self._secret, head, self._since))

    def _witness(self) -> Witness:
        return Witness(secret=known_secret(self.path.parent), filed=self._head_file.read())

    def _append(self, bodies: Sequence[tuple[str, str]], campaign_id: str) -> tuple[list[LedgerEntry], SignedHead]:
        seq, previous = run(self._db, "SELECT seq, hash FROM head").fetchone()
        appended: list[LedgerEntry] = []
        for kind, text in bodies:
            seq, stamp_ns, before = seq + 1, self._wall_ns(), previous
            previous = link(seq, stamp_ns, kind.encode(), text.encode(), before.encode())
            row = (seq, stamp_ns, kind, campaign_id, text, before, previous)
            try:
                entry = read_entry(row)
            except FileProblem as error:
                raise UnrecordableEvent(f"The event {kind!r} cannot be recorded: {error}") from error
            run(self._db, f"INSERT INTO events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            project(self._db, entry)
            appended.append(entry)
        run(self._db, "UPDATE head SET seq = ?, hash = ?", (seq, previous))
        newest = signed_head(self._secret, Head(seq, previous), self._since)
        run(self._db, "UPDATE head_hmac SET hmac = ?", (newest.hmac,))
        return appended, newest


def open_to_read(path: Path) -> SqliteLedger:
    """Open a ledger for reading, also while another process writes to it.

    A ledger with an old schema is copied and migrated first. An incomplete write of a killed process is rolled back
    first, here or by the orchestrator that holds the ledger's lock since then.
    """
    try:
        return SqliteLedger(path, read_only=True)
    except (CutWrite, OldSchema):
        healing = _open_once(path)
    try:
        return SqliteLedger(path, read_only=True)
    except (CutWrite, OldSchema) as problem:
        raise healing or problem from None


def _open_once(path: Path) -> LedgerProblem | None:
    """Open a ledger for writing and close it; returns why that was not possible."""
    try:
        SqliteLedger(path).close()
    except LedgerProblem as problem:
        return problem
    return None


def _checked_kind(kind: str) -> str:
    if not kind or not kind.isprintable():
        raise LedgerProblem(f"An event cannot have the kind {kind!r}: a kind is a few printable words.")
    return kind


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of a ledger's writer, without opening the ledger; LedgerProblem when a process holds it."""
    descriptor = _lock_file(path.with_suffix(".lock"), path)
    try:
        yield
    finally:
        os.close(descriptor)


def _pause(status: int, remaining: int, total: int) -> None:
    """Between two steps of a copy."""
    time.sleep(_PAUSE_S)


def _lock_file(lock: Path, path: Path) -> int:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise durable.refusal(error, lock) from error
    try:
        _wait_for(descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError as error:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise LedgerProblem(
            f"The ledger {path} is in use by process {holder}: one orchestrator at a time. Stop that process first, or "
            "open the ledger for reading."
        ) from error
    except OSError as error:
        os.close(descriptor)
        raise durable.refusal(error, lock) from error
    return descriptor


def _wait_for(descriptor: int) -> None:
    """Take the lock, waiting at most LABEL_S for a process that writes a label; then BlockingIOError."""
    until_s = time.monotonic() + LABEL_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until_s:
                raise
        time.sleep(0.02)
