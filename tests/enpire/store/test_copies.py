"""Verified copies of the ledger: made while it is written, bounded in number, put in place by an operator."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from enpire.errors import LedgerProblem
from enpire.store import copies
from enpire.store.copies import make_copy, restore, verify_copy
from enpire.store.copy_names import copies as known_copies
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.store.upkeep import Trouble, Upkeep
from tests.enpire.store.store_samples import a_recording, an_episode, an_order, ended, issued
from tests.fakes.sample_events import append


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "home" / "ledger.db")
    append(opened, [issued(order := an_order()), ended(an_episode(order, "failure"))])
    yield opened
    opened.close()


def test_a_copy_is_verified_and_holds_what_the_ledger_held(ledger: SqliteLedger) -> None:
    copy = make_copy(ledger, "c1", "2026-11-23")
    assert copy == ledger.path.parent / "copies" / "2026-11-23_c1.db"
    assert verify_copy(copy, ledger.path.parent).head == ledger.head
    append(ledger, [("note", {"n": 1})])
    assert make_copy(ledger, "c1", "2026-11-23") == copy, "one for each campaign and day"
    assert verify_copy(copy, ledger.path.parent).head.seq == 3
    assert [path.name for path in copy.parent.iterdir()] == [copy.name], "nothing incomplete is left"


def test_a_copy_is_one_file_and_a_reader_can_make_it(ledger: SqliteLedger, tmp_path: Path) -> None:
    ledger.database.execute("PRAGMA journal_mode = WAL")
    append(ledger, [("note", {"n": 1})])
    with closing(SqliteLedger(ledger.path, read_only=True)) as reader:
        copied = reader.back_up(tmp_path / "copy.db")
    assert copied.head == ledger.head
    assert copied.signature == "The HMAC of the head is valid and covers every event."
    assert (tmp_path / "copy.db").read_bytes()[18:20] == b"\1\1", "read and write version: no write-ahead log"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["copy.db"]


def test_the_number_of_copies_is_bounded_and_the_oldest_go_first(ledger: SqliteLedger) -> None:
    (ledger.path.parent / "copies").mkdir()
    (ledger.path.parent / "copies" / "notes.txt").write_text("of the operator")
    for day in range(1, copies.KEPT + 4):
        make_copy(ledger, "c1", f"2026-11-{day:02}")
    kept = known_copies(ledger.path)
    assert [path.name for path in kept] == [f"2026-11-{day:02}_c1.db" for day in range(4, copies.KEPT + 4)]
    assert (ledger.path.parent / "copies" / "notes.txt").exists()


def test_a_copy_of_a_damaged_ledger_is_refused_and_the_earlier_one_stays(ledger: SqliteLedger) -> None:
    copy = make_copy(ledger, "c1", "2026-11-23")
    before = copy.read_bytes()
    ledger.database.execute("UPDATE orders SET outcome = 'success'")
    with pytest.raises(LedgerProblem, match="in the orders table differs from its events"):
        make_copy(ledger, "c1", "2026-11-23")
    assert copy.read_bytes() == before
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_a_ledger_is_copied_while_it_is_written(ledger: SqliteLedger) -> None:
    append(ledger, [("note", {"text": "x" * 50_000}) for _ in range(40)])
    made: list[int] = []

    def copy() -> None:
        for _ in range(5):
            path = make_copy(ledger, "c1", "2026-11-23")
            made.append(verify_copy(path, path.parent.parent).head.seq)

    thread = threading.Thread(target=copy)
    thread.start()
    while thread.is_alive():
        append(ledger, [issued(order := an_order()), ended(an_episode(order))])
    thread.join()
    assert len(made) == 5
    assert made == sorted(made)
    assert ledger.verify() >= made[-1]


def test_a_restored_copy_replaces_the_ledger_and_the_loss_is_known(ledger: SqliteLedger, tmp_path: Path) -> None:
    path = ledger.path
    copy = make_copy(ledger, "c1", "2026-11-23")
    append(ledger, [("note", {"n": 1})])
    newest = ledger.head
    with pytest.raises(LedgerProblem, match="is in use by process"):
        restore(path, copy)
    ledger.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        editor.execute("UPDATE orders SET outcome = 'success'")
    with pytest.raises(LedgerProblem, match=rf"The newest verified copy is {copy}; `enpire ledger restore` shows"):
        SqliteLedger(path)
    done = restore(path, copy)
    assert (done.head.seq, done.lost) == (2, newest)
    assert done.replaced.is_file()
    with closing(SqliteLedger(path)) as again:
        assert again.head == done.head
        assert again.examine().signature == "The HMAC of the head is valid and covers every event."


def test_a_copy_that_was_edited_or_is_of_another_lab_is_not_put_in_place(ledger: SqliteLedger, tmp_path: Path) -> None:
    copy = make_copy(ledger, "c1", "2026-11-23")
    ledger.close()
    before = ledger.path.read_bytes()
    with closing(SqliteLedger(tmp_path / "other" / "ledger.db")) as other:
        foreign = make_copy(other, "c1", "2026-11-23")
    with pytest.raises(LedgerProblem, match="does not fit event 0"):
        restore(ledger.path, foreign)
    with closing(sqlite3.connect(copy, isolation_level=None)) as editor:
        editor.execute("UPDATE orders SET outcome = 'success'")
    with pytest.raises(LedgerProblem, match="in the orders table differs"):
        restore(ledger.path, copy)
    assert ledger.path.read_bytes() == before


def test_a_half_written_journal_is_not_applied_to_a_restored_copy(ledger: SqliteLedger) -> None:
    copy = make_copy(ledger, "c1", "2026-11-23")
    ledger.close()
    journal = ledger.path.with_name("ledger.db-journal")
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"left by a killed writer" * 300)
    restore(ledger.path, copy)
    with closing(SqliteLedger(ledger.path)) as again:
        assert again.verify() == 2


# ---- the thread of a session


def troubles(upkeep: Upkeep, wait_s: float = 300.0) -> list[Trouble]:
    until_s = time.monotonic() + wait_s
    while time.monotonic() < until_s:
        if found := upkeep.troubles():
            return found
        time.sleep(0.01)
    return []


def test_changed_files_are_found_while_a_session_runs(ledger: SqliteLedger, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "home" / "episodes")
    folders: list[Path] = []
    for seed in range(3):
        order = an_order()
        append(ledger, [issued(order)])
        episode, data = a_recording(order, seed=seed)
        folders.append(store.put(episode, data))
        append(ledger, [ended(episode)])
    with Upkeep(ledger=ledger, store=store, campaign_id="c1") as sound:
        time.sleep(0.3)
        assert sound.troubles() == []
    data = bytearray((folders[1] / "arrays.npz").read_bytes())
    data[100] ^= 1
    (folders[1] / "arrays.npz").write_bytes(data)
    with Upkeep(ledger=ledger, store=store, campaign_id="c1") as upkeep:
        (found,) = troubles(upkeep)
    assert found.differs
    assert f"The files of episode {folders[1].name} were changed after they were recorded" in found.sentence


def test_a_session_copies_the_ledger_at_its_start_at_each_new_day_and_at_its_end(ledger: SqliteLedger) -> None:
    days = iter(["2026-11-23", "2026-11-24", "2026-11-25"])  # asked at the start, after the one recording, at the end
    upkeep = Upkeep(ledger=ledger, store=FolderStore(ledger.path.parent), campaign_id="c1", day=lambda: next(days))
    with upkeep:
        until_s = time.monotonic() + 300
        while len(known_copies(ledger.path)) < 2 and time.monotonic() < until_s:
            time.sleep(0.01)
        append(ledger, [("note", {"n": 1})])
    made = known_copies(ledger.path)
    assert [path.name for path in made] == [f"2026-11-{day}_c1.db" for day in (23, 24, 25)]
    assert [verify_copy(path, ledger.path.parent).head.seq for path in made] == [2, 2, 3]


def test_a_disk_that_refuses_the_copy_is_reported_and_ends_no_session(ledger: SqliteLedger) -> None:
    (ledger.path.parent / "copies").write_text("a file where the folder belongs")
    with Upkeep(ledger=ledger, store=FolderStore(ledger.path.parent), campaign_id="c1") as upkeep:
        (found,) = troubles(upkeep)
    assert found.sentence.startswith("The ledger could not be copied: ")
    assert not found.differs


def test_a_copy_of_an_older_version_can_be_restored(ledger: SqliteLedger, tmp_path: Path) -> None:
    ledger.close()
    old = tmp_path / "ledger.db.schema-5"
    shutil.copy(ledger.path, old)
    with closing(sqlite3.connect(old, isolation_level=None)) as editor:
        editor.execute("DROP TABLE head_hmac")
        editor.execute("PRAGMA user_version = 5")
    assert restore(ledger.path, old).head.seq == 2
    with closing(SqliteLedger(ledger.path)) as again:
        assert "Events 1 to 2 are older than the first HMAC" in again.examine().signature
