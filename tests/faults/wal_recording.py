"""The same transactions with a write-ahead log: SQLite's file operations, recorded by our own VFS.

Python's SQLite is older than the first that the ledger trusts with a write-ahead log (`connection.SAFE_WAL`), so the
real ledger never uses one here. `apsw` brings a newer SQLite and lets Python stand between it and the disk: it is given
the very statements that the real ledger executes, and what it leaves is opened by the real ledger.
"""

from __future__ import annotations

from collections.abc import Buffer, Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, override

import apsw

from enpire.store import connection
from enpire.store.head import Head, HeadFile, signed_head
from enpire.store.ledger import SqliteLedger
from enpire.store.migrations import migrate
from enpire.store.secret import lab_secret
from tests.fakes.sample_events import append
from tests.faults.system_calls import Op

Entry = tuple[str, Mapping[str, object]]
BEGINNING = ""
"""Marks the creation of the ledger in the result of `statements`."""


def statements(folder: Path, transactions: Mapping[str, Sequence[Entry]]) -> list[tuple[str, list[str]]]:
    """(line to print afterwards, statements) of the creation of the ledger and of each transaction, as executed."""
    path = folder / "ledger.db"
    asked: list[str] = []
    HeadFile(path).write(signed_head(lab_secret(folder), Head(0, ""), since=0))
    with closing(connection.open_writer(path)) as writer:
        writer.set_trace_callback(asked.append)
        migrate(writer, path)
        writer.set_trace_callback(None)
    told = [(BEGINNING, list(asked))]
    with closing(SqliteLedger(path)) as ledger:
        for entries in transactions.values():
            asked.clear()
            ledger.database.set_trace_callback(asked.append)
            last = append(ledger, entries)[-1]
            ledger.database.set_trace_callback(None)
            told.append((f"ledger {last.seq} {last.hash}", list(asked)))
    return told


def record(folder: Path, told: Iterable[tuple[str, Sequence[str]]], synchronous: str) -> list[Op]:
    """File operations of SQLite with a write-ahead log, with the acknowledgements in between.

    The secret is that of the ledger that `statements` made, in the folder `real` next to this one. Secret and head file
    are durable before the first statement, as `SqliteLedger` writes them.
    """
    ops: list[Op] = []
    secret = (folder.parent / "real" / "secret").read_bytes()
    first = signed_head(lab_secret(folder.parent / "real"), Head(0, ""), since=0).content()
    for name, data in (("secret", secret), ("ledger.head", first)):
        staged = f".staged-{name}"
        ops += [Op(kind="create", path=staged), Op(kind="write", path=staged, data=data), Op(kind="sync", path=staged)]
        ops += [Op(kind="rename", path=staged, to=name), Op(kind="sync", path=".")]
    vfs = _RecordingVFS(f"record-{folder.name}", ops.append)
    database = apsw.Connection(str(folder / "ledger.db"), vfs=vfs.name)
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA synchronous = {synchronous}")
        for line, sql in told:
            for statement in sql:
                database.execute(statement)
            if line:
                ops.append(Op(kind="said", data=line.encode()))
        # A checkpoint of the log into the database, as a busy ledger does from time to time, and one more transaction.
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        database.close()
    return ops


class _RecordingVFS(apsw.VFS):
    def __init__(self, name: str, tell: Callable[[Op], None]) -> None:
        self.name, self.tell = name, tell
        super().__init__(name, "")

    @override
    def xOpen(self, name: Any, flags: list[int]) -> _RecordingFile:
        made = _RecordingFile(name, flags, self.tell)
        self.tell(Op(kind="create", path=made.path))
        return made

    @override
    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.tell(Op(kind="unlink", path=Path(filename).name))
        if syncdir:
            self.tell(Op(kind="sync", path="."))


class _RecordingFile(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], tell: Callable[[Op], None]) -> None:
        self.path = Path(name.filename() if isinstance(name, apsw.URIFilename) else str(name)).name
        self.tell, self.named = tell, False
        super().__init__("", name, flags)

    @override
    def xWrite(self, data: Buffer, offset: int) -> None:
        super().xWrite(data, offset)
        self.tell(Op(kind="write", path=self.path, offset=offset, data=bytes(data)))

    @override
    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self.tell(Op(kind="truncate", path=self.path, offset=newsize))

    @override
    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self.tell(Op(kind="sync", path=self.path))
        if not self.named:
            # SQLite's own VFS syncs the folder with the first sync of a new file.
            self.named = True
            self.tell(Op(kind="sync", path="."))
