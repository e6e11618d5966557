"""The ledger's schema as numbered steps, each in one transaction; an existing file is copied before the first.

The number of steps that a file has seen is its `user_version`. Steps are never edited after a release; a new one is
added at the end. Events are never rewritten: only views of them (the orders table) may be dropped and replayed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from enpire.errors import LedgerProblem
from enpire.store import durable
from enpire.store.connection import atomic, run
from enpire.store.projection import ORDERS_SCHEMA, replay

APPLICATION_ID = 0x454E5052
"""SQLite's application_id of a ledger: the letters ENPR."""

type Step = Callable[[sqlite3.Connection], None]


def _events(db: sqlite3.Connection) -> None:
    """The history, and where it ends: a cut tail is found although the rest of the chain is whole."""
    run(
        db,
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, stamp_ns INTEGER NOT NULL, kind TEXT NOT NULL, "
        "campaign_id TEXT NOT NULL, body TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT",
    )
    run(db, "CREATE INDEX events_by_campaign ON events (campaign_id, seq)")
    run(db, "CREATE INDEX events_by_kind ON events (kind, seq)")
    run(
        db,
        "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL) STRICT",
    )
    run(db, "INSERT INTO head VALUES (1, 0, '')")


def _orders(db: sqlite3.Connection) -> None:
    """One row per order, replayed from the events."""
    for statement in ORDERS_SCHEMA:
        run(db, statement)
    replay(db, db)


def _orders_anew(db: sqlite3.Connection) -> None:
    """The orders table once more: it has columns that it did not have."""
    run(db, "DROP TABLE orders")
    _orders(db)


STEPS: tuple[Step, ...] = (_events, _orders, _orders_anew, _orders_anew)


def migrate(db: sqlite3.Connection, path: Path, steps: Sequence[Step] = STEPS) -> None:
    """Bring a file to the schema of this software; LedgerProblem when it is newer, or not a ledger at all."""
    version = require_known(db, path, len(steps))
    if version == len(steps):
        return
    if version:
        _copy(db, path, version)
    for number, step in enumerate(steps[version:], start=version + 1):
        with atomic(db):
            step(db)
            run(db, f"PRAGMA user_version = {number}")
            run(db, f"PRAGMA application_id = {APPLICATION_ID}")


def require_known(db: sqlite3.Connection, path: Path, newest: int = len(STEPS)) -> int:
    """The schema number of a file; LedgerProblem when it is newer than `newest`, or not a ledger at all."""
    (version,) = run(db, "PRAGMA user_version").fetchone()
    (application,) = run(db, "PRAGMA application_id").fetchone()
    (tables,) = run(db, "SELECT count(*) FROM sqlite_schema").fetchone()
    if (tables or version) and application != APPLICATION_ID:
        raise LedgerProblem(f"{path} is a database but not an ENPIRE ledger: name another home folder.")
    if version > newest:
        raise LedgerProblem(
            f"The ledger {path} has schema {version}, this software knows up to {newest}: use the newer software that "
            "wrote it, or the copy that it left beside the ledger."
        )
    return int(version)


def _copy(db: sqlite3.Connection, path: Path, version: int) -> None:
    target = path.with_name(f"{path.name}.schema-{version}")
    staged = path.with_name(f"{durable.STAGED}{target.name}")
    staged.unlink(missing_ok=True)
    copy = sqlite3.connect(staged)
    try:
        db.backup(copy)
    finally:
        copy.close()
    durable.adopt(staged, target)
