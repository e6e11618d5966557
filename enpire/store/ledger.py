"""The ledger in SQLite: an append-only, hash-chained table of events, and the orders table computed from it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from enpire.campaign.events import Event, LedgerEntry, kind_of
from enpire.errors import CutWrite, FileProblem, LedgerProblem, OldSchema, OutcomeUnknown
from enpire.store import connection, durable
from enpire.store.connection import run
from enpire.store.entries import COLUMNS, entry_from, read_entry, stored_text
from enpire.store.migrations import STEPS, migrate, require_known
from enpire.store.projection import differing_order, project

LABEL_S = 1.0
"""Seconds that a writer waits for the lock. A label holds it for milliseconds; a campaign holds it while it runs."""
_CHUNK = 1000
_AS_BYTES = (
    "seq, stamp_ns, CAST(kind AS BLOB), CAST(campaign_id AS BLOB), CAST(body AS BLOB), CAST(previous AS BLOB), "
    "CAST(hash AS BLOB), CASE WHEN json_valid(body) THEN CAST(body ->> 'campaign_id' AS BLOB) END"
)


class SqliteLedger:
    """A ledger in one SQLite file, with an fsync in every append.

    One process writes: it holds an flock on `ledger.lock` in the same folder, and a second writer is refused. Readers
    (`read_only=True`, or `enpire.store.reading.Reading`) open their own connection, in any thread or process.
    """

    def __init__(self, path: Path, read_only: bool = False, wall_ns: Callable[[], int] = time.time_ns) -> None:
        """Open or create; LedgerProblem when it is in use, damaged, or written by newer software.

        `wall_ns` gives the time stamps, which people read; events are ordered by their number.
        """
        self.path = path
        self.read_only = read_only
        self._wall_ns = wall_ns
        self._guard = threading.RLock()
        self._broken = ""
        self._lock: int | None = None
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
                    return self._append(bodies, campaign_id)
            except OutcomeUnknown as error:
                # A disk that failed once may lose writes that it reported as stored: this connection writes no more.
                self._broken = str(error)
                raise

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

    def verify(self, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Check the whole hash chain; returns the number of events.

        `progress` receives the number of checked events and the number of all events.

        Raises:
            LedgerProblem: names the first event that does not verify.
        """
        seq, previous, after = 0, "", -(2**63)
        with self._guard, connection.sentences(self.path):
            (total,) = run(self._db, "SELECT count(*) FROM events").fetchone()
        while True:
            with self._guard, connection.sentences(self.path):
                chunk = run(
                    self._db, f"SELECT {_AS_BYTES} FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (after, _CHUNK)
                ).fetchall()
            for row in chunk:
                seq += 1
                previous = _check_link(row, seq, previous)
            progress(seq, total)
            if len(chunk) < _CHUNK:
                break
            after = seq
        with self._guard, connection.sentences(self.path):
            head = run(self._db, "SELECT seq, hash FROM head").fetchone()
        if head != (seq, previous):
            raise LedgerProblem(
                f"The ledger ends with event {seq}, but its head records {head}: events after {seq} were removed or "
                "forged. Restore the ledger from a copy."
            )
        return seq

    def verify_orders(self) -> None:
        """Check the integrity of the database, and compare the orders table with a replay of the events.

        Raises:
            LedgerProblem: names the damage that SQLite reports, or the first order that differs from the replay.
        """
        with self._guard, connection.sentences(self.path):
            (sound,) = run(self._db, "PRAGMA integrity_check(1)").fetchone()
            if sound != "ok":
                raise LedgerProblem(f"The ledger {self.path} is damaged: {sound}. Restore it from a copy.")
            odd = differing_order(self._db)
        if odd:
            raise LedgerProblem(
                f"Order {odd} in the orders table differs from its events: the table was changed outside ENPIRE. "
                "Restore the ledger from a copy."
            )

    def close(self) -> None:
        """Close the database and release the lock. Allowed twice."""
        db = getattr(self, "_db", None)
        if db is not None:
            db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _prepare(self) -> None:
        if not self.read_only:
            migrate(self._db, self.path)
        elif not (version := require_known(self._db, self.path)):
            raise LedgerProblem(
                f"{self.path} is an empty database and no ledger: start a campaign, or name another home."
            )
        elif version < len(STEPS):
            raise OldSchema(f"The ledger {self.path} has an old schema: open it once for writing to migrate it.")

    def _append(self, bodies: Sequence[tuple[str, str]], campaign_id: str) -> list[LedgerEntry]:
        seq, previous = run(self._db, "SELECT seq, hash FROM head").fetchone()
        appended: list[LedgerEntry] = []
        for kind, text in bodies:
            seq, stamp_ns, before = seq + 1, self._wall_ns(), previous
            previous = link(seq, stamp_ns, kind.encode(), text.encode(), before.encode())
            row = (seq, stamp_ns, kind, campaign_id, text, before, previous)
            try:
                entry = read_entry(row)
            except FileProblem as error:
                raise LedgerProblem(f"The event {kind!r} cannot be recorded: {error}") from error
            run(self._db, f"INSERT INTO events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            project(self._db, entry)
            appended.append(entry)
        run(self._db, "UPDATE head SET seq = ?, hash = ?", (seq, previous))
        return appended


def open_to_read(path: Path) -> SqliteLedger:
    """Open a ledger for reading, also while another process writes to it.

    A ledger with an old schema is copied and migrated first. An incomplete write of a killed process is rolled back
    first, here or by the orchestrator that holds the ledger's lock since then.
    """
    try:
        return SqliteLedger(path, read_only=True)
    except (CutWrite, OldSchema):
        with contextlib.suppress(LedgerProblem):
            SqliteLedger(path).close()
        return SqliteLedger(path, read_only=True)


def link(seq: int, stamp_ns: int, kind: bytes, body: bytes, previous: bytes) -> str:
    """The hash of one event: sha256 over its fields and the hash of the previous event, one per line."""
    return hashlib.sha256(b"\n".join((b"%d" % seq, b"%d" % stamp_ns, kind, body, previous))).hexdigest()


def _check_link(row: Sequence[object], seq: int, previous: str) -> str:
    found, stamp_ns, kind, campaign, body, before, digest, named = row
    problem = f"Event {seq} of the ledger does not verify: "
    advice = " The ledger was changed or damaged from this event on; restore it from a copy."
    if not (
        isinstance(stamp_ns, int) and isinstance(kind, bytes) and isinstance(body, bytes) and isinstance(before, bytes)
    ):
        raise LedgerProblem(f"{problem}its fields are damaged.{advice}")
    if found != seq:
        raise LedgerProblem(f"{problem}event {found} is in its place.{advice}")
    if before != previous.encode():
        raise LedgerProblem(f"{problem}it does not follow the previous event.{advice}")
    linked = link(seq, stamp_ns, kind, body, before)
    if digest != linked.encode():
        raise LedgerProblem(f"{problem}its hash does not match its content.{advice}")
    if campaign != (named or b""):
        raise LedgerProblem(f"{problem}its campaign column and its body name different campaigns.{advice}")
    return linked


def _checked_kind(kind: str) -> str:
    if not kind or not kind.isprintable():
        raise LedgerProblem(f"An event cannot have the kind {kind!r}: a kind is a few printable words.")
    return kind


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
