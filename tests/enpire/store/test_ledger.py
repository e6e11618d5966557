"""The ledger: one chain, one writer, nothing acknowledged is lost, nothing is counted twice."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enpire.errors import CutWrite, LedgerProblem, StorageFull
from enpire.interfaces import Ledger
from enpire.store import connection, records
from enpire.store.ledger import SqliteLedger, open_to_read
from enpire.store.reading import Reading
from tests.enpire.store.store_samples import an_episode, an_order, ended, issued


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "home" / "ledger.db")
    yield opened
    opened.close()


def test_what_was_appended_is_read_back_in_order(ledger: SqliteLedger) -> None:
    history: Ledger = ledger
    appended = history.append([("campaign started", {"campaign_id": "c1", "goal": 0.97}), ("note", {"ä": [1, None]})])
    appended = [*appended, *history.append([("note", {"n": 2})])]
    assert [event.seq for event in appended] == [1, 2, 3]
    assert list(history.events()) == appended
    assert [event.body for event in history.events(after=1, kinds=("note",))] == [{"ä": [1, None]}, {"n": 2}]
    assert [event.seq for event in history.events(limit=2)] == [1, 2]
    assert history.append([]) == []
    assert history.verify() == 3


def test_events_are_read_in_chunks_without_a_gap(ledger: SqliteLedger) -> None:
    ledger.append(("tick", {"n": n}) for n in range(2503))
    assert [event.seq for event in ledger.events()] == list(range(1, 2504))
    assert [event.seq for event in ledger.events(after=1200, limit=1001)] == list(range(1201, 2202))
    assert ledger.verify() == 2503


def test_a_later_writer_goes_on_with_the_chain(tmp_path: Path) -> None:
    for n in range(3):
        with closing(SqliteLedger(tmp_path / "ledger.db")) as ledger:
            ledger.append([("note", {"n": n})])
            assert ledger.verify() == n + 1


@pytest.mark.parametrize(
    ("kind", "body"),
    [("note", {"x": float("nan")}), ("note", {"x": {1, 2}}), ("", {}), ("a\nb", {}), ("note", {"campaign_id": 3})],
)
def test_what_json_cannot_say_is_refused(ledger: SqliteLedger, kind: str, body: dict[str, object]) -> None:
    with pytest.raises(LedgerProblem, match=r"must be|cannot be"):
        ledger.append([("note", {}), (kind, body)])
    assert ledger.verify() == 0


def journal_mode(ledger: SqliteLedger) -> str:
    return str(connection.run(ledger.database, "PRAGMA journal_mode").fetchone()[0])


def test_the_journal_mode_fits_the_loaded_sqlite(ledger: SqliteLedger) -> None:
    safe = sqlite3.sqlite_version_info >= connection.SAFE_WAL
    assert journal_mode(ledger) == ("wal" if safe else "truncate")
    assert connection.run(ledger.database, "PRAGMA synchronous").fetchone() == (2,)


# ---- exactly once


def test_an_order_ends_exactly_once(ledger: SqliteLedger) -> None:
    order = an_order()
    ledger.append([issued(order)])
    ledger.append([ended(an_episode(order))])
    with pytest.raises(LedgerProblem, match=f"{order.order_id} cannot end: it ended before, as success"):
        ledger.append([("note", {}), ended(an_episode(order, "failure"))])
    assert [event.kind for event in ledger.events()] == ["order issued", "orders ended"]
    assert Reading(ledger.database).successes("c1", "collect") == (1, 1, 1)
    assert ledger.verify() == 2


def test_one_event_cannot_end_an_order_twice(ledger: SqliteLedger) -> None:
    order = an_order()
    ledger.append([issued(order)])
    with pytest.raises(LedgerProblem, match="it ended before"):
        ledger.append([ended(an_episode(order), an_episode(order))])
    assert Reading(ledger.database).ends("c1").open == 1


def test_an_unknown_order_cannot_end(ledger: SqliteLedger) -> None:
    known = an_order()
    ledger.append([issued(known)])
    with pytest.raises(LedgerProblem, match="it was never issued in campaign c1"):
        ledger.append([ended(an_episode(known), an_episode(an_order()))])
    with pytest.raises(LedgerProblem, match="it was never issued in campaign c2"):
        ledger.append([ended(an_episode(replace(known, campaign_id="c2")))])
    assert Reading(ledger.database).ends("c1").open == 1


def test_an_order_is_issued_once(ledger: SqliteLedger) -> None:
    order = an_order()
    ledger.append([issued(order)])
    with pytest.raises(LedgerProblem, match="was issued before"):
        ledger.append([issued(an_order(), order)])
    assert Reading(ledger.database).ends("c1").started == 1


def test_a_body_that_is_no_order_is_refused(ledger: SqliteLedger) -> None:
    kind, body = issued(an_order())
    short = records.order_body(an_order())
    del short["lease"]
    with pytest.raises(LedgerProblem, match=r"cannot be recorded: An order lacks the field 'lease'"):
        ledger.append([(kind, body | {"orders": [short]})])
    with pytest.raises(LedgerProblem, match="list of orders"):
        ledger.append([(kind, {"campaign_id": "c1"})])
    with pytest.raises(LedgerProblem, match="is of campaign c1, its event is not"):
        ledger.append([(kind, body | {"campaign_id": "c2"})])


# ---- the chain

_COLUMNS = ("seq", "stamp_ns", "kind", "campaign_id", "body", "previous", "hash")
_COUNT = 6


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "ledger.db"
    with closing(SqliteLedger(path)) as ledger:
        for n in range(_COUNT):
            ledger.append([("note", {"campaign_id": "c1", "text": f"event {n}"})])
    return path


@given(st.integers(1, _COUNT), st.sampled_from(_COLUMNS), st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=40, deadline=None)
def test_one_changed_byte_is_found_and_named(written: Path, seq: int, column: str, place: int, flip: int) -> None:
    with closing(sqlite3.connect(written, isolation_level=None)) as editor:
        editor.execute("PRAGMA synchronous = OFF")
        (before,) = editor.execute(f"SELECT {column} FROM events WHERE seq = ?", (seq,)).fetchone()
        after = _flipped_number(before, place, flip) if isinstance(before, int) else _flipped_text(before, place, flip)
        moved = after if column == "seq" else seq
        if isinstance(moved, int) and moved != seq and 1 <= moved <= _COUNT:
            return  # the number of another event: SQLite itself refuses
        cast = "?" if isinstance(before, int) else "CAST(? AS TEXT)"
        editor.execute(f"UPDATE events SET {column} = {cast} WHERE seq = ?", (after, seq))
        try:
            with closing(SqliteLedger(written, read_only=True)) as ledger:
                with pytest.raises(LedgerProblem, match=r"Event \d+ of the ledger does not verify") as problem:
                    ledger.verify()
                named = int(str(problem.value).split()[1])
                assert named == (1 if isinstance(moved, int) and moved < 1 else seq)
        finally:
            editor.execute(f"UPDATE events SET {column} = ? WHERE seq = ?", (before, moved))


def _flipped_text(text: str, place: int, flip: int) -> bytes:
    raw = bytearray(text.encode() or b"\0")
    raw[place % len(raw)] ^= flip
    return bytes(raw)


def _flipped_number(number: int, place: int, flip: int) -> int:
    raw = bytearray(number.to_bytes(8, "big", signed=True))
    raw[place % 8] ^= flip
    return int.from_bytes(raw, "big", signed=True)


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("DELETE FROM events WHERE seq = 3", "Event 3 of the ledger does not verify: number 4 stands in its place"),
        ("DELETE FROM events WHERE seq > 4", "ends with event 4, but its head says"),
        ("DELETE FROM events", "ends with event 0, but its head says"),
        ("UPDATE head SET seq = 5", "its head says"),
        ("INSERT INTO events SELECT 7, stamp_ns, kind, '', body, previous, hash FROM events WHERE seq = 6", "Event 7"),
    ],
)
def test_cut_and_forged_histories_are_found(written: Path, tmp_path: Path, sql: str, sentence: str) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(written.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        editor.execute(sql)
    with closing(SqliteLedger(path)) as ledger, pytest.raises(LedgerProblem, match=sentence):
        ledger.verify()


def test_a_file_of_noise_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(LedgerProblem, match="is damaged"):
        SqliteLedger(path)
    path.unlink()
    SqliteLedger(path).close()


# ---- one writer, many readers


def test_a_second_writer_is_refused_by_name(ledger: SqliteLedger) -> None:
    code = (
        "import sys; from pathlib import Path; from enpire.store.ledger import SqliteLedger as L; L(Path(sys.argv[1]))"
    )
    second = subprocess.run([sys.executable, "-c", code, str(ledger.path)], capture_output=True, text=True, check=False)
    assert f"is being written by process {os.getpid()}" in second.stderr
    with pytest.raises(LedgerProblem, match=f"process {os.getpid()}: one orchestrator at a time"):
        SqliteLedger(ledger.path)
    ledger.close()
    SqliteLedger(ledger.path).close()


def test_a_writer_waits_for_one_that_is_nearly_done(ledger: SqliteLedger) -> None:
    threading.Timer(0.2, ledger.close).start()
    SqliteLedger(ledger.path).close()


def test_readers_need_no_lock_and_cannot_write(ledger: SqliteLedger) -> None:
    ledger.append([("note", {})])
    with closing(SqliteLedger(ledger.path, read_only=True)) as reader:
        assert reader.verify() == 1
        with pytest.raises(LedgerProblem, match="for reading only"):
            reader.append([("note", {})])
        with pytest.raises(LedgerProblem, match="readonly"), connection.sentences(ledger.path):
            connection.run(reader.database, "DELETE FROM events")
        ledger.append([("note", {})])
        assert reader.verify() == 2


def test_a_reader_needs_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerProblem, match="There is no ledger at"):
        SqliteLedger(tmp_path / "ledger.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_readers_in_threads_see_whole_transactions(ledger: SqliteLedger) -> None:
    seen: list[int] = []
    done = threading.Event()
    ledger.append([("pair", {}), ("pair", {})])

    def read() -> None:
        with closing(Reading.open(ledger.path)) as reading:
            while not done.is_set():
                seen.append(len(reading.events(limit=10**6)))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(20):
        ledger.append([("pair", {}), ("pair", {})])
    deadline = time.monotonic() + 20
    while len(seen) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    done.set()
    for reader in readers:
        reader.join(20)
    assert seen
    assert all(count % 2 == 0 for count in seen)


# ---- faults


def test_a_full_disk_keeps_what_was_there(ledger: SqliteLedger) -> None:
    ledger.append([("note", {"n": 1})])
    pages = connection.run(ledger.database, "PRAGMA page_count").fetchone()[0]
    # SQLite's own limit stands for the full disk: the error code and the rollback are the same.
    connection.run(ledger.database, f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageFull, match="Nothing was appended; free some space"):
        ledger.append([("note", {"text": "x" * 100_000})])
    connection.run(ledger.database, "PRAGMA max_page_count = 1000000")
    ledger.append([("note", {"n": 2})])
    assert [event.body for event in ledger.events()] == [{"n": 1}, {"n": 2}]
    assert ledger.verify() == 2


_FAILING = """
import resource, signal, sys
from pathlib import Path
from enpire.errors import OutcomeUnknown
from enpire.store.ledger import SqliteLedger
ledger = SqliteLedger(Path(sys.argv[1]))
ledger.append([("note", {"n": 1})])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096 * 8, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
for _ in range(2):
    try:
        ledger.append([("note", {"text": "x" * 100_000})])
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
    assert "Nobody knows whether the last write holds" in lines[0]
    assert lines[1] == lines[0]
    with closing(SqliteLedger(path)) as ledger:
        assert ledger.verify() == 1


def test_a_write_cut_in_the_middle_is_undone_by_the_next_writer(tmp_path: Path) -> None:
    cut = cut_write(tmp_path)
    with pytest.raises(CutWrite, match="left in the middle of a write, which a reader cannot undo"):
        SqliteLedger(cut, read_only=True)
    with closing(SqliteLedger(cut)) as ledger:
        assert ledger.verify() == 300
    assert b"forged" not in cut.read_bytes()


def test_a_ledger_whose_writer_was_killed_in_a_write_is_read_after_that_write_is_undone(tmp_path: Path) -> None:
    cut = cut_write(tmp_path)
    with closing(open_to_read(cut)) as ledger:
        assert ledger.verify() == 300
    assert b"forged" not in cut.read_bytes()


def cut_write(folder: Path) -> Path:
    """A ledger of 300 events as a power cut leaves it in the middle of a write."""
    path, cut = folder / "ledger.db", folder / "cut" / "ledger.db"
    cut.parent.mkdir()
    with closing(SqliteLedger(path)) as ledger:
        ledger.append(("note", {"text": "x" * 200}) for _ in range(300))
        if journal_mode(ledger) == "wal":
            pytest.skip("a write-ahead log leaves no half-written database")
        # A tiny cache spills pages into the file before the commit; copies taken then are what a power cut leaves.
        connection.run(ledger.database, "PRAGMA cache_size = 2")
        with connection.atomic(ledger.database):
            connection.run(ledger.database, "UPDATE events SET kind = 'forged'")
            for name in ("ledger.db", "ledger.db-journal"):
                (cut.parent / name).write_bytes((folder / name).read_bytes())
    assert b"forged" in cut.read_bytes()
    return cut


_APPENDER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.enpire.store.store_samples import an_episode, an_order, ended, issued
from enpire.store.ledger import SqliteLedger
ledger = SqliteLedger(Path(sys.argv[2]))
for _ in range(100_000):
    order = an_order()
    ledger.append([issued(order)])
    print("issued", order.order_id, flush=True)
    ledger.append([ended(an_episode(order))])
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
