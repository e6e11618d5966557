"""Connections to the ledger's SQLite file: durable settings, and SQLite errors as EnpireErrors."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from enpire.errors import CutWrite, EnpireError, LedgerProblem, OutcomeUnknown, StorageFull
from enpire.store import durable
from enpire.store.copy_names import advice

BUSY_TIMEOUT_S = 30.0
SAFE_WAL = (3, 51, 3)
"""First SQLite version without the WAL-reset corruption; with an older one the ledger uses a rollback journal."""
_CACHE_KIB = 16384
"""Pages that the writer keeps. With SQLite's 2 MiB it read 45 pages again for each order of a ledger with 5,000."""
LOADED_SQLITE = sqlite3.sqlite_version_info
"""Version of the SQLite library of this process."""


def open_writer(path: Path) -> sqlite3.Connection:
    """A connection that may write: every commit does an fsync; the journal mode is safe in the loaded SQLite."""
    with sentences(path):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        connection.execute(f"PRAGMA journal_mode = {'WAL' if LOADED_SQLITE >= SAFE_WAL else 'TRUNCATE'}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A read-only connection for any thread or process; LedgerProblem when there is no ledger."""
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
    """Open or create a database; its journal mode: `wal`, or `truncate` if the loaded SQLite is older than SAFE_WAL."""
    database = open_writer(path)
    try:
        return str(database.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        database.close()


def snapshot(db: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of a database in a temporary file of SQLite, page by page; the caller closes it."""
    copy = sqlite3.connect("", isolation_level=None)
    try:
        db.backup(copy)
        copy.execute("PRAGMA trusted_schema = OFF")
        copy.execute("PRAGMA cell_size_check = ON")
    except BaseException:
        copy.close()
        raise
    return copy


def scratch() -> sqlite3.Connection:
    """An empty database in memory."""
    return sqlite3.connect(":memory:", isolation_level=None)


@contextmanager
def atomic(db: sqlite3.Connection) -> Generator[None]:
    """One transaction: commits every write of the block, or rolls all of them back when the block raises."""
    db.execute("BEGIN")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise


def run(db: sqlite3.Connection, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
    """Execute one statement, in the open transaction if there is one."""
    return db.execute(sql, values)


@contextmanager
def sentences(path: Path) -> Generator[None]:
    """Turn an error of SQLite in the block into LedgerProblem, CutWrite, StorageFull or OutcomeUnknown."""
    try:
        yield
    except sqlite3.Error as error:
        raise _sentence(error, path) from error
    except UnicodeDecodeError as error:
        # SQLite's messages quote damaged names, and stored text may be damaged too.
        raise LedgerProblem(f"The ledger {path} is damaged: {error}. {advice(path)}") from error


def _sentence(error: sqlite3.Error, path: Path) -> EnpireError:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code in (sqlite3.SQLITE_READONLY_ROLLBACK, sqlite3.SQLITE_READONLY_RECOVERY):
        return CutWrite(
            f"A process ended in the middle of a write to the ledger {path}, and a reader cannot undo it: start "
            "the orchestrator, or open the ledger once for writing."
        )
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StorageFull(
                f"The disk refused to write the ledger {path}: {error}. Nothing was appended. Free some space on "
                "that disk: no order starts before that."
            )
        case sqlite3.SQLITE_CANTOPEN if durable.is_spent():
            return durable.spent(path)
        case sqlite3.SQLITE_IOERR:
            return OutcomeUnknown(
                f"The disk failed while it wrote the ledger {path}: {error}. The last write may or may not be stored: "
                "check the disk, start the program again and read the end of the ledger."
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LedgerProblem(
                f"Another process locked the ledger {path} for more than {BUSY_TIMEOUT_S:.0f} s: end its query or the "
                "process, and try again."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return LedgerProblem(f"The ledger {path} is damaged: {error}. Do not use this file again. {advice(path)}")
        case _:
            return LedgerProblem(f"SQLite refused an operation on the ledger {path}: {error}.")
