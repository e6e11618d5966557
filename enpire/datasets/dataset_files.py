"""The files of a dataset that another tool wrote: regular files below its folder, read within a limit on memory."""

from __future__ import annotations

import os
import re
import resource
import stat
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from enpire.errors import FileProblem
from enpire.files import shown
from enpire.store import durable

MOST_FILES = 100_000
"""Most files of one kind in a dataset."""
MOST_INDEX = 2**31 - 1
_VIDEO_FIELD = re.compile(r"\{(video_key|chunk_index|file_index)(?::0?([0-9]{1,2})d)?\}")
_GIB = 2**30


def below(root: Path, name: str | Path) -> Path:
    """The regular file of this name in a dataset, without links.

    Raises:
        FileProblem: it does not exist, lies outside the dataset, or is no regular file. It was not opened.
    """
    try:
        found = (root / name).resolve(strict=True)
        inside, regular = found.is_relative_to(root.resolve()), stat.S_ISREG(found.stat().st_mode)
    except (OSError, ValueError, RuntimeError) as problem:
        raise FileProblem(f"{shown(str(root / name))} cannot be read: {problem}.") from problem
    if not inside:
        raise FileProblem(
            f"{root / name} lies outside the dataset {root}; every file must lie in it. Copy the dataset with "
            "files in place of links (cp -rL)."
        )
    if not regular:
        raise FileProblem(f"{root / name} is not a regular file; a dataset holds no folders, pipes or devices there.")
    return found


def parquet_files(root: Path, folder: str) -> list[Path]:
    """The parquet files below a folder of a dataset, sorted.

    Raises:
        FileProblem: one is no regular file of the dataset, or there are more than MOST_FILES.
    """
    names = sorted(islice((root / folder).rglob("*.parquet"), MOST_FILES + 1))
    if len(names) > MOST_FILES:
        raise FileProblem(f"{root / folder} holds more than {MOST_FILES} parquet files; split the dataset.")
    return [below(root, name.relative_to(root)) for name in names]


def video_name(pattern: str, video_key: str, chunk_index: int, file_index: int) -> str:
    """The name of a video by the `video_path` of a dataset, such as videos/{video_key}/chunk-{chunk_index:03d}.mp4.

    Raises:
        FileProblem: the pattern holds another field, or a format other than a number of digits.
    """
    values: dict[str, str | int] = {"video_key": video_key, "chunk_index": chunk_index, "file_index": file_index}

    def put(field: re.Match[str]) -> str:
        return str(values[field[1]]).zfill(int(field[2] or 0))

    if re.search(r"[{}]", _VIDEO_FIELD.sub("", pattern)):
        raise FileProblem(
            f"The video_path {shown(pattern)} in meta/info.json may hold {{video_key}}, {{chunk_index:03d}} and "
            "{file_index:03d}, no other braces; correct it."
        )
    return _VIDEO_FIELD.sub(put, pattern)


@contextmanager
def memory_limit(what: Path, most_bytes: int | None = None) -> Generator[None]:
    """Let this process take at most `most_bytes` more memory while entered, by default half of the computer's.

    A small file can describe a large table, so no limit on the size of files is enough.

    Raises:
        FileProblem: reading `what` took more.
    """
    allowed = most_bytes or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _address_space() + allowed
    resource.setrlimit(resource.RLIMIT_AS, (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted), hard))
    try:
        yield
    except MemoryError as problem:
        raise FileProblem(
            f"Reading {what} takes more than {allowed / _GIB:.3g} GiB of memory; it is damaged, or must be split into "
            "smaller datasets."
        ) from problem
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def finish(dataset: Path) -> None:
    """Sync every file of a written dataset; who may read its folder may read them. LeRobot makes its videos private."""
    readers = dataset.stat().st_mode & 0o044
    for path in sorted(dataset.rglob("*")):
        path.chmod(stat.S_IMODE(path.stat().st_mode) | readers | (readers >> 2 if path.is_dir() else 0))
        durable.sync(path)


def _address_space() -> int:
    """Bytes of memory that this process has mapped; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
