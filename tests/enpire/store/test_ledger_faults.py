"""The ledger when the disk is full, fails, or its writer is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from enpire.errors import CutWrite, LedgerProblem, StorageFull
from enpire.store import connection
from enpire.store.ledger import SqliteLedger, locked, open_to_read
from enpire.store.reading import Reading
from tests.fakes.sample_events import append


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "home" / "ledger.db")
    yield opened
    opened.close()


def journal_mode(ledger: SqliteLedger) -> str:
    return str(connection.run(ledger.database, "PRAGMA journal_mode").fetchone()[0])


def test_a_full_disk_keeps_what_was_there(ledger: SqliteLedger) -> None:
    append(ledger, [("note", {"n": 1})])
    pages = connection.run(ledger.database, "PRAGMA page_count").fetchone()[0]
    # SQLite's own limit stands for the full disk: the error code and the rollback are the same.
    connection.run(ledger.database, f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageFull, match="Nothing was appended. Free some space"):
        append(ledger, [("note", {"text": "x" * 100_000})])
    connection.run(ledger.database, "PRAGMA max_page_count = 1000000")
    append(ledger, [("note", {"n": 2})])
    assert [event.body for event in ledger.events()] == [{"n": 1}, {"n": 2}]
    assert ledger.verify() == 2


_FAILING = """
import resource, signal, sys
from pathlib import Path
from enpire.errors import OutcomeUnknown
from enpire.campaign.events import UnknownEvent
from enpire.store.ledger import SqliteLedger
ledger = SqliteLedger(Path(sys.argv[1]))
ledger.append([UnknownEvent(kind="note", content={"n": 1})])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096 * 8, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
for _ in range(2):
    try:
        ledger.append([UnknownEvent(kind="note", content={"text": "x" * 100_000})])
    except OutcomeUnknown as error:
        print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_after_a_failing_disk_nothing_more_is_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    run = subprocess.run([sys.executable, "-c", _FAILING, str(path)], capture_output=True, text=True, check=False)
    lines = run.stdout.splitlines()
    assert run.stderr == ""
    assert len(lines) == 2
    assert "The last write may or may not be stored" in lines[0]
    assert lines[1] == lines[0]
    with closing(SqliteLedger(path)) as ledger:
        assert ledger.verify() == 1


def test_a_write_cut_in_the_middle_is_undone_by_the_next_writer(tmp_path: Path) -> None:
    cut = cut_write(tmp_path)
    with pytest.raises(CutWrite, match="ended in the middle of a write .* a reader cannot undo it"):
        SqliteLedger(cut, read_only=True)
    with closing(SqliteLedger(cut)) as ledger:
        assert ledger.verify() == 300
    assert b"forged" not in cut.read_bytes()


def test_a_ledger_whose_writer_was_killed_in_a_write_is_read_after_that_write_is_undone(tmp_path: Path) -> None:
    cut = cut_write(tmp_path)
    with closing(open_to_read(cut)) as ledger:
        assert ledger.verify() == 300
    assert b"forged" not in cut.read_bytes()


def test_a_ledger_that_was_opened_to_read_holds_no_lock(ledger: SqliteLedger, tmp_path: Path) -> None:
    append(ledger, [("note", {"n": 1})])
    with closing(open_to_read(ledger.path)) as reader:
        assert (reader.read_only, reader.verify()) == (True, 1)
    cut = cut_write(tmp_path)
    with closing(open_to_read(cut)) as reader, closing(SqliteLedger(cut)) as writer:
        assert (reader.read_only, writer.verify()) == (True, 300)


def test_a_write_that_cannot_be_undone_names_who_holds_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enpire.store.ledger.LABEL_S", 0.0)
    cut = cut_write(tmp_path)
    with locked(cut), pytest.raises(LedgerProblem, match=f"in use by process {os.getpid()}"):
        open_to_read(cut)


def cut_write(folder: Path) -> Path:
    """A ledger of 300 events as a power cut leaves it in the middle of a write."""
    path, cut = folder / "ledger.db", folder / "cut" / "ledger.db"
    cut.parent.mkdir()
    with closing(SqliteLedger(path)) as ledger:
        append(ledger, [("note", {"text": "x" * 200}) for _ in range(300)])
        if journal_mode(ledger) == "wal":
            pytest.skip("a write-ahead log leaves no half-written database")
        # A tiny cache spills pages into the file before the commit; copies taken then are what a power cut leaves.
        connection.run(ledger.database, "PRAGMA cache_size = 2")
        with connection.atomic(ledger.database):
            connection.run(ledger.database, "UPDATE events SET kind = 'forged'")
            for name in ("ledger.db", "ledger.db-journal", "ledger.head", "secret"):
                (cut.parent / name).write_bytes((folder / name).read_bytes())
    assert b"forged" in cut.read_bytes()
    return cut


_APPENDER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.enpire.store.store_samples import an_episode, an_order, ended, issued
from enpire.store.ledger import SqliteLedger
from tests.fakes.sample_events import append
ledger = SqliteLedger(Path(sys.argv[2]))
for _ in range(100_000):
    order = an_order()
    append(ledger, [issued(order)])
    print("issued", order.order_id, flush=True)
    append(ledger, [ended(an_episode(order))])
    print("ended", order.order_id, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    told: list[list[str]] = []
    for turn in range(2):
        command = [sys.executable, "-c", _APPENDER, str(Path(__file__).parents[3]), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            told += [writer.stdout.readline().split() for _ in range(3)]
            time.sleep(0.015 * turn)
            writer.kill()
            told += [line.split() for line in writer.stdout if line.endswith("\n")]
        with closing(SqliteLedger(path)) as ledger:
            reading = Reading(ledger.database)
            assert ledger.verify() >= len(told)
            ends = reading.ends("c1")
            assert ends.started == ends.success + ends.open
            for word, order_id in told:
                row = reading.order(order_id)
                assert row is not None
                assert word == "issued" or row.ended_seq is not None
