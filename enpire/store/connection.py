"""Connections to the ledger's SQLite file, with the settings that keep it safe and errors turned into sentences."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from enpire.errors import CutWrite, EnpireError, LedgerProblem, OutcomeUnknown, StorageFull
from enpire.store import durable

BUSY_TIMEOUT_S = 30.0
SAFE_WAL = (3, 51, 3)
"""First SQLite without the WAL-reset corruption; with an older one the ledger keeps a rollback journal."""
LOADED_SQLITE = sqlite3.sqlite_version_info
"""Version of the SQLite library of this process."""


def open_writer(path: Path) -> sqlite3.Connection:
    """A connection that may write: an fsync in every commit, a journal mode that the loaded SQLite does safely."""
    with sentences(path):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        connection.execute(f"PRAGMA journal_mode = {'WAL' if LOADED_SQLITE >= SAFE_WAL else 'TRUNCATE'}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that can only read, for any thread or process; LedgerProblem when there is no ledger."""
    if not path.is_file():
        raise LedgerProblem(f"There is no ledger at {path}: start a campaign there first, or name another home folder.")
    with sentences(path):
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection


def journal_mode(path: Path) -> str:
    """Create a database; its journal mode: `wal`, or `truncate` where the loaded SQLite is older than SAFE_WAL."""
    database = open_writer(path)
    try:
        return str(database.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        database.close()


def scratch() -> sqlite3.Connection:
    """An empty database in memory."""
    return sqlite3.connect(":memory:", isolation_level=None)


@contextmanager
def atomic(db: sqlite3.Connection) -> Generator[None]:
    """One transaction: all that is written inside is committed together, or nothing when something is raised."""
    db.execute("BEGIN")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise


def run(db: sqlite3.Connection, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
    """One statement on a connection, inside whatever transaction is open."""
    return db.execute(sql, values)


@contextmanager
def sentences(path: Path) -> Generator[None]:
    """Turn what SQLite raises inside into LedgerProblem, StorageFull or OutcomeUnknown."""
    try:
        yield
    except sqlite3.Error as error:
        raise _sentence(error, path) from error
    except UnicodeDecodeError as error:
        # SQLite quotes damaged names in its messages, and stored text may be damaged too.
        raise LedgerProblem(f"The ledger {path} is damaged: {error}. Restore it from a copy.") from error


def _sentence(error: sqlite3.Error, path: Path) -> EnpireError:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code in (sqlite3.SQLITE_READONLY_ROLLBACK, sqlite3.SQLITE_READONLY_RECOVERY):
        return CutWrite(
            f"The ledger {path} was left in the middle of a write, which a reader cannot undo: start the orchestrator, "
            "or open the ledger once for writing."
        )
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StorageFull(
                f"The disk refused to write the ledger {path}: {error}. Nothing was appended; free some space on that "
                "disk and go on, no order starts before that."
            )
        case sqlite3.SQLITE_CANTOPEN if durable.is_spent():
            return durable.spent(path)
        case sqlite3.SQLITE_IOERR:
            return OutcomeUnknown(
                f"The disk failed under the ledger {path}: {error}. Nobody knows whether the last write holds: check "
                "the disk, start again and look it up."
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LedgerProblem(
                f"Another process kept the ledger {path} locked for {BUSY_TIMEOUT_S:.0f} s: end its long query, or the "
                "program that holds it open, and try again."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return LedgerProblem(
                f"The ledger {path} is damaged: {error}. Restore it from a copy (copies lie beside it); do not go on "
                "with this file."
            )
        case _:
            return LedgerProblem(f"The ledger {path} refused: {error}.")
