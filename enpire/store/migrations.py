"""The ledger's schema as numbered steps, one transaction each; an existing file is copied before the first step.

A file's `user_version` is the number of its last step. A released step is never edited; new steps are added at the
end. No step rewrites events: a step may drop and replay only tables that are computed from them (the orders table).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from enpire.errors import LedgerProblem
from enpire.store import durable, head, removal
from enpire.store.connection import run
from enpire.store.projection import LIST_INDEXES, ORDERS_SCHEMA, replay
from enpire.store.secret import lab_secret
from enpire.store.table_tools import database

if TYPE_CHECKING:
    from sqlite_utils import Database

APPLICATION_ID = 0x454E5052
"""SQLite's application_id of a ledger: the letters ENPR."""

type Step = Callable[[Database, Path], None]
"""Called with the database and the path of the ledger, inside a transaction."""


def _events(ledger: Database, path: Path) -> None:
    """The events, and the head of their chain, which shows when events at the end are missing."""
    # Not by `create(strict=True)`: it leaves out STRICT, in silence, when its own probe of the file fails.
    run(
        ledger.conn,
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, stamp_ns INTEGER NOT NULL, kind TEXT NOT NULL, "
        "campaign_id TEXT NOT NULL, body TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT",
    )
    run(ledger.conn, "CREATE INDEX events_by_campaign ON events (campaign_id, seq)")
    run(ledger.conn, "CREATE INDEX events_by_kind ON events (kind, seq)")
    run(
        ledger.conn,
        "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL) STRICT",
    )
    run(ledger.conn, "INSERT INTO head VALUES (1, 0, '')")


def _orders(ledger: Database, path: Path) -> None:
    """One row per order, replayed from the events."""
    for statement in ORDERS_SCHEMA:
        run(ledger.conn, statement)
    replay(ledger.conn, ledger.conn)


def _orders_anew(ledger: Database, path: Path) -> None:
    """Drop the orders table and replay it, because its columns changed."""
    ledger.table("orders").drop()
    _orders(ledger, path)


def _head_hmac(ledger: Database, path: Path) -> None:
    """The HMAC of the head, from now on; events that are there already are counted in `since`."""
    run(ledger.conn, head.SCHEMA)
    last = head.Head(*run(ledger.conn, "SELECT seq, hash FROM head").fetchone())
    hmac = head.head_hmac(lab_secret(path.parent), last, since=last.seq)
    run(ledger.conn, "INSERT INTO head_hmac VALUES (1, ?, ?)", (last.seq, hmac))


def _list_indexes(ledger: Database, path: Path) -> None:
    """Indexes of the orders table; a table that an earlier step of this version made has them already."""
    for statement in LIST_INDEXES:
        run(ledger.conn, statement.replace("CREATE INDEX", "CREATE INDEX IF NOT EXISTS"))


STEPS: tuple[Step, ...] = (
    _events, _orders, _orders_anew, _orders_anew, _orders_anew, _head_hmac, _orders_anew, _list_indexes,
    _orders_anew,
)  # fmt: skip
SIGNED = STEPS.index(_head_hmac) + 1
"""From this schema on, the head has an HMAC; later steps need no secret."""
PRESENT_ORDERS = len(STEPS) - STEPS[::-1].index(_orders_anew)
"""From this schema on, the orders table has its present columns; later steps do not replay it."""


def migrate(db: sqlite3.Connection, path: Path, steps: Sequence[Step] = STEPS) -> None:
    """Migrate a file to the newest schema; LedgerProblem when its schema is newer, or when it is no ledger."""
    version = require_known(db, path, len(steps))
    if version == len(steps):
        return
    if version:
        _copy(db, path, version)
    ledger = database(db)
    for number, step in enumerate(steps[version:], start=version + 1):
        with ledger.atomic():
            step(ledger, path)
            run(db, f"PRAGMA user_version = {number}")
            run(db, f"PRAGMA application_id = {APPLICATION_ID}")


def require_known(db: sqlite3.Connection, path: Path, newest: int = len(STEPS)) -> int:
    """The schema number of a file; LedgerProblem when it is newer than `newest`, or when the file is no ledger."""
    (version,) = run(db, "PRAGMA user_version").fetchone()
    (application,) = run(db, "PRAGMA application_id").fetchone()
    (tables,) = run(db, "SELECT count(*) FROM sqlite_schema").fetchone()
    if (tables or version) and application != APPLICATION_ID:
        raise LedgerProblem(f"{path} is a database, but not an ENPIRE ledger: name another home folder.")
    if version > newest:
        raise LedgerProblem(
            f"The ledger {path} has schema {version}, this version of ENPIRE reads up to {newest}: use the newer "
            "version that wrote it, or the copy that it made in the same folder."
        )
    return int(version)


def _copy(db: sqlite3.Connection, path: Path, version: int) -> None:
    target = path.with_name(f"{path.name}.schema-{version}")
    staged = path.with_name(f"{durable.STAGED}{target.name}")
    removal.remove(staged, path.parent)
    copy = sqlite3.connect(staged)
    try:
        db.backup(copy)
    finally:
        copy.close()
    durable.adopt(staged, target, path.parent)
