"""One flipped bit anywhere in a home: found with a sentence, or provably harmless (every reading is equal)."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.errors import EnpireError, LedgerProblem
from enpire.store.episodes import PICTURES, FolderStore, Recording
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Page, Reading
from enpire.store.reconcile import compare
from tests.enpire.store.store_samples import a_recording, an_episode, an_order, ended, issued
from tests.fakes.sample_events import append

FLIPS = 400
SEEN = b"what the cameras saw" * 40


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a ledger of 16 orders, and 3 recorded episodes."""
    home = tmp_path_factory.mktemp("rot")
    store = FolderStore(home / "episodes")
    with closing(SqliteLedger(home / "ledger.db")) as ledger:
        orders = [an_order() for _ in range(12)]
        for order in orders:
            append(ledger, [issued(order)])
        append(ledger, [ended(*(an_episode(order, sha256="") for order in orders[:9]))])
        for seed in range(3):
            order = an_order()
            append(ledger, [issued(order)])
            episode, data = a_recording(order, seed=seed)
            images = store.root / ".incoming" / "images"
            images.parent.mkdir(parents=True, exist_ok=True)
            images.write_bytes(SEEN)
            episode = replace(episode, pictures_sha256=hashlib.sha256(SEEN).hexdigest())
            store.put_many([Recording(episode=episode, arrays_file=data, pictures=images)])
            append(ledger, [ended(episode)])
    return home


@pytest.fixture
def home(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "home")


def content(home: Path) -> object:
    """Everything that a home says, after it was checked as `enpire ledger verify` checks it."""
    with closing(SqliteLedger(home / "ledger.db", read_only=True)) as ledger:
        ledger.verify()
        reading, store = Reading(ledger.database), FolderStore(home / "episodes")
        different = compare(reading, store, deep=True)
        if not different.none:
            raise LedgerProblem(different.sentence())
        counts = reading.successes("c1", "collect"), reading.ends("c1"), reading.training_episodes("c1")
        rows = [ledger.database.execute(f"SELECT * FROM {table}").fetchall() for table in ("orders", "head", "events")]
        kept = [(store.facts(store.folder(name)), str(store.get(name).arrays)) for name in store.ids()]
        return rows, list(ledger.events()), reading.episodes(Page(campaign_id="c1")), counts, kept


def flipped(path: Path, where: random.Random, count: int) -> Iterator[tuple[int, int]]:
    """Flip `count` bits of a file, one at a time; the file is whole again afterwards."""
    before = path.read_bytes()
    # Pages of SQLite are full of free space: four of five bytes are drawn from those that say something.
    told = [place for place, byte in enumerate(before) if byte]
    for _ in range(count):
        place = where.choice(told) if where.random() < 0.8 else where.randrange(len(before))
        bit = where.randrange(8)
        damaged = bytearray(before)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        yield place, bit
    path.write_bytes(before)


def sentence_or_content(home: Path) -> object:
    try:
        return content(home)
    except EnpireError as problem:
        return str(problem)


def test_a_flipped_bit_in_the_ledger_is_found_or_changes_nothing(home: Path) -> None:
    before, found = content(home), 0
    for place, bit in flipped(home / "ledger.db", random.Random(15), FLIPS):
        after = sentence_or_content(home)
        found += isinstance(after, str)
        assert (isinstance(after, str) and after.endswith(".")) or after == before, f"bit {bit} of byte {place}"
    assert found > FLIPS / 2, "bytes that say something are most of the sample"


def test_a_writer_opens_no_ledger_with_a_flipped_bit_that_changes_a_reading(home: Path) -> None:
    before = content(home)
    for place, bit in flipped(home / "ledger.db", random.Random(16), 50):
        damaged = (home / "ledger.db").read_bytes()
        try:
            SqliteLedger(home / "ledger.db").close()
        except LedgerProblem:
            assert (home / "ledger.db").read_bytes() == damaged, "nothing was written"
            continue
        assert content(home) == before, f"bit {bit} of byte {place}"


@pytest.mark.parametrize("name", ["episode.json", "arrays.npz", PICTURES])
def test_a_flipped_bit_in_an_episode_is_found_or_changes_nothing(home: Path, name: str) -> None:
    before, found = content(home), 0
    path = next((home / "episodes" / "c1").glob(f"*/{name}"))
    for place, bit in flipped(path, random.Random(17), 60):
        after = sentence_or_content(home)
        found += isinstance(after, str)
        assert isinstance(after, str) or after == before, f"bit {bit} of byte {place}"
    assert found == 60 if name != "episode.json" else found > 30


@pytest.mark.parametrize("name", ["ledger.head", "secret"])
def test_a_flipped_bit_in_what_vouches_for_the_head_is_found(home: Path, name: str) -> None:
    for place, bit in flipped(home / name, random.Random(18), 40):
        after = sentence_or_content(home)
        same = name == "secret" and _same_secret(home / name, place)
        assert isinstance(after, str) or same, f"bit {bit} of byte {place}"


def _same_secret(path: Path, place: int) -> bool:
    """Whether the flip only made a hexadecimal digit a capital one."""
    return chr(path.read_bytes()[place]) in "ABCDEF"


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE orders SET outcome = 'failure' WHERE outcome = 'success'",
        "UPDATE orders SET round = 2",
        "UPDATE orders SET person_outcome = 'unsafe' WHERE ended_seq IS NOT NULL",
        "DELETE FROM orders WHERE order_id = (SELECT max(order_id) FROM orders)",
        "INSERT INTO orders SELECT 'forged', " + ", ".join(["campaign_id, station, task, policy_id, purpose, round"])
        + ", gate_id, pair, side, split, start_index, start_json, lease, supervised, early_stop_json, branch, "
        "issued_seq, ended_seq, outcome, cause, confidence, ticks, ran_policy_id, began_s, ended_s, "
        "achieved_start_json, reset_attempts, clipped, attempts_json, hopeless_at, sha256, pictures_sha256, explored, "
        "person_outcome, found_seq FROM orders LIMIT 1",
        "CREATE TRIGGER forge AFTER INSERT ON events BEGIN UPDATE orders SET outcome = 'success'; END",
        "CREATE TABLE more (x)",
        "CREATE VIEW more AS SELECT * FROM orders",
        "DROP INDEX orders_by_round",
        "DELETE FROM head_hmac",
        "UPDATE head_hmac SET since = 3",
        "PRAGMA user_version = 5",
    ],
)  # fmt: skip
def test_what_was_changed_outside_enpire_is_found_by_readers_and_writers(home: Path, sql: str) -> None:
    with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as editor:
        editor.execute(sql)
    with pytest.raises(LedgerProblem), closing(SqliteLedger(home / "ledger.db", read_only=True)) as ledger:
        ledger.verify()
    damaged = (home / "ledger.db").read_bytes()
    with pytest.raises(LedgerProblem):
        SqliteLedger(home / "ledger.db")
    assert (home / "ledger.db").read_bytes() == damaged, "nothing was written"
