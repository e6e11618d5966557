"""`enpire ledger verify --expect`, `head --out`, `restore`, as a person types them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from enpire.cli import app
from enpire.store.copies import make_copy
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from tests.enpire.store.store_samples import a_recording, an_order, ended, issued
from tests.fakes.sample_events import append


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one recorded episode and three notes."""
    folder = tmp_path / "home"
    order = an_order()
    episode, data = a_recording(order)
    with closing(SqliteLedger(folder / "ledger.db")) as ledger:
        append(ledger, [("campaign started", {"campaign_id": "c1", "name": "n", "task": "t"})])
        append(ledger, [issued(order)])
        FolderStore(folder / "episodes").put(episode, data)
        append(ledger, [ended(episode)])
        make_copy(ledger, "c1", "2026-11-23")
    return folder


def more(home: Path) -> None:
    with closing(SqliteLedger(home / "ledger.db")) as ledger:
        append(ledger, [("note", {"campaign_id": "c1"}), ("note", {"campaign_id": "c1"})])


def test_verify_names_everything_that_it_checked(home: Path) -> None:
    result = enpire("ledger", "verify", "--home", home)
    assert result.exit_code == 0, result.output
    head = enpire("ledger", "head", "--home", home).stdout.strip()
    assert result.stdout.splitlines() == [
        "The chain over 3 events is intact, and 1 order equals its events.",
        "The HMAC of the head is valid and covers every event.",
        "The files of 1 episode have their hashes.",
        f"Head of the ledger: {head}",
    ]
    document = json.loads(enpire("ledger", "verify", "--home", home, "--json").stdout)
    assert (document["head"], document["events"], document["recordings"]) == (head, 3, 1)


def test_a_changed_recording_is_found_and_the_exit_code_says_so(home: Path) -> None:
    arrays = next((home / "episodes").glob("*/*/arrays.npz"))
    data = bytearray(arrays.read_bytes())
    data[50] ^= 4
    arrays.write_bytes(data)
    result = enpire("ledger", "verify", "--home", home)
    assert result.exit_code == 1
    assert "The ledger and the episode store differ: 0 unrecorded, 0 unordered, 0 missing, 1 altered" in result.stdout
    assert enpire("ledger", "verify", "--ledger-only", "--home", home).exit_code == 0


def test_an_expected_head_is_there_or_the_answer_says_how_the_ledger_differs(home: Path, tmp_path: Path) -> None:
    note = tmp_path / "head.txt"
    assert enpire("ledger", "head", "--home", home, "--out", note).exit_code == 0
    head = note.read_text().strip()
    assert head.startswith("3:")
    assert "exists already" in enpire("ledger", "head", "--home", home, "--out", note).stderr
    same = enpire("ledger", "verify", "--home", home, "--expect", head)
    assert (same.exit_code, "It ends with the expected head." in same.stdout) == (0, True)
    shutil.copytree(home, tmp_path / "before")
    more(home)
    newer = enpire("ledger", "verify", "--home", home, "--expect", head)
    assert (newer.exit_code, "contains the expected head, event 3, and 2 newer events." in newer.stdout) == (0, True)
    later = enpire("ledger", "head", "--home", home).stdout.strip()
    older = enpire("ledger", "verify", "--home", tmp_path / "before", "--expect", later)
    assert older.exit_code == 1
    assert (
        "The ledger is older than the expected head: it ends with event 3, the expected one is event 5." in older.stderr
    )
    other = enpire("ledger", "verify", "--home", home, "--expect", f"3:{'ab' * 32}")
    assert other.exit_code == 1
    assert "The ledger is another one than expected: its event 3 has the hash" in other.stderr
    wrong = enpire("ledger", "verify", "--home", home, "--expect", "the head")
    assert wrong.exit_code == 1
    assert "is no head of a ledger: write SEQUENCE:HASH" in wrong.stderr


def test_recompute_and_report_see_an_edited_orders_table(home: Path) -> None:
    with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as editor:
        editor.execute("UPDATE orders SET outcome = 'failure'")
    result = enpire("ledger", "recompute", "--home", home)
    assert result.exit_code == 1
    assert "in the orders table differs from its events" in result.stderr
    report = enpire("report", "--home", home)
    assert report.exit_code == 0, report.stderr
    assert "in the orders table differs from its events" in Path(report.stdout.strip()).read_text(encoding="utf-8")


def test_a_damaged_ledger_is_restored_from_the_copy_that_the_message_names(home: Path) -> None:
    more(home)
    with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as editor:
        editor.execute("UPDATE events SET kind = 'forged' WHERE seq = 2")
    copy = home / "copies" / "2026-11-23_c1.db"
    assert str(copy) in enpire("ledger", "verify", "--home", home).stderr
    listed = enpire("ledger", "restore", "--home", home)
    assert listed.exit_code == 0, listed.stderr
    assert f"{copy}  3       1       verified" in listed.stdout
    done = enpire("ledger", "restore", copy, "--home", home)
    assert done.exit_code == 0, done.stderr
    assert "which ends with 3:" in done.stdout
    assert "the replaced ledger ended with 5:" in done.stdout
    assert enpire("ledger", "verify", "--home", home).exit_code == 0
    (last,) = json.loads(enpire("ledger", "tail", "-n", "1", "--home", home, "--json").stdout)
    assert (last["kind"], last["body"]["copy"], last["body"]["lost"][:2]) == ("ledger restored", copy.name, "5:")


def test_without_copies_the_message_says_so(home: Path) -> None:
    shutil.rmtree(home / "copies")
    with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as editor:
        editor.execute("UPDATE events SET kind = 'forged' WHERE seq = 2")
    assert (
        f"There is no copy in {home / 'copies'}: restore the home" in enpire("ledger", "verify", "--home", home).stderr
    )
    assert "There is no copy of the ledger" in enpire("ledger", "restore", "--home", home).stdout
