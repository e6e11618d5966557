"""One file with the state of a home, written while a campaign runs, and the way back to a folder.

It is a zip file: the ledger and the accounts of the page as SQLite copies them, then the other files, and at the end a
manifest with the hash of each. The ledger is copied first. An episode is stored before the ledger names it, so every
episode of the copy is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from enpire.errors import FileProblem, StorageFull, UsageError
from enpire.files import parse
from enpire.ids import file_name
from enpire.store import durable, removal
from enpire.store.episodes import ARRAYS, PICTURES
from enpire.store.ledger import open_to_read
from enpire.store.reading import Reading

LEDGER, MANIFEST = "ledger.db", "backup.json"
EPISODES = "episodes"
_DATABASES = (LEDGER, "web.db")
_LEFT_OUT = frozenset({
    EPISODES,  # those that the ledger names are added by name
    "copies",  # of the ledger
    "inbox", "ledger.head", "ledger.lock", "run", "served",  # of processes that run
    "learning", "stations", "videos",  # made again when they are missing
    "live_images", "looked_at", "now.json",
})  # fmt: skip
_SQLITE = ("-journal", "-wal", "-shm")
_PACKED = frozenset({".json", ".jsonl", ".yaml", ".html", ".txt", ".db", ".py", ".md"})
"""Ends of names of files that become much smaller."""
_CHUNK = 2**20
_LARGEST_MANIFEST = 2**31

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One file of a backup."""

    path: str
    """Below the home, with `/`."""
    size: int
    sha256: str
    mode: int
    """Permissions, such as 0o600."""

    def __post_init__(self) -> None:
        """Refuse a path that could lead out of the folder with ValueError."""
        parts = PurePosixPath(self.path).parts
        if not parts or self.path.startswith("/") or ".." in parts or "\0" in self.path or "\\" in self.path:
            raise ValueError(f"path cannot be {self.path[:200]!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup holds."""

    schema: int = 1
    head: str
    """SEQUENCE:HASH of the last event of the ledger."""
    code: str
    """Version of ENPIRE that wrote it."""
    files: tuple[Stored, ...]
    damaged: tuple[str, ...] = ()
    """Files of episodes that were not as the ledger records them."""

    def __post_init__(self) -> None:
        """Refuse another schema with ValueError."""
        if self.schema != 1:
            raise ValueError(f"schema must be 1, not {self.schema}; it was written by a newer ENPIRE")

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(one.size for one in self.files)


def write_backup(home: Path, path: Path, code: str, progress: Progress = lambda done, total: None) -> Manifest:
    """Write the backup of a home and read it back. Its name appears when it is complete; only its owner may read it.

    Args:
        home: with a ledger; an orchestrator may write there meanwhile.
        path: of the new file.
        code: version of ENPIRE.
        progress: receives the number of files done and of all files.

    Raises:
        UsageError: the file exists, or lies inside the home.
        LedgerProblem: the ledger is damaged.
        FileProblem, StorageFull: the disk refuses the backup, or it reads back differently.
    """
    target = path.absolute()
    if os.path.lexists(target):
        raise UsageError(f"{path} exists already: name a new file for the backup.")
    if home.resolve() in target.resolve().parents:
        raise UsageError(f"{path} lies inside the home: name a file outside of it, on another disk if possible.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent}: make it, or name another place for the backup.")
    durable.sweep_target(target)
    staged = durable.staged_name(target)
    copies = {name: staged.with_name(f"{staged.name}-{name}") for name in _DATABASES}
    try:
        with _private(staged) as whole, zipfile.ZipFile(whole, "w") as members:
            head = _copy_databases(home, copies)
            sources = dict(_sources(home, copies))
            files: list[Stored] = []
            for number, (name, source) in enumerate(sources.items(), 1):
                files += _added(members, name, source, home / name)
                progress(number, 2 * len(sources))
            files = [one for one in files if not _is_removed(home, one.path)]
            damaged = tuple(_damaged(copies[LEDGER], {one.path: one.sha256 for one in files}))
            manifest = Manifest(head=head, code=code, files=tuple(files), damaged=damaged)
            members.writestr(MANIFEST, json.dumps(asdict(manifest)), zipfile.ZIP_DEFLATED)
        _require_equal(staged, manifest, lambda done: progress(len(sources) + done, 2 * len(sources)))
        durable.adopt(staged, target, target.parent)
    except OSError as error:
        raise durable.refusal(error, target) from error
    finally:
        for left in (staged, *(Path(f"{copy}{end}") for copy in copies.values() for end in ("", *_SQLITE))):
            removal.try_remove(left, target.parent)
    return manifest


@contextmanager
def opened_backup(path: Path) -> Generator[tuple[zipfile.ZipFile, Manifest]]:
    """Give (the file, its manifest); FileProblem when it is no backup."""
    if not path.is_file():  # a pipe would wait for a writer
        raise FileProblem(f"There is no backup {path}.")
    try:
        with zipfile.ZipFile(path) as members:
            if members.getinfo(MANIFEST).file_size > _LARGEST_MANIFEST:
                raise FileProblem(f"The manifest of {path} is larger than any backup has: do not use the file.")
            manifest = parse(Manifest, json.loads(members.read(MANIFEST)), f"The manifest of {path}")
            yield members, manifest
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, NotImplementedError, EOFError, RecursionError) as why:
        raise FileProblem(
            f"{path} is no backup of a home, or is damaged ({why}); take another one, or write it again with `enpire "
            "home backup`."
        ) from why


def unpack(path: Path, folder: Path, progress: Progress = lambda done, total: None) -> Manifest:
    """Write the files of a backup to an empty folder, durably, each with its permissions; returns the manifest.

    Raises:
        FileProblem: it is no backup, or a file has another hash.
        StorageFull: the disk has too little space.
    """
    with opened_backup(path) as (members, manifest):
        space = os.statvfs(folder)
        if manifest.size > (free := space.f_bavail * space.f_frsize):
            raise StorageFull(f"The backup unpacks to {manifest.size >> 20} MiB, and {folder.parent} has {free >> 20}.")
        written: list[Path] = []
        for number, one in enumerate(manifest.files, 1):
            out = folder / one.path
            changed = FileProblem(f"{one.path} in {path} was changed after it was written: take another backup.")
            if members.getinfo(one.path).file_size != one.size:  # a larger one could fill the disk
                raise changed
            out.parent.mkdir(parents=True, exist_ok=True)
            with members.open(one.path) as source, _private(out) as file:
                found = _copied(source, file)
            if found != (one.sha256, one.size):
                raise changed
            out.chmod(one.mode & 0o777)
            written += [out, out.parent]
            progress(number, len(manifest.files))
    durable.sync_many(written)
    return manifest


def _copy_databases(home: Path, copies: Mapping[str, Path]) -> str:
    """Copy the databases of a home that are there; returns the head of the copied ledger."""
    for copy in copies.values():
        copy.touch(0o600)
    with closing(open_to_read(home / LEDGER)) as ledger:
        head = ledger.back_up(copies[LEDGER]).head
    for name, copy in copies.items():
        if name != LEDGER and (home / name).is_file():
            source = sqlite3.connect(f"{(home / name).resolve().as_uri()}?mode=ro", uri=True)
            with closing(source), closing(sqlite3.connect(copy)) as into:
                try:
                    source.backup(into)
                except sqlite3.Error as error:
                    raise FileProblem(f"{home / name} cannot be copied: {error}.") from error
    return str(head)


def _sources(home: Path, copies: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    """(name in the backup, file to read) of everything in a home that is kept."""
    for name, copy in copies.items():
        if (home / name).is_file():
            yield name, copy
    for campaign_id, order_id, _, _ in _recorded(copies[LEDGER]):
        folder = home / EPISODES / file_name(campaign_id, "a campaign") / file_name(order_id, "an episode")
        yield from ((path.relative_to(home).as_posix(), path) for path in _files(folder))
    for entry in sorted(home.iterdir()):
        of_database = any(entry.name == f"{name}{end}" for name in _DATABASES for end in ("", *_SQLITE))
        if not (of_database or entry.name in _LEFT_OUT or entry.name.startswith(".")):
            yield from ((path.relative_to(home).as_posix(), path) for path in _files(entry))


def _recorded(ledger: Path) -> Sequence[tuple[str, str, str, str]]:
    """(campaign id, order id, sha256 of the arrays, of the camera images) of the episodes of a ledger."""
    with closing(Reading.open(ledger)) as reading:
        return reading.file_hashes()


def _files(path: Path) -> Iterator[Path]:
    """The plain files at or below a path, the last names first: of a git repository, the refs before the objects."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            yield path
        elif stat.S_ISDIR(mode):
            for entry in sorted(path.iterdir(), reverse=True):
                if not entry.name.startswith(removal.STAGED):
                    yield from _files(entry)
    except FileNotFoundError:
        return


def _added(members: zipfile.ZipFile, name: str, source: Path, original: Path) -> Sequence[Stored]:
    """Add one file; nothing where it vanished meanwhile."""
    try:
        with source.open("rb") as file:
            mode = stat.S_IMODE(original.stat().st_mode)
            about = zipfile.ZipInfo(name)
            about.external_attr = (stat.S_IFREG | mode) << 16
            about.compress_type = zipfile.ZIP_DEFLATED if original.suffix in _PACKED else zipfile.ZIP_STORED
            with members.open(about, "w", force_zip64=True) as member:
                sha256, size = _copied(file, member)
    except FileNotFoundError:
        return ()
    except UnicodeEncodeError as error:
        raise FileProblem(f"The name {name!r} is not UTF-8: rename the file, and back up again.") from error
    return (Stored(path=name, size=size, sha256=sha256, mode=mode),)


def _is_removed(home: Path, name: str) -> bool:
    """Whether a file belongs to a policy version that was removed meanwhile, of which the backup may hold a part."""
    return name.startswith("versions/") and not (home / name).exists()


def _damaged(ledger: Path, found: Mapping[str, str]) -> Iterator[str]:
    """The files of episodes that are missing, or have another hash than in the copied ledger."""
    for campaign_id, order_id, arrays, pictures in _recorded(ledger):
        folder = f"{EPISODES}/{campaign_id}/{order_id}"
        for name, sha256 in ((ARRAYS, arrays), (PICTURES, pictures)):
            if found.get(f"{folder}/{name}", "") != sha256:
                yield f"{folder}/{name}"


def _require_equal(path: Path, manifest: Manifest, progress: Callable[[int], object]) -> None:
    """Read a written backup again and compare every hash."""
    with opened_backup(path) as (members, again):
        if again != manifest:
            raise FileProblem(f"The manifest of the backup was not written as it is: check the disk of {path.parent}.")
        for number, one in enumerate(manifest.files, 1):
            with members.open(one.path) as member:
                digest = hashlib.sha256()
                while chunk := member.read(_CHUNK):
                    digest.update(chunk)
            if digest.hexdigest() != one.sha256:
                raise FileProblem(f"{one.path} was not written as it is: check the disk of {path.parent}.")
            progress(number)


def _copied(source: IO[bytes], target: IO[bytes]) -> tuple[str, int]:
    """Copy a stream; (sha256, bytes)."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        target.write(chunk)
        size += len(chunk)
    return digest.hexdigest(), size


@contextmanager
def _private(path: Path) -> Generator[IO[bytes]]:
    """A new file that only its owner may read."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
