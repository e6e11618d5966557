"""The one place that makes things durable: file, fsync, rename, fsync of the folder, never in another order.

After a function here returns, the bytes survive a power cut. When it raises StorageFull or FileProblem, the old
state holds; after OutcomeUnknown nobody knows, so look it up under its id and never repeat the fsync (a kernel may
forget a failed write-back and answer the second fsync with success: "fsyncgate", 2018).
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from enpire.errors import EnpireError, FileProblem, OutcomeUnknown, StorageFull

STAGED = ".staged-"
"""Names that begin so are half-written; whoever owns the folder sweeps them at start."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write(path: Path, data: bytes) -> None:
    """Make one file durable, all of it or nothing; an older file of that name is replaced."""
    staged = _staged_name(path)
    try:
        _fill(staged, data)
        staged.replace(path)
    except OSError as error:
        staged.unlink(missing_ok=True)
        raise refusal(error, path) from error
    sync_folder(path.parent)


def adopt(staged: Path, path: Path) -> None:
    """Sync a file that somebody else wrote (a copy of a database), and give it its name."""
    try:
        _sync(staged, os.O_RDONLY)
        staged.replace(path)
    except OSError as error:
        raise refusal(error, path) from error
    sync_folder(path.parent)


def fill_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into an existing folder and sync them and the folder. For staged folders: it is not atomic."""
    try:
        for name, data in files.items():
            _fill(folder / name, data)
    except OSError as error:
        raise refusal(error, folder) from error
    sync_folder(folder)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, each entry durable in the folder above it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise refusal(error, folder) from error
    sync_folder(folder.parent)


def stage_folder(target: Path) -> Path:
    """A new empty folder beside `target`, under a name that a sweep removes; `reveal` gives it its real name."""
    make_folder(target.parent)
    staged = _staged_name(target)
    try:
        staged.mkdir()
    except OSError as error:
        raise refusal(error, target) from error
    return staged


def reveal(pairs: Iterable[tuple[Path, Path]]) -> None:
    """Rename staged folders to their targets, then sync each folder above them once.

    A target that appeared meanwhile stays as it is, and the staged folder is dropped: both were made under one id.
    """
    parents: dict[Path, None] = {}
    for staged, target in pairs:
        try:
            staged.rename(target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise refusal(error, target) from error
            shutil.rmtree(staged)
        parents[target.parent] = None
    for parent in parents:
        sync_folder(parent)


def sweep(folder: Path) -> list[str]:
    """Remove what was half-written in a folder (not below it); returns the names."""
    if not folder.is_dir():
        return []
    left = sorted(entry for entry in folder.iterdir() if entry.name.startswith(STAGED))
    for entry in left:
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return [entry.name for entry in left]


def remove(path: Path) -> None:
    """Delete a file for good; one that is not there is no error."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise refusal(error, path) from error
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    try:
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise refusal(error, folder) from error


def refusal(error: OSError, path: Path) -> EnpireError:
    """The sentence for an operating-system error of a write: full, outcome unknown, or not allowed."""
    if error.errno in _FULL:
        return StorageFull(
            f"The disk refused to write {path}: {error.strerror}. Nothing was changed; free some space on that disk "
            "and go on, no order starts before that."
        )
    if error.errno == errno.EIO:
        return OutcomeUnknown(
            f"The disk failed while writing {path}: {error.strerror}. Nobody knows whether the write holds: stop "
            "writing, check the disk, start again and look the id up."
        )
    return FileProblem(f"Cannot write {path}: {error.strerror}. Check that the folder exists and may be written.")


def _staged_name(target: Path) -> Path:
    return target.parent / f"{STAGED}{target.name}-{os.getpid()}-{os.urandom(4).hex()}"


def _fill(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
