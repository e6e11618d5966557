"""What becomes durable: all of a file or none of it, and a sentence for every refusal."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from enpire.errors import EnpireError, FileProblem, NothingOpens, OutcomeUnknown, StorageFull
from enpire.store import durable


@contextmanager
def a_full_disk(limit: int) -> Iterator[None]:
    """No file may grow beyond `limit` bytes: the kernel refuses the write where a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    durable.write(path, b"old")
    durable.write(path, b"newer")
    assert path.read_bytes() == b"newer"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_a_refused_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    durable.write(path, b"old")
    with a_full_disk(10), pytest.raises(StorageFull, match=r"refused to write .*state\.json.*Nothing was changed"):
        durable.write(path, b"x" * 100)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_each_refusal_has_its_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="Check that the folder exists"):
        durable.write(tmp_path / "no" / "file", b"")
    for code, kind in ((errno.ENOSPC, StorageFull), (errno.EDQUOT, StorageFull), (errno.EIO, OutcomeUnknown)):
        assert isinstance(durable.refusal(OSError(code, "why"), tmp_path), kind)
    (tmp_path / "file").touch()
    with pytest.raises(FileProblem, match="Cannot write"):
        durable.make_folder(tmp_path / "file" / "below")


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "version"
    staged = durable.stage_folder(target)
    durable.fill_folders({staged: {"one": b"1", "two": b"22"}})
    assert not target.exists()
    durable.reveal([(staged, target)])
    assert {file.name: file.read_bytes() for file in target.iterdir()} == {"one": b"1", "two": b"22"}
    assert [entry.name for entry in target.parent.iterdir()] == ["version"]


def test_the_first_of_two_folders_stays(tmp_path: Path) -> None:
    target = tmp_path / "version"
    first, second = durable.stage_folder(target), durable.stage_folder(target)
    durable.fill_folders({first: {"x": b"first"}})
    durable.fill_folders({second: {"x": b"second"}})
    durable.reveal([(first, target), (second, target)])
    assert (target / "x").read_bytes() == b"first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["version"]


def test_a_sweep_takes_only_what_is_half_written(tmp_path: Path) -> None:
    durable.write(tmp_path / "kept", b"")
    staged = durable.stage_folder(tmp_path / "episode")
    durable.fill_folders({staged: {"x": b""}})
    (tmp_path / f"{durable.STAGED}file").touch()
    assert set(durable.sweep(tmp_path)) == {staged.name, f"{durable.STAGED}file"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]
    assert durable.sweep(tmp_path / "nowhere") == []


def test_what_was_staged_for_one_target_is_swept_and_nothing_else(tmp_path: Path) -> None:
    target, other = tmp_path / "backup [1].tar", tmp_path / "backup 1.tar"
    for of in (target, target, other):
        durable.staged_name(of).write_bytes(b"half")
    target.write_bytes(b"whole")
    durable.sweep_target(target)
    left = [entry.name for entry in tmp_path.iterdir() if entry != target]
    assert target.read_bytes() == b"whole"
    assert [name.startswith(f"{durable.STAGED}{other.name}-") for name in left] == [True]


def test_a_folder_that_another_name_leads_to_is_made_once(tmp_path: Path) -> None:
    durable.make_folder(tmp_path / "new" / ".." / "home")
    assert {entry.name for entry in tmp_path.iterdir()} == {"new", "home"}


def test_removing_twice_is_fine(tmp_path: Path) -> None:
    durable.write(tmp_path / "x", b"")
    durable.remove(tmp_path / "x")
    durable.remove(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_many_files_are_written_each_whole(tmp_path: Path) -> None:
    files = {tmp_path / f"{n}": bytes([n]) * n for n in range(6)}
    durable.write_many(files)
    durable.write_many({})
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    with a_full_disk(10), pytest.raises(StorageFull):
        durable.write_many({tmp_path / "0": b"small", tmp_path / "9": b"x" * 100})
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EFBIG, StorageFull),
        (errno.EMFILE, NothingOpens),
        (errno.ENFILE, NothingOpens),
        (errno.EIO, OutcomeUnknown),
        (errno.EACCES, FileProblem),
    ],
)
def test_a_shortage_is_what_time_can_end(tmp_path: Path, code: int, kind: type[EnpireError]) -> None:
    cause = OSError(code, "why", str(tmp_path))
    assert type(durable.refusal(cause, tmp_path)) is kind
    outer, middle = RuntimeError("outer"), ValueError("middle")
    outer.__cause__, middle.__cause__ = middle, cause
    short = durable.shortage(outer)
    assert type(short) is (kind if issubclass(kind, StorageFull) else type(None))
    wrapped = RuntimeError("outer")
    wrapped.__cause__ = durable.refusal(cause, tmp_path)
    assert durable.shortage(wrapped) is (wrapped.__cause__ if issubclass(kind, StorageFull) else None)
    assert durable.shortage(None) is None


@pytest.mark.parametrize(("file", "named"), [("/disk/state.json", "write /disk/state.json"), (None, "write a file")])
def test_a_shortage_names_the_file_where_one_is_known(file: str | None, named: str) -> None:
    assert named in str(durable.shortage(OSError(errno.ENOSPC, "No space left on device", file)))


def test_a_process_is_spent_when_no_descriptor_is_left() -> None:
    assert not durable.is_spent()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        assert durable.is_spent()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not durable.is_spent()


def test_files_have_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        durable.write(tmp_path / "public", b"")
        durable.write(tmp_path / "private", b"", 0o600)
        durable.append(tmp_path / "appended", b"")
    finally:
        os.umask(before)
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()}
    assert modes == {"public": 0o644, "private": 0o600, "appended": 0o644}


def test_what_is_appended_follows_and_a_refused_end_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    durable.append(path, b"one ")
    durable.append(path, b"two ")
    with a_full_disk(10), pytest.raises(StorageFull):
        durable.append(path, b"x" * 100)
    assert path.read_bytes() == b"one two "


def test_a_copy_is_adopted_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"pages")
    durable.adopt(tmp_path / "copy", tmp_path / "ledger", tmp_path)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"ledger": b"pages"}


def test_a_target_that_is_no_folder_is_refused_and_the_staged_folder_kept(tmp_path: Path) -> None:
    staged = durable.stage_folder(tmp_path / "version")
    (tmp_path / "version").write_bytes(b"a file")
    with pytest.raises(FileProblem):
        durable.reveal([(staged, tmp_path / "version")])
    assert staged.is_dir()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="syncfs is a system call of Linux")
@pytest.mark.parametrize(
    ("release", "one_by_one"),
    [
        ("4.19.0-26-amd64", True),
        ("5.7.19", True),
        ("5.8.0-1-generic", False),
        ("6.1.0-18-amd64", False),
        ("10.0.1-a.b", False),
    ],
)
def test_files_are_synced_one_by_one_where_a_sync_of_the_disk_hides_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, one_by_one: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(durable, "_syncfs", vars(durable)["_syncfs"].__wrapped__)  # without its cache
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    monkeypatch.setattr(os, "fsync", synced.append)
    durable.write_many({tmp_path / name: b"x" for name in "abcd"})
    assert len(synced) == (5 if one_by_one else 1), "each file, and their folder"


def test_a_file_is_synced_when_all_of_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    durable.write(tmp_path / "state.json", b"x" * 5000)
    assert sizes[0] == 5000


@pytest.mark.parametrize("count", [1, 4])
def test_a_file_that_cannot_be_synced_is_named(tmp_path: Path, count: int) -> None:
    paths = [tmp_path / f"missing {number}" for number in range(count)]
    with pytest.raises(FileProblem, match=r"Cannot write .*missing 0: No such file"):
        durable.sync_many(paths)
    for path in paths:
        path.touch()
    durable.sync_many(paths)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="syncfs is a system call of Linux")
def test_a_disk_that_cannot_be_synced_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in "abcd"]
    for path in paths:
        path.touch()
    call = vars(durable)["_syncfs"]()
    if call is None:
        pytest.skip("the kernel of this machine hides the errors of syncfs")
    monkeypatch.setattr(durable, "_syncfs", lambda: lambda _: call(-1))  # no such descriptor: the call fails
    with pytest.raises(FileProblem, match="Bad file descriptor"):
        durable.sync_many(paths)


def test_no_call_leaves_a_descriptor_open(tmp_path: Path) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("this system has no /proc")
    before = opened()
    for number in range(20):
        durable.write(tmp_path / "one", b"x")
        durable.append(tmp_path / "one", b"x")
        durable.write_many({tmp_path / f"{number}-{name}": b"x" for name in "abcd"})
        assert not durable.is_spent()
    assert opened() < before + 10, "each call leaves at most what another thread opened"
