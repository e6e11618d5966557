"""Ledger against files, after each kind of accident."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.store.episodes import ARRAYS, FACTS, PICTURES, FolderStore, Recording
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.reconcile import Differences, compare
from tests.enpire.store.store_samples import a_recording, an_episode, an_order, ended, issued
from tests.fakes.sample_events import append


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "ledger.db")
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "episodes")


def _recorded(ledger: SqliteLedger, store: FolderStore, seed: int = 0) -> Path:
    order = an_order()
    append(ledger, [issued(order)])
    episode, data = a_recording(order, seed=seed)
    folder = store.put(episode, data)
    append(ledger, [ended(episode)])
    return folder


def _differences(ledger: SqliteLedger, store: FolderStore, deep: bool = True) -> Differences:
    # A new store each time, as at a new start: nothing may come from memory.
    return compare(Reading(ledger.database), FolderStore(store.root), deep=deep)


def test_a_lab_in_order_has_no_differences(ledger: SqliteLedger, store: FolderStore) -> None:
    assert _differences(ledger, store).none
    for seed in range(3):
        _recorded(ledger, store, seed)
    aborted = an_order()
    append(ledger, [issued(aborted, an_order()), ended(an_episode(aborted, "aborted", sha256=""))])
    found = _differences(ledger, store)
    assert found.none
    assert found.sentence() == "The ledger and the episode store agree."


def test_a_crash_between_file_and_row_is_found_and_can_be_repaired(ledger: SqliteLedger, store: FolderStore) -> None:
    order = an_order()
    append(ledger, [issued(order)])
    store.put(*a_recording(order))
    found = _differences(ledger, store)
    assert found == Differences(unrecorded=(order.order_id,))
    again = FolderStore(store.root)
    append(ledger, [ended(again.facts(again.folder(order.order_id)))])
    assert _differences(ledger, store).none


def test_changed_and_missing_pictures_are_found(ledger: SqliteLedger, store: FolderStore) -> None:
    folders: list[Path] = []
    for number in range(3):
        episode, data = a_recording(an_order())
        pictures = store.root / ".incoming" / str(number)
        pictures.parent.mkdir(parents=True, exist_ok=True)
        pictures.write_bytes(b"seen")
        episode = replace(episode, pictures_sha256=hashlib.sha256(b"seen").hexdigest())
        folders += store.put_many([Recording(episode=episode, arrays_file=data, pictures=pictures)])
        append(ledger, [issued(episode.order), ended(episode)])
    assert _differences(ledger, store).none
    (folders[0] / PICTURES).write_bytes(b"Seen")
    (folders[1] / PICTURES).unlink()
    assert _differences(ledger, store) == Differences(altered=(folders[0].name, folders[1].name))


def test_a_foreign_file_is_found(ledger: SqliteLedger, store: FolderStore) -> None:
    folder = store.put(*a_recording(an_order()))
    assert _differences(ledger, store) == Differences(unordered=(folder.name,))


def test_a_lost_file_is_found(ledger: SqliteLedger, store: FolderStore) -> None:
    folder = _recorded(ledger, store)
    shutil.rmtree(folder)
    found = _differences(ledger, store)
    assert found == Differences(missing=(folder.name,))
    assert "1 missing" in found.sentence()


def test_altered_files_are_found(ledger: SqliteLedger, store: FolderStore) -> None:
    edited, damaged, _ = (_recorded(ledger, store, seed) for seed in range(3))
    (edited / FACTS).write_text((edited / FACTS).read_text().replace('"sha256": "', '"sha256": "0'))
    (damaged / ARRAYS).write_bytes(b"")
    assert _differences(ledger, store, deep=False) == Differences(altered=(edited.name,))
    assert _differences(ledger, store) == Differences(altered=(edited.name, damaged.name))


def test_swapped_folders_are_found_without_reading_the_arrays(ledger: SqliteLedger, store: FolderStore) -> None:
    one, two = _recorded(ledger, store, 1), _recorded(ledger, store, 2)
    one.rename(one.parent / "aside")
    two.rename(one)
    (one.parent / "aside").rename(two)
    assert _differences(ledger, store, deep=False) == Differences(altered=(one.name, two.name))
