"""What is synced before and after a rename. Without the last sync, a power cut may bring the old file back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from enpire.requests import operator_commands
from enpire.station.spool import Spool
from enpire.store import durable
from enpire.wire.curve_keys import enroll
from robot_drivers.latch import Latch
from tests.enpire.station.test_spool import parcel

FILE, RENAMED, FOLDER = "file synced", "renamed", "folder synced"


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """(what, path) of every sync and rename of this process, in order; each is carried out."""
    calls: list[tuple[str, Path]] = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def record_sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        fsync(descriptor)
        calls.append((FOLDER if path.is_dir() else FILE, path))

    def recorded(move: Callable[..., None]) -> Callable[..., None]:
        def record_move(source: str | Path, target: str | Path, **options: int) -> None:
            move(source, target, **options)
            calls.append((RENAMED, Path(target)))

        return record_move

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", recorded(replace))
    monkeypatch.setattr(os, "rename", recorded(rename))
    return calls


def _spooled(folder: Path) -> None:
    spool = Spool(folder / "spool", 0)
    spool.put(parcel(0))
    spool.close()


WRITES: dict[str, Callable[[Path], object]] = {
    "a file": lambda folder: durable.write(folder / "state.json", b"new"),
    "two files": lambda folder: durable.write_many({folder / "a": b"1", folder / "b": b"2"}),
    "a latch that closes": lambda folder: Latch(folder / "latch.json").close("stop"),
    "a command of an operator": lambda folder: operator_commands.leave(folder, "stop", operator="anna"),
    "an episode in the spool": _spooled,
}


@pytest.mark.parametrize("what", WRITES)
def test_the_file_is_synced_before_it_is_renamed_and_its_folder_after(
    tmp_path: Path, done: list[tuple[str, Path]], what: str
) -> None:
    WRITES[what](tmp_path)
    renamed = [index for index, (kind, _) in enumerate(done) if kind == RENAMED]
    assert renamed
    folder = done[renamed[-1]][1].parent
    assert [kind for kind, _ in done[: renamed[0]]].count(FILE) >= len(renamed), done
    assert (FOLDER, folder) in done[renamed[-1] + 1 :], done


def test_a_latch_that_an_operator_opens_is_open_on_disk(tmp_path: Path, done: list[tuple[str, Path]]) -> None:
    latch = Latch(tmp_path / "latch.json")
    nonce = latch.close("stop").nonce
    done.clear()
    latch.open(nonce, "Ada")
    assert [kind for kind, _ in done] == [FILE, RENAMED, FOLDER]
    assert done[-1] == (FOLDER, tmp_path)


def test_a_key_pair_is_on_disk_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []

    def keep(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(path.read_bytes() if path.is_file() else b"")

    monkeypatch.setattr(os, "fsync", keep)
    pair = enroll(tmp_path, "alpha").read_bytes()
    assert pair in synced
    assert pair.split()[0] + b"\n" in synced


def test_a_removed_file_and_a_new_folder_are_synced_in_their_parent(
    tmp_path: Path, done: list[tuple[str, Path]]
) -> None:
    (tmp_path / "latch.json").touch()
    durable.remove(tmp_path / "latch.json")
    assert done == [(FOLDER, tmp_path)]
    done.clear()
    durable.make_folder(tmp_path / "a" / "b")
    assert done == [(FOLDER, tmp_path), (FOLDER, tmp_path / "a")]


def test_a_copied_file_and_a_staged_folder_are_synced(tmp_path: Path, done: list[tuple[str, Path]]) -> None:
    (tmp_path / "copy").write_bytes(b"a database")
    durable.adopt(tmp_path / "copy", tmp_path / "kept", tmp_path)
    assert done == [
        (FILE, tmp_path / "copy"), (RENAMED, tmp_path / "kept"), (FOLDER, tmp_path),
    ]  # fmt: skip
    staged = durable.stage_folder(tmp_path / "version")
    done.clear()
    durable.fill_folders({staged: {"policy.json": b"{}"}})
    durable.reveal([(staged, tmp_path / "version")])
    assert done == [
        (FILE, staged / "policy.json"), (FOLDER, staged), (RENAMED, tmp_path / "version"), (FOLDER, tmp_path),
    ]  # fmt: skip


def test_what_is_appended_is_synced(tmp_path: Path, done: list[tuple[str, Path]]) -> None:
    durable.append(tmp_path / "log", b"a line\n")
    assert done == [(FILE, tmp_path / "log")]
