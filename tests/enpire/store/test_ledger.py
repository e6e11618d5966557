"""The ledger: one chain, one writer, nothing acknowledged is lost, nothing is counted twice."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
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

from enpire.campaign.events import UnknownEvent
from enpire.campaign.ledger import Ledger
from enpire.campaign.order_events import OrdersIssued
from enpire.codec import order_fields
from enpire.errors import LedgerProblem, StorageFull
from enpire.store import connection
from enpire.store.ledger import SqliteLedger, locked
from enpire.store.reading import Reading
from enpire.store.verification import link
from enpire.types import Json
from tests.enpire.store.store_samples import an_episode, an_order, ended, issued, signed_again
from tests.fakes.sample_events import append


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "home" / "ledger.db")
    yield opened
    opened.close()


def test_what_was_appended_is_read_back_in_order(ledger: SqliteLedger) -> None:
    history: Ledger = ledger
    appended = append(
        history, [("campaign started", {"campaign_id": "c1", "goal": {"success": 0.97}}), ("note", {"ä": [1, None]})]
    )
    appended = [*appended, *append(history, [("note", {"n": 2})])]
    assert [event.seq for event in appended] == [1, 2, 3]
    assert list(history.events()) == appended
    assert [event.body for event in history.events(after=1, kinds=("note",))] == [
        {"campaign_id": "c1", "ä": [1, None]},
        {"n": 2},
    ]
    assert [event.seq for event in history.events(limit=2)] == [1, 2]
    assert append(history, []) == []
    assert history.verify() == 3


def test_events_are_read_in_chunks_without_a_gap(ledger: SqliteLedger) -> None:
    append(ledger, [("tick", {"n": n}) for n in range(2503)])
    assert [event.seq for event in ledger.events()] == list(range(1, 2504))
    assert [event.seq for event in ledger.events(after=1200, limit=1001)] == list(range(1201, 2202))
    assert ledger.verify() == 2503


def test_a_later_writer_goes_on_with_the_chain(tmp_path: Path) -> None:
    for n in range(3):
        with closing(SqliteLedger(tmp_path / "ledger.db")) as ledger:
            append(ledger, [("note", {"n": n})])
            assert ledger.verify() == n + 1


@pytest.mark.parametrize(
    ("kind", "body"),
    [("note", {"x": float("nan")}), ("note", {"x": {1, 2}}), ("", {}), ("a\nb", {}), ("note", {"campaign_id": 3})],
)
def test_what_json_cannot_say_is_refused(ledger: SqliteLedger, kind: str, body: dict[str, Json]) -> None:
    with pytest.raises(LedgerProblem, match=r"must be|cannot be|cannot have the kind"):
        ledger.append([UnknownEvent(kind="note", content={}), UnknownEvent(kind=kind, content=body)], "c1")
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
    append(ledger, [issued(order)])
    append(ledger, [ended(an_episode(order))])
    with pytest.raises(LedgerProblem, match=f"{order.order_id} cannot end: it ended before, as success"):
        append(ledger, [("note", {}), ended(an_episode(order, "failure"))])
    assert [event.kind for event in ledger.events()] == ["order issued", "orders ended"]
    assert Reading(ledger.database).successes("c1", "collect") == (1, 1, 1)
    assert ledger.verify() == 2


def test_one_event_cannot_end_an_order_twice(ledger: SqliteLedger) -> None:
    order = an_order()
    append(ledger, [issued(order)])
    with pytest.raises(LedgerProblem, match="it ended before"):
        append(ledger, [ended(an_episode(order), an_episode(order))])
    assert Reading(ledger.database).ends("c1").open == 1


def test_an_unknown_order_cannot_end(ledger: SqliteLedger) -> None:
    known = an_order()
    append(ledger, [issued(known)])
    with pytest.raises(LedgerProblem, match="it was never issued in campaign c1"):
        append(ledger, [ended(an_episode(known), an_episode(an_order()))])
    with pytest.raises(LedgerProblem, match="it was never issued in campaign c2"):
        append(ledger, [ended(an_episode(replace(known, campaign_id="c2")))])
    assert Reading(ledger.database).ends("c1").open == 1


def test_an_order_is_issued_once(ledger: SqliteLedger) -> None:
    order = an_order()
    append(ledger, [issued(order)])
    with pytest.raises(LedgerProblem, match="was issued before"):
        append(ledger, [issued(an_order(), order)])
    assert Reading(ledger.database).ends("c1").started == 1


def test_a_body_that_is_no_order_is_refused(ledger: SqliteLedger) -> None:
    short = order_fields(an_order())
    del short["lease"]
    with pytest.raises(LedgerProblem, match=r"cannot be recorded: .* An order lacks the field 'lease'"):
        ledger.append([UnknownEvent(kind="order issued", content={"orders": [short]})], "c1")
    with pytest.raises(LedgerProblem, match="lacks the key 'orders'"):
        ledger.append([UnknownEvent(kind="order issued", content={})], "c1")
    with pytest.raises(LedgerProblem, match="belongs to campaign c1, its event does not"):
        ledger.append([OrdersIssued(orders=(an_order(),))], "c2")
    assert ledger.verify() == 0


def test_an_event_that_no_longer_fits_its_kind_is_shown_but_not_applied(ledger: SqliteLedger) -> None:
    """As a newer version might write it: the chain holds, people see it, nothing is decided on it."""
    append(ledger, [("campaign ended", {"campaign_id": "c1", "reached": True})])
    text = '{"campaign_id":"c1","reached":"perhaps"}'
    digest = link(1, 5, b"campaign ended", text.encode(), b"")
    connection.run(ledger.database, "UPDATE events SET body = ?, stamp_ns = 5, hash = ?", (text, digest))
    connection.run(ledger.database, "UPDATE head SET hash = ?", (digest,))
    signed_again(ledger.path)
    assert ledger.verify() == 1
    (shown,) = Reading(ledger.database).tail()
    assert (shown.kind, shown.body["reached"]) == ("campaign ended", "perhaps")
    with pytest.raises(LedgerProblem, match=r"Event 1 .* reached must be true or false"):
        list(ledger.events())


# ---- the chain

_COLUMNS = ("seq", "stamp_ns", "kind", "campaign_id", "body", "previous", "hash")
_COUNT = 6


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "ledger.db"
    with closing(SqliteLedger(path)) as ledger:
        for n in range(_COUNT):
            append(ledger, [("note", {"campaign_id": "c1", "text": f"event {n}"})])
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
        ("DELETE FROM events WHERE seq = 3", "Event 3 of the ledger does not verify: event 4 is in its place"),
        ("DELETE FROM events WHERE seq > 4", "ends with event 4, but its head records"),
        ("DELETE FROM events", "ends with event 0, but its head records"),
        ("UPDATE head SET seq = 5", "its head records"),
        ("INSERT INTO events SELECT 7, stamp_ns, kind, '', body, previous, hash FROM events WHERE seq = 6", "Event 7"),
    ],
)
def test_cut_and_forged_histories_are_found(written: Path, tmp_path: Path, sql: str, sentence: str) -> None:
    path = shutil.copytree(written.parent, tmp_path / "home") / written.name
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        editor.execute(sql)
    before = path.read_bytes()
    with closing(SqliteLedger(path, read_only=True)) as ledger, pytest.raises(LedgerProblem, match=sentence):
        ledger.verify()
    with pytest.raises(LedgerProblem, match=sentence):
        SqliteLedger(path)
    assert path.read_bytes() == before, "nothing is written to a ledger that does not verify"


def test_the_hash_of_an_event_covers_its_fields_and_the_hash_before_it() -> None:
    assert link(2, 5, b"note", b"{}", b"abc") == hashlib.sha256(b"2\n5\nnote\n{}\nabc").hexdigest()


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
    assert f"is in use by process {os.getpid()}" in second.stderr
    with pytest.raises(LedgerProblem, match=f"process {os.getpid()}: one orchestrator at a time"):
        SqliteLedger(ledger.path)
    ledger.close()
    SqliteLedger(ledger.path).close()


def test_who_is_refused_the_lock_keeps_no_descriptor(ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enpire.store.ledger.LABEL_S", 0.0)

    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("this system has no /proc")
    before = opened()
    for _ in range(12):
        with pytest.raises(LedgerProblem, match="one orchestrator at a time"), locked(ledger.path):
            pytest.fail("the lock is held")
    assert opened() < before + 6
    ledger.close()
    with locked(ledger.path), pytest.raises(LedgerProblem, match="in use by process"):
        SqliteLedger(ledger.path)
    SqliteLedger(ledger.path).close()


def test_a_writer_waits_for_one_that_is_nearly_done(ledger: SqliteLedger) -> None:
    threading.Timer(0.2, ledger.close).start()
    SqliteLedger(ledger.path).close()


def test_the_lock_names_its_holder_alone(tmp_path: Path) -> None:
    lock, before = tmp_path / "ledger.lock", os.umask(0)
    try:
        for _ in range(2):
            with closing(SqliteLedger(tmp_path / "ledger.db")):
                assert lock.read_text() == f"{os.getpid()}\n"
                assert lock.stat().st_mode & 0o777 == 0o644
            lock.write_text("a longer name of an earlier holder\n")
    finally:
        os.umask(before)


def test_readers_need_no_lock_and_cannot_write(ledger: SqliteLedger) -> None:
    append(ledger, [("note", {})])
    with closing(SqliteLedger(ledger.path, read_only=True)) as reader:
        assert reader.verify() == 1
        with pytest.raises(LedgerProblem, match="for reading only"):
            append(reader, [("note", {})])
        with pytest.raises(LedgerProblem, match="readonly"), connection.sentences(ledger.path):
            connection.run(reader.database, "DELETE FROM events")
        append(ledger, [("note", {})])
        assert reader.verify() == 2


def test_a_closed_ledger_reads_and_writes_no_more(ledger: SqliteLedger) -> None:
    append(ledger, [("note", {})])
    reader = SqliteLedger(ledger.path, read_only=True)
    for one in (reader, ledger):
        one.close()
        one.close()
        with pytest.raises(LedgerProblem, match="closed"):
            one.verify()


def test_an_empty_file_is_no_ledger_to_read(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    with pytest.raises(LedgerProblem, match="is an empty database and no ledger"):
        SqliteLedger(tmp_path / "ledger.db", read_only=True)


@pytest.mark.parametrize("call", ["ftruncate", "pwrite"])
def test_a_disk_that_refuses_the_name_in_the_lock_keeps_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(StorageFull, match=r"ledger\.lock"):
            SqliteLedger(tmp_path / "ledger.db")
    SqliteLedger(tmp_path / "ledger.db").close()


def test_a_reader_needs_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerProblem, match="There is no ledger at"):
        SqliteLedger(tmp_path / "ledger.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_readers_in_threads_see_whole_transactions(ledger: SqliteLedger) -> None:
    seen: list[int] = []
    done = threading.Event()
    append(ledger, [("pair", {}), ("pair", {})])

    def read() -> None:
        with closing(Reading.open(ledger.path)) as reading:
            while not done.is_set():
                seen.append(len(reading.events(limit=10**6)))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(20):
        append(ledger, [("pair", {}), ("pair", {})])
    deadline = time.monotonic() + 300
    while len(seen) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    done.set()
    for reader in readers:
        reader.join(300)
    assert seen
    assert all(count % 2 == 0 for count in seen)
