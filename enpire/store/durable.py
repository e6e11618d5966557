"""Durable writes, always in this order: write the file, fsync it, rename it, fsync its folder.

After a function here returns, the bytes survive a power cut. After StorageFull or FileProblem the old files are
unchanged. After OutcomeUnknown the new bytes may or may not be stored: read them back under their id and do not repeat
the fsync. A kernel may forget a failed write-back and report success for the second fsync ("fsyncgate", 2018).
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from enpire.errors import EnpireError, FileProblem, NothingOpens, OutcomeUnknown, StorageFull
from enpire.store import removal
from enpire.store.removal import STAGED

_FEW = 2
"""Up to this number of files are synced one by one."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SPENT = frozenset({errno.EMFILE, errno.ENFILE})


def write(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write one file durably, whole or not at all; an older file of that name is replaced."""
    staged = staged_name(path)
    removal.require_within(path, path.parent)
    try:
        _fill(staged, data, mode)
        removal.replace(staged, path, path.parent)
    except OSError as error:
        removal.remove(staged, path.parent)
        raise refusal(error, path) from error
    sync(path.parent)


def write_many(files: Mapping[Path, bytes]) -> None:
    """Write several files of one disk durably, each whole or not at all, with one sync of that disk."""
    if not files:
        return
    staged = {path: staged_name(path) for path in files}
    try:
        for path, hidden in staged.items():
            _fill(hidden, files[path], synced=False)
        _sync_disk(staged.values())
        for path, hidden in staged.items():
            removal.replace(hidden, path, path.parent)
    except OSError as error:
        for hidden in staged.values():
            removal.remove(hidden, hidden.parent)
        raise refusal(error, next(iter(files))) from error
    for parent in dict.fromkeys(path.parent for path in files):
        sync(parent)


def fill_folders(folders: Mapping[Path, Mapping[str, bytes]]) -> None:
    """Write files into existing folders of one disk with one sync. Not atomic, so use it for staged folders."""
    written: list[str | Path] = []
    try:
        for folder, files in folders.items():
            for name, data in files.items():
                written.append(f"{folder}/{name}")  # many Paths would take longer than the writing
                _fill(written[-1], data, synced=False)
            written.append(folder)
        _sync_disk(written)
    except OSError as error:
        raise refusal(error, next(iter(folders))) from error


def append(path: Path, data: bytes) -> None:
    """Append to a file and sync it; a missing file is created. When the disk refuses, the file keeps its old length."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            before = os.fstat(descriptor).st_size
            try:
                _append(descriptor, data)
            except OSError:
                os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise refusal(error, path) from error


def adopt(staged: Path, path: Path, within: Path) -> None:
    """Sync a file that other code wrote, such as a copy of a database, and rename it; both names lie below `within`."""
    sync(staged)
    try:
        removal.replace(staged, path, within)
    except OSError as error:
        raise refusal(error, path) from error
    sync(path.parent)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and sync the parent of each."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise refusal(error, folder) from error
    sync(folder.parent)


def stage_folder(target: Path) -> Path:
    """A new empty folder next to `target` whose name `sweep` removes; `reveal` renames it to `target`."""
    make_folder(target.parent)
    staged = staged_name(target)
    try:
        os.mkdir(staged)  # noqa: PTH102 - Path.mkdir takes twice as long, and the orchestrator makes thousands
    except OSError as error:
        raise refusal(error, target) from error
    return staged


def reveal(pairs: Iterable[tuple[Path, Path]]) -> None:
    """Rename staged folders to their targets, then sync each parent folder once.

    A target that exists already stays, and its staged folder is removed: both hold the content of the same id.
    """
    parents: dict[Path, None] = {}
    for staged, target in pairs:
        parent = target.parent
        try:
            removal.replace(staged, target, parent)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise refusal(error, target) from error
            removal.remove(staged, parent)
        parents[parent] = None
    for parent in parents:
        sync(parent)


def sweep(folder: Path) -> list[str]:
    """Remove the incomplete files and folders directly in a folder; returns their names."""
    if not folder.is_dir():
        return []
    try:
        left = sorted(entry for entry in folder.iterdir() if entry.name.startswith(STAGED))
        for entry in left:
            removal.remove(entry, folder)
    except OSError as error:
        raise refusal(error, folder) from error
    return [entry.name for entry in left]


def sweep_target(target: Path) -> None:
    """Remove what a killed process left under the staged names of one target."""
    for left in target.parent.glob(f"{STAGED}{glob.escape(target.name)}-*"):
        removal.try_remove(left, target.parent)


def remove(path: Path) -> None:
    """Remove a file durably; a missing file is no error."""
    try:
        removal.remove(path, path.parent)
    except OSError as error:
        raise refusal(error, path) from error
    sync(path.parent)


def sync(path: Path) -> None:
    """Sync one file that other code wrote, or the names in a folder."""
    try:
        _fsync(path)
    except OSError as error:
        raise refusal(error, path) from error


def sync_many(paths: Sequence[Path]) -> None:
    """Sync files and folders of one disk that other code wrote."""
    try:
        _sync_disk(paths)
    except OSError as error:
        raise refusal(error, paths[0]) from error


def refusal(error: OSError, path: Path) -> EnpireError:
    """The EnpireError for an OSError of a write: disk full, outcome unknown, no descriptor left, or not allowed."""
    short = _space_refusal(error, path)
    if short is not None:
        return short
    if error.errno == errno.EIO:
        return OutcomeUnknown(
            f"The disk failed while writing {path}: {error.strerror}. The bytes may or may not be stored: "
            "stop writing, check the disk, start the program again and read the file."
        )
    return FileProblem(f"Cannot write {path}: {error.strerror}. Check that the folder exists and may be written.")


def _space_refusal(error: OSError, path: Path) -> StorageFull | None:
    if error.errno in _SPENT:
        return spent(path)
    if error.errno in _FULL:
        return StorageFull(
            f"The disk refused to write {path}: {error.strerror}. Nothing was changed. Free some space on that disk: "
            "no order starts before that."
        )
    return None


def spent(path: Path) -> NothingOpens:
    """The error of a process that has used up its file descriptors."""
    return NothingOpens(
        f"This process has too many files and connections open, so {path} was not written and nothing was changed. "
        "Writing resumes when some are closed (`ulimit -n` shows how many may be open)."
    )


def shortage(problem: BaseException | None) -> StorageFull | None:
    """The StorageFull or NothingOpens behind an exception, else None; the caller may wait until it is over."""
    while problem is not None:
        if isinstance(problem, StorageFull):
            return problem
        if isinstance(problem, OSError):
            short = _space_refusal(problem, Path(problem.filename or "a file"))
            if short is not None:
                return short
        problem = problem.__cause__
    return None


def is_spent() -> bool:
    """Whether this process has no file descriptor left."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in _SPENT
    return False


def staged_name(target: Path) -> Path:
    """A new name in the folder of `target` that `sweep` removes."""
    return target.parent / f"{STAGED}{target.name}-{os.getpid()}-{os.urandom(4).hex()}"


def _append(descriptor: int, data: bytes) -> None:
    _write_all(descriptor, data)
    os.fsync(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_disk(paths: Iterable[str | Path]) -> None:
    """Sync these paths: one by one if they are few, otherwise by one sync of their file system."""
    listed = list(paths)
    syncfs = _syncfs()
    if syncfs is None or len(listed) <= _FEW:
        for path in listed:
            _fsync(path)
        return
    descriptor = os.open(listed[0], os.O_RDONLY)
    try:
        if syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(listed[0]))
    finally:
        os.close(descriptor)


@cache
def _syncfs() -> Callable[[int], int] | None:
    """The call of the C library that syncs a file system; None where there is none that reports errors."""
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if _syncfs_tells_errors() else None


def _syncfs_tells_errors() -> bool:
    # Before Linux 5.8, syncfs reported success even after the disk had failed.
    return sys.platform.startswith("linux") and tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 8)


def _fsync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(path: str | Path, data: bytes, mode: int = 0o666, *, synced: bool = True) -> None:
    """Write a new file. With half the system calls of `Path.open`, because the orchestrator writes thousands."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        _write_all(descriptor, data)
        if synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
