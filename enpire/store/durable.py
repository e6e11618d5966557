"""The one place that makes things durable: file, fsync, rename, fsync of the folder, never in another order.

After a function here returns, the bytes survive a power cut. When it raises StorageFull or FileProblem, the old
state holds; after OutcomeUnknown nobody knows, so look it up under its id and never repeat the fsync (a kernel may
forget a failed write-back and answer the second fsync with success: "fsyncgate", 2018).
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from enpire.errors import EnpireError, FileProblem, NothingOpens, OutcomeUnknown, StorageFull

STAGED = ".staged-"
"""Names that begin so are half-written; whoever owns the folder sweeps them at start."""
_FEW = 2
"""Up to so many files are synced one by one."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SPENT = frozenset({errno.EMFILE, errno.ENFILE})


def write(path: Path, data: bytes) -> None:
    """Make one file durable, all of it or nothing; an older file of that name is replaced."""
    staged = staged_name(path)
    try:
        _fill(staged, data)
        staged.replace(path)
    except OSError as error:
        staged.unlink(missing_ok=True)
        raise refusal(error, path) from error
    sync(path.parent)


def write_many(files: Mapping[Path, bytes]) -> None:
    """Make several files of one disk durable, each whole or not at all, with one sync of the disk for all of them."""
    if not files:
        return
    staged = {path: staged_name(path) for path in files}
    try:
        for path, hidden in staged.items():
            _put(hidden, files[path])
        _sync_disk(staged.values())
        for path, hidden in staged.items():
            hidden.replace(path)
    except OSError as error:
        for hidden in staged.values():
            hidden.unlink(missing_ok=True)
        raise refusal(error, next(iter(files))) from error
    for parent in dict.fromkeys(path.parent for path in files):
        sync(parent)


def fill_folders(folders: Mapping[Path, Mapping[str, bytes]]) -> None:
    """Write files into existing folders of one disk and sync them all at once. For staged folders: not atomic."""
    written: list[Path] = []
    try:
        for folder, files in folders.items():
            for name, data in files.items():
                _put(folder / name, data)
                written.append(folder / name)
            written.append(folder)
        _sync_disk(written)
    except OSError as error:
        raise refusal(error, next(iter(folders))) from error


def append(path: Path, data: bytes) -> None:
    """Append to a file and sync it; a missing one is made. When the disk refuses, the file ends where it ended."""
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


def adopt(staged: Path, path: Path) -> None:
    """Sync a file that somebody else wrote (a copy of a database), and give it its name."""
    sync(staged)
    try:
        staged.replace(path)
    except OSError as error:
        raise refusal(error, path) from error
    sync(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, each entry durable in the folder above it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise refusal(error, folder) from error
    sync(folder.parent)


def stage_folder(target: Path) -> Path:
    """A new empty folder beside `target`, under a name that a sweep removes; `reveal` gives it its real name."""
    make_folder(target.parent)
    staged = staged_name(target)
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
        sync(parent)


def sweep(folder: Path) -> list[str]:
    """Remove what was half-written in a folder (not below it); returns the names."""
    if not folder.is_dir():
        return []
    try:
        left = sorted(entry for entry in folder.iterdir() if entry.name.startswith(STAGED))
        for entry in left:
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    except OSError as error:
        raise refusal(error, folder) from error
    return [entry.name for entry in left]


def remove(path: Path) -> None:
    """Delete a file for good; one that is not there is no error."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise refusal(error, path) from error
    sync(path.parent)


def sync(path: Path) -> None:
    """Sync one file that somebody else wrote, or the names in a folder."""
    try:
        _fsync(path)
    except OSError as error:
        raise refusal(error, path) from error


def refusal(error: OSError, path: Path) -> EnpireError:
    """The sentence for an operating-system error of a write: full, outcome unknown, or not allowed."""
    if error.errno in _SPENT:
        return spent(path)
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


def spent(path: Path) -> NothingOpens:
    """The sentence for a process that has as many files and connections open as it may."""
    return NothingOpens(
        f"Nothing more can be opened, so {path} was not written: too many files and connections are open. Nothing was "
        "changed; it goes on when some are closed (`ulimit -n` says how many may be open)."
    )


def shortage(problem: BaseException | None) -> StorageFull | None:
    """What was short, where that is why something was raised: it may be waited for."""
    while problem is not None:
        if isinstance(problem, StorageFull):
            return problem
        if isinstance(problem, OSError) and problem.errno in _SPENT | _FULL:
            return cast("StorageFull", refusal(problem, Path(problem.filename or "what was wanted")))
        problem = problem.__cause__
    return None


def is_spent() -> bool:
    """Whether this process can open nothing more."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in _SPENT
    return False


def staged_name(target: Path) -> Path:
    """A new name beside `target` that a sweep removes."""
    return target.parent / f"{STAGED}{target.name}-{os.getpid()}-{os.urandom(4).hex()}"


def _put(path: Path, data: bytes) -> None:
    """Write without a sync: the caller syncs."""
    with path.open("xb") as file:
        file.write(data)


def _append(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _sync_disk(paths: Iterable[Path]) -> None:
    """Make all of these durable: one by one when they are few, else by one sync of the file system they lie on."""
    listed = list(paths)
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if _syncfs_tells_errors() else None
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


def _syncfs_tells_errors() -> bool:
    # Before Linux 5.8 syncfs answered with success also when the disk had failed.
    return sys.platform.startswith("linux") and tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 8)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
