"""The episode store: whole or not at all, once, and never other bytes than were recorded."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import FileProblem, StorageFull, UnknownName
from enpire.store.episodes import ARRAYS, FACTS, PICTURES, FolderStore, Recording
from enpire.types import Order
from tests.enpire.store.store_samples import a_recording, an_episode, an_order
from tests.enpire.store.test_durable import a_full_disk


def test_an_episode_comes_back_as_it_was_put(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    order = an_order()
    episode, data = a_recording(order)
    folder = store.put(episode, data)
    again = FolderStore(tmp_path).get(order.order_id)
    assert folder == tmp_path / "c1" / order.order_id == store.folder(order.order_id)
    assert again.arrays is not None
    assert replace(again, arrays=None) == episode
    with np.load(folder / ARRAYS, allow_pickle=False) as plain:
        assert np.array_equal(plain["action"], again.arrays.action)


def test_a_put_twice_is_one_episode(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    episode, data = a_recording(an_order())
    folder = store.put(episode, data)
    before = (folder / ARRAYS).stat().st_ino
    assert store.put(episode, data) == folder
    assert store.put_many([Recording(episode=episode, arrays_file=data)] * 2) == [folder, folder]
    assert (folder / ARRAYS).stat().st_ino == before
    assert list(store.ids()) == [episode.order.order_id]


def pictured(root: Path, order: Order, content: bytes = b"pictures") -> Recording:
    """An episode whose pictures wait beside the store."""
    episode, data = a_recording(order)
    path = root / ".incoming" / order.order_id
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    seen = replace(episode, pictures_sha256=hashlib.sha256(content).hexdigest())
    return Recording(episode=seen, arrays_file=data, pictures=path)


def test_pictures_are_moved_to_their_episode_and_not_copied(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    recording = pictured(tmp_path, an_order())
    assert recording.pictures is not None
    before = recording.pictures.stat().st_ino
    [folder] = store.put_many([recording])
    assert (folder / PICTURES).stat().st_ino == before
    assert not recording.pictures.exists()
    assert store.facts(folder) == recording.episode
    assert list(store.ids()) == [folder.name]
    assert store.put_many([pictured(tmp_path, recording.episode.order)]) == [folder]
    with pytest.raises(FileProblem, match="another recording already"):
        store.put_many([pictured(tmp_path, recording.episode.order, b"others")])


def test_an_episode_comes_with_the_pictures_that_it_names_or_not_at_all(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    recording = pictured(tmp_path, an_order())
    with pytest.raises(FileProblem, match="are missing, its episode names"):
        store.put_many([replace(recording, pictures=None)])
    with pytest.raises(FileProblem, match="its episode names none"):
        store.put_many([replace(recording, episode=replace(recording.episode, pictures_sha256=""))])
    assert list(store.ids()) == []


def test_a_full_disk_leaves_pictures_where_they_were(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    recording = pictured(tmp_path, an_order())
    with a_full_disk(600), pytest.raises(StorageFull):
        store.put_many([recording])
    assert recording.pictures is not None
    assert recording.pictures.read_bytes() == b"pictures"
    [folder] = store.put_many([recording])
    assert (folder / PICTURES).read_bytes() == b"pictures"


def test_an_id_is_used_once(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    order = an_order()
    store.put(*a_recording(order, seed=1))
    with pytest.raises(FileProblem, match="another recording already"):
        store.put(*a_recording(order, seed=2))


def test_a_batch_is_refused_as_a_whole(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    good, data = a_recording(an_order())
    bad = replace(a_recording(an_order())[0], sha256="0" * 64)
    with pytest.raises(FileProblem, match="is not the one that the station recorded"):
        store.put_many([Recording(episode=good, arrays_file=data), Recording(episode=bad, arrays_file=data)])
    assert list(store.ids()) == []


def test_an_episode_without_a_recording_is_kept(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    episode = an_episode(an_order(), "aborted", sha256="", ticks=0)
    store.put(episode, b"")
    assert store.get(episode.order.order_id) == episode


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_truncated_arrays_file_is_refused(tmp_path: Path, cut: int) -> None:
    store = FolderStore(tmp_path)
    episode, data = a_recording(an_order())
    folder = store.put(episode, data)
    (folder / ARRAYS).write_bytes(data[:cut])
    with pytest.raises(FileProblem, match="was changed after it was recorded"):
        store.get(episode.order.order_id)


def test_two_swapped_arrays_files_are_both_refused(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    (one, one_data), (two, two_data) = a_recording(an_order(), seed=1), a_recording(an_order(), seed=2)
    (store.put(one, one_data) / ARRAYS).write_bytes(two_data)
    (store.put(two, two_data) / ARRAYS).write_bytes(one_data)
    for episode in (one, two):
        with pytest.raises(FileProblem, match="was changed"):
            store.get(episode.order.order_id)


def test_a_renamed_folder_is_refused(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    folder = store.put(*a_recording(an_order()))
    other = an_order().order_id
    folder.rename(folder.parent / other)
    with pytest.raises(FileProblem, match="renamed or swapped"):
        FolderStore(tmp_path).get(other)


def test_edited_facts_are_refused(tmp_path: Path) -> None:
    folder = FolderStore(tmp_path).put(*a_recording(an_order()))
    (folder / FACTS).write_text("[]")
    with pytest.raises(FileProblem, match="must be a mapping of fields, not list"):
        FolderStore(tmp_path).get(folder.name)
    (folder / FACTS).write_text('{"schema": 9}')
    with pytest.raises(FileProblem, match=r"schema.*1"):
        FolderStore(tmp_path).get(folder.name)


@pytest.mark.parametrize("name", ["../c1", "", "a/b", ".hidden", "x" * 200, "a\n", "..", "a\0b", "é"])
def test_no_id_leads_out_of_the_store(tmp_path: Path, name: str) -> None:
    store = FolderStore(tmp_path)
    with pytest.raises(FileProblem, match="cannot be the name of an episode"):
        store.put(an_episode(replace(an_order(), order_id=name), sha256=""), b"")
    with pytest.raises(FileProblem, match="cannot be the name of a campaign"):
        store.put(an_episode(an_order(campaign_id=name), sha256=""), b"")


def test_an_unknown_id_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="There is no episode 01ABC under"):
        FolderStore(tmp_path).get("01ABC")
    assert FolderStore(tmp_path).folder("01ABC", "c1") == tmp_path / "c1" / "01ABC"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    # A limit on file size stands for the full disk: the write is refused by the kernel in the same place.
    store = FolderStore(tmp_path)
    episode, data = a_recording(an_order())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, before[1]))
    try:
        with pytest.raises(StorageFull, match=r"The disk refused to write .* Free some space"):
            store.put(episode, data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [path.name for path in tmp_path.rglob("*")] == ["c1"]
    store.put(episode, data)
    assert store.get(episode.order.order_id).sha256 == episode.sha256


_WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.enpire.store.store_samples import a_recording, an_order
from enpire.store.episodes import FolderStore
store = FolderStore(Path(sys.argv[2]))
for seed in range(100_000):
    print(store.put(*a_recording(an_order(), seed=seed)).name, flush=True)
"""


def test_a_killed_writer_leaves_no_half_episode_after_the_sweep(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    for _ in range(3):
        command = [sys.executable, "-c", _WRITER, str(Path(__file__).parents[3]), str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            acknowledged |= {writer.stdout.readline().strip() for _ in range(4)}
            time.sleep(0.003 * len(acknowledged))
            writer.kill()
            acknowledged |= {line.strip() for line in writer.stdout if line.endswith("\n")}
    store = FolderStore(tmp_path)
    hidden = tmp_path / "c1" / f".staged-{an_order().order_id}-1-aa"
    hidden.mkdir()
    (hidden / ARRAYS).write_bytes(b"half")
    assert hidden.name in store.sweep()
    left = {entry.name for entry in os.scandir(tmp_path / "c1")}
    assert left == set(store.ids())
    assert acknowledged <= left
    for order_id in store.ids():
        assert store.get(order_id).arrays is not None
