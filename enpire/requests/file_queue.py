"""A queue of requests in a folder: one durable JSON file each, left by any process, taken by one.

The authors of the files are not trusted. A file that is a link, a pipe, too large or not JSON is moved aside and
reported once; it is never followed and never blocks the reader. One look reads the names of at most SCANNED files and
the content of at most `most`, so its time does not depend on the number or the size of the files.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import FileProblem
from enpire.files import LARGEST_WHOLE, canonical
from enpire.ids import file_name, mint
from enpire.log_lines import encodable
from enpire.store import durable, removal

LARGEST = 16 * 1024
"""Most bytes of one request."""
SCANNED = 512
"""Most names of a folder that one look reads. Among more files, a look takes the oldest of those that it read."""
LONGEST_WHOLE = 20
"""Most characters of a whole number, with its sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file that is not a request; it was moved aside."""

    name: str
    """Its file name without the suffix."""
    why: str
    author: str = ""
    """Author of the lane in which it lay; empty for commands of operators."""
    lane: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileQueue:
    """The requests in one folder."""

    folder: Path
    done: Path | None
    """Where handled requests go; None: they are deleted."""
    bad: Path
    """Where files go that are not requests."""
    noun: str
    """What one request is called in sentences: command, request."""
    renames: bool = False
    """Whether files get new names when they are moved: their author may have prepared the old name there."""
    alone: bool = True
    """Whether the folder holds requests only: any other file is then moved aside, so that it hides no request."""

    def leave(self, request_id: str, data: bytes) -> None:
        """Write a request; it is durable when this returns. An id that waits or was handled is not written again.

        Raises:
            EnpireError: the disk refused.
        """
        if not self.knows(request_id):
            durable.make_folder(self.folder)
            durable.write(self._path(request_id), data)

    def knows(self, request_id: str) -> bool:
        """Whether a request of this id waits or was handled."""
        path = self._path(request_id)
        return path.exists() or (self.done is not None and (self.done / path.name).exists())

    def waiting[Request](
        self, read: Callable[[str, object], Request], most: int
    ) -> Iterator[tuple[str, Request] | Unreadable]:
        """The oldest requests as (id, what `read` made of id and JSON value); a file that is none is moved aside.

        Args:
            read: raises FileProblem for a value that is not a request.
            most: how many files are read at most.

        Raises:
            NothingOpens: this process has too many files open to read one.
        """
        for path in self._oldest(most):
            try:
                yield path.stem, read(file_name(path.stem, f"a {self.noun}"), self._content(path))
            except FileProblem as problem:
                if self._set_aside(path):
                    yield Unreadable(name=encodable(path.stem), why=encodable(str(problem)))

    def remove(self, request_id: str) -> None:
        """Take a handled request out of the folder; nothing happens when its file is gone."""
        if self.done is None:
            with contextlib.suppress(OSError):  # the ledger has it, so it is not answered again
                removal.remove(self._path(request_id), self.folder)
        else:
            self._move(self._path(request_id), self.done)

    def _set_aside(self, path: Path) -> bool:
        """Move a file or folder that is not a request; False when it is gone or its author does not let it go."""
        try:
            return self._move(path, self.bad)
        except PermissionError:
            with contextlib.suppress(OSError, NotImplementedError):
                path.chmod(0o700, follow_symlinks=False)  # a folder that may not be written cannot be moved
                return self._move(path, self.bad)
        except OSError as problem:
            if durable.shortage(problem) is not None:
                raise
        return False

    def _move(self, path: Path, folder: Path) -> bool:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            name = f"{mint()}.json" if self.renames else path.name
            removal.replace(path, folder / name, Path(os.path.commonpath([self.folder, folder])))
        except FileNotFoundError:
            return False  # its author removed it
        return True

    def _path(self, request_id: str) -> Path:
        return self.folder / f"{file_name(request_id, f'a {self.noun}')}.json"

    def _oldest(self, most: int) -> list[Path]:
        stamped: list[tuple[int, Path]] = []
        for entry in _entries(self.folder, max(SCANNED, most)):
            is_request = os.path.splitext(entry.name)[1] == ".json"  # noqa: PTH122 - a Path for each look takes longer
            if not is_request and (not self.alone or entry.name.startswith(durable.STAGED)):
                continue
            path = self.folder / entry.name
            try:
                stamped.append((path.lstat().st_mtime_ns if is_request else 0, path))
            except FileNotFoundError:
                continue  # its author removed it
        return [path for _, path in sorted(stamped)[:most]]

    def _content(self, path: Path) -> object:
        try:
            if path.suffix != ".json":
                raise ValueError("its name does not end in .json")
            # A link leads to another file, and a pipe would block: open neither.
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise FileProblem(
                        f"The {self.noun} {path.name} is not a regular file; it was set aside in {self.bad.name}."
                    )
                data = file.read(LARGEST + 1)
            if len(data) > LARGEST:
                raise ValueError(f"it has more than {LARGEST} bytes")
            return decoded(data)
        except (OSError, ValueError, RecursionError) as problem:
            if durable.is_spent():
                raise durable.spent(path) from problem  # the file may still be a request
            raise FileProblem(
                f"The {self.noun} {path.name} cannot be read and was set aside in {self.bad.name}: {problem}."
            ) from problem


def names_in(folder: Path, most: int) -> list[Path]:
    """At most `most` entries of a folder, in no order; none where the folder is missing or cannot be read.

    Raises:
        NothingOpens: this process has too many files open to read the folder.
    """
    return [folder / entry.name for entry in _entries(folder, most)]


def number_in(folder: Path, most: int) -> int:
    """Number of the entries of a folder, counted up to `most`; as `names_in`."""
    return len(_entries(folder, most))


def folders_in(folder: Path, most: int) -> list[str]:
    """Names of the folders, without links, among at most `most` entries of a folder; as `names_in`."""
    return [entry.name for entry in _entries(folder, most) if _is_folder(entry)]


def _entries(folder: Path, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(itertools.islice(entries, most))
    except OSError as problem:
        if durable.is_spent():
            raise durable.spent(folder) from problem
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False  # it was removed


def decoded(data: bytes) -> object:
    """A JSON value that the ledger can hold: finite numbers, integers of 64 bits, valid characters.

    Raises:
        ValueError, RecursionError: it is something else.
    """
    content: object = json.loads(data, parse_int=_whole)
    canonical(content).encode()
    return content


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_WHOLE or not -LARGEST_WHOLE <= int(digits) <= LARGEST_WHOLE:
        raise ValueError(f"an integer of {len(digits)} digits is too large")
    return int(digits)
