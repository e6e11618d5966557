"""What vouches for the end of the ledger: golden hashes, the HMAC of the head, the head file."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from enpire.campaign.events import UnknownEvent
from enpire.errors import EnpireError, FileProblem, LedgerProblem, UsageError
from enpire.store.head import Head, HeadFile, head_hmac, parse_head, signed_head
from enpire.store.ledger import SqliteLedger
from enpire.store.verification import link
from tests.enpire.store.store_samples import an_episode, an_order, chained_again, ended, issued, signed_again
from tests.fakes.sample_events import append


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed ledger of 2 orders and 8 notes."""
    place = tmp_path / "home" / "ledger.db"
    orders = an_order(), an_order()
    with closing(SqliteLedger(place)) as ledger:
        append(ledger, [issued(*orders), ended(an_episode(orders[0], "failure"), an_episode(orders[1], "failure"))])
        for number in range(8):
            append(ledger, [("note", {"campaign_id": "c1", "n": number})])
    return place


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        for statement in statements:
            editor.execute(statement)


def refused(path: Path, sentence: str) -> None:
    """Neither a reader verifies the ledger nor a writer opens it, and nothing is written."""
    with closing(SqliteLedger(path, read_only=True)) as reader, pytest.raises(LedgerProblem, match=sentence):
        reader.verify()
    before = path.read_bytes()
    with pytest.raises(LedgerProblem, match=sentence):
        SqliteLedger(path)
    assert path.read_bytes() == before


# ---- golden values: what is stored must verify for ever


def test_the_hash_of_an_event_is_the_one_that_old_ledgers_hold() -> None:
    first = link(1, 1763884800000000000, b"note", b'{"campaign_id":"c1","n":0}', b"")
    assert first == "79f592e33c9a93821df60e54e5faedadf851e1c5c62f68332578df52384cf435"
    second = link(2, 1763884800000000001, b"note", b'{"campaign_id":"c1","n":1}', first.encode())
    assert second == "b406057d289ee3c7e6532ca59fec0c29b17c1f062b92ac25cb8e42f8b2fd1f65"
    changed = link(2, 1763884800000000001, b"note", b'{"campaign_id":"c1","n":1}', b"0" * 64)
    assert changed != second, "the hash covers the previous hash"


def test_the_hmac_of_a_head_is_the_one_that_old_ledgers_hold() -> None:
    assert (
        head_hmac(bytes(32), Head(2, "ab" * 32), since=1)
        == "4b3e62db9b0706efbc364500dae7654676b7d624d90541675f0f864e4b5d397f"
    )


# ---- a chain that was rewritten


def test_an_event_that_was_replaced_with_its_own_right_hash_is_found(path: Path) -> None:
    body, previous = '{"campaign_id":"c1","n":99}', ""
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        stamp_ns, previous = editor.execute("SELECT stamp_ns, previous FROM events WHERE seq = 5").fetchone()
        forged = link(5, stamp_ns, b"note", body.encode(), previous.encode())
        editor.execute("UPDATE events SET body = ?, hash = ? WHERE seq = 5", (body, forged))
    refused(path, "Event 6 of the ledger does not verify: it does not follow the previous event")


@pytest.mark.parametrize(
    "forgery",
    [
        "UPDATE events SET body = replace(body, 'failure', 'success')",
        "UPDATE events SET stamp_ns = stamp_ns - 86400000000000",
        "DELETE FROM events WHERE seq > 6",
        "DELETE FROM events WHERE seq = 4",
        "INSERT INTO events SELECT 11, stamp_ns, kind, campaign_id, body, previous, hash FROM events WHERE seq = 10",
    ],
)  # fmt: skip
def test_a_history_that_was_rewritten_with_all_its_hashes_is_found(path: Path, forgery: str) -> None:
    edit(path, forgery, "UPDATE orders SET outcome = 'success'" if "failure" in forgery else "SELECT 1")
    chained_again(path)
    refused(path, "The HMAC of the head of the ledger .* does not fit event")


def test_a_forger_with_another_secret_is_found(path: Path) -> None:
    edit(path, "DELETE FROM events WHERE seq > 6")
    chained_again(path)
    kept = (path.parent / "secret").read_text()
    (path.parent / "secret").write_text("5e" * 32)
    signed_again(path)
    (path.parent / "secret").write_text(kept)
    refused(path, "The HMAC of the head of the ledger .* does not fit event 6")


def test_a_head_file_for_an_older_copy_needs_the_secret(path: Path) -> None:
    shutil.copy(path, older := path.with_name("older"))
    with closing(SqliteLedger(path)) as ledger:
        old = ledger.head
        append(ledger, [("note", {"n": 11})])
    older.replace(path)
    HeadFile(path).write(signed_head(b"guessed", old, since=0))
    refused(path, "The HMAC in .*ledger.head does not fit the lab's secret")


def test_without_the_secret_a_reader_still_compares_the_chain_with_the_head_file(path: Path) -> None:
    edit(path, "UPDATE events SET stamp_ns = stamp_ns + 1")
    chained_again(path)
    (path.parent / "secret").unlink()
    with closing(SqliteLedger(path, read_only=True)) as reader, pytest.raises(LedgerProblem, match="another hash than"):
        reader.verify()


def test_a_history_that_was_made_to_look_old_is_found(path: Path) -> None:
    edit(path, "DELETE FROM events WHERE seq > 6", "DROP TABLE head_hmac", "PRAGMA user_version = 5")
    chained_again(path)
    with pytest.raises(LedgerProblem, match=r"ends with event 6, but .*ledger.head records event 10: 4 events were"):
        SqliteLedger(path)
    path.with_suffix(".head").unlink()
    with closing(SqliteLedger(path)) as ledger:
        assert "Events 1 to 6 are older than the first HMAC" in ledger.examine().signature, "and this is never hidden"


def test_an_older_copy_in_place_of_the_ledger_is_found(path: Path) -> None:
    shutil.copy(path, older := path.with_name("older"))
    with closing(SqliteLedger(path)) as ledger:
        append(ledger, [("note", {"n": 11}), ("note", {"n": 12})])
    older.replace(path)
    refused(path, r"ends with event 10, but .*ledger.head records event 12: 2 events were removed, or an older copy")


def test_a_ledger_that_was_removed_is_not_begun_anew(path: Path) -> None:
    path.unlink()
    with pytest.raises(LedgerProblem, match=r"ledger.db is missing, but .*ledger.head records its event 10"):
        SqliteLedger(path)


def test_a_head_file_that_was_removed_is_missed(path: Path) -> None:
    path.with_suffix(".head").unlink()
    refused(path, r"ledger.head is missing, so it cannot be checked that no event was removed")


# ---- what cannot be checked is said


def test_without_the_secret_a_reader_says_what_it_did_not_check_and_a_writer_refuses(path: Path) -> None:
    (path.parent / "secret").unlink()
    with closing(SqliteLedger(path, read_only=True)) as reader:
        assert reader.examine().signature.startswith(
            "The HMAC of the head was not checked, because this process has no"
        )
    with pytest.raises(LedgerProblem, match=r"secret is missing .* so the ledger cannot be written"):
        SqliteLedger(path)
    assert not (path.parent / "secret").exists(), "a new one would make the old HMAC wrong"


def test_a_damaged_secret_is_named(path: Path) -> None:
    (path.parent / "secret").write_text("not a secret")
    with pytest.raises(FileProblem, match="the lab's secret .* is damaged|The lab's secret .* is damaged"):
        SqliteLedger(path)


def test_a_ledger_alone_is_verified_without_its_home(path: Path, tmp_path: Path) -> None:
    alone = tmp_path / "elsewhere" / "ledger.db"
    alone.parent.mkdir()
    shutil.copy(path, alone)
    with closing(SqliteLedger(alone, read_only=True)) as reader:
        found = reader.examine()
    assert found.head.seq == 10
    assert "was not checked" in found.signature


# ---- no false alarm

_KILLED = """
import os, sys
from pathlib import Path
from enpire.campaign.events import UnknownEvent
from enpire.store.ledger import SqliteLedger
ledger = SqliteLedger(Path(sys.argv[1]))
for n in range(int(sys.argv[2])):
    ledger.append([UnknownEvent(kind="note", content={"n": n})])
os._exit(9)
"""


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_writer_that_dies_before_it_wrote_the_head_file_gives_no_alarm(path: Path, count: int) -> None:
    subprocess.run([sys.executable, "-c", _KILLED, str(path), str(count)], check=False)
    filed = HeadFile(path).read()
    assert filed is not None
    assert filed.head.seq <= 10 + count
    with closing(SqliteLedger(path, read_only=True)) as reader:
        assert reader.verify() == 10 + count
    with closing(SqliteLedger(path)) as ledger:
        assert ledger.head.seq == 10 + count
    filed = HeadFile(path).read()
    assert filed is not None
    assert filed.head.seq == 10 + count, "the next writer brings it up to date"


def test_the_head_file_follows_a_writer_that_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def filed() -> int:
        found = HeadFile(path).read()
        assert found is not None
        return found.head.seq

    with closing(SqliteLedger(path)) as ledger:
        for number, every_s, written in ((11, 1e9, 11), (12, 1e9, 11), (13, 0.0, 13), (14, 1e9, 13)):
            monkeypatch.setattr("enpire.store.head.EVERY_S", every_s)
            append(ledger, [("note", {"n": number})])
            assert filed() == written
    assert filed() == 14, "and at the end"


def test_a_disk_that_refuses_the_head_file_loses_no_event(path: Path) -> None:
    file = path.with_suffix(".head")
    kept = file.read_bytes()
    ledger = SqliteLedger(path)
    file.unlink()
    file.mkdir()
    append(ledger, [("note", {"n": 11})])
    ledger.close()
    file.rmdir()
    file.write_bytes(kept)
    with closing(SqliteLedger(path)) as ledger:
        assert ledger.verify() == 11


def test_a_ledger_is_verified_while_it_is_written(path: Path) -> None:
    problems: list[EnpireError] = []
    done = threading.Event()
    counts: set[int] = set()

    def verify() -> None:
        while not done.is_set():
            try:
                with closing(SqliteLedger(path, read_only=True)) as reader:
                    counts.add(reader.verify())
            except EnpireError as problem:
                problems.append(problem)

    with closing(SqliteLedger(path)) as ledger:
        thread = threading.Thread(target=verify)
        thread.start()
        number = 0
        while len(counts) < 4 and number < 20000:
            order = an_order()
            append(ledger, [issued(order), ended(an_episode(order))])
            number += 1
        done.set()
        thread.join()
    assert problems == []
    assert len(counts) >= 4


def test_the_secret_is_readable_by_its_owner_only(path: Path) -> None:
    assert (path.parent / "secret").stat().st_mode & 0o777 == 0o600
    assert (path.parent / "secret").stat().st_size == 64


# ---- heads as text


def test_a_head_is_one_word_and_read_back() -> None:
    head = Head(12, "ab" * 32)
    assert parse_head(f" {head}\n") == head
    assert parse_head("0:") == Head(0, "")
    for wrong in (
        "",
        "12",
        "12:",
        "0:" + "a" * 64,
        "12:" + "A" * 64,
        "x:" + "a" * 64,
        "-1:" + "a" * 64,
        "1:" + "a" * 63,
    ):
        with pytest.raises(UsageError, match="is no head of a ledger: write SEQUENCE:HASH"):
            parse_head(wrong)


def test_an_empty_ledger_has_a_head(tmp_path: Path) -> None:
    with closing(SqliteLedger(tmp_path / "ledger.db")) as ledger:
        assert str(ledger.examine().head) == "0:"
        ledger.append([UnknownEvent(kind="note", content={})])
        assert ledger.head.seq == 1
