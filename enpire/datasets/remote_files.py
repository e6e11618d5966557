"""Copies a policy version or a dataset to another place and back: a folder, an object store, any system of fsspec.

Beside the files lies `enpire.json`, which names each file with its size and hash. It is written last, so a place that
has it is whole. Until then `enpire-incomplete.json` names the files that have arrived, and the same command continues.
Nothing that is read from such a place is trusted: names, sizes and hashes are checked before a file is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from enpire.errors import EnpireError, FileProblem, MissingExtra, TransportProblem, UsageError
from enpire.files import canonical, is_json_object, parse
from enpire.store import durable, removal

Kind = Literal["policy version", "dataset"]
MANIFEST, INCOMPLETE, CARD = "enpire.json", "enpire-incomplete.json", "README.md"
SCHEMA = 1
LARGEST_MANIFEST = 2**24
"""Bytes of a manifest that is still read: about 100,000 files."""
LONGEST_PATH = 1024
_CHUNK = 2**20
_PART = ".part"
Say = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """One file of a manifest."""

    path: str
    """Relative, with `/`."""
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a place holds."""

    schema: int
    kind: str
    id: str
    """Of a version: its id. Of a dataset: sha256 over its list of files."""
    files: tuple[RemoteFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)

    def encoded(self) -> bytes:
        """As it is written."""
        files = [{"path": file.path, "bytes": file.bytes, "sha256": file.sha256} for file in self.files]
        whole = {"schema": self.schema, "kind": self.kind, "id": self.id, "files": files}
        return (json.dumps(whole, indent=1) + "\n").encode()


def manifest_of(folder: Path, kind: Kind, known_id: str = "") -> Manifest:
    """The manifest of a folder; hidden files and folders are left out.

    Args:
        folder: of the version or dataset.
        kind: what it is.
        known_id: id of a version; empty for the id of a dataset, which is made here.

    Raises:
        FileProblem: it holds something else than plain files and folders, or a file that would hide the manifest.
    """
    files: list[RemoteFile] = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if any(part.startswith(".") for part in name.split("/")):
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise FileProblem(f"{path} is neither a plain file nor a folder: only those are copied. Remove it.")
        if name in (MANIFEST, INCOMPLETE):
            raise FileProblem(f"{path} has the name of the list of files that is written beside them: rename it.")
        if path.is_file():
            files.append(RemoteFile(path=name, bytes=path.stat().st_size, sha256=_hash(path)))
    listed = [[file.path, file.bytes, file.sha256] for file in files]
    made = known_id or hashlib.sha256(canonical(listed).encode()).hexdigest()
    return Manifest(schema=SCHEMA, kind=kind, id=made, files=tuple(files))


def read_manifest(url: str, kind: Kind) -> Manifest:
    """The checked manifest of a place.

    Raises:
        FileProblem: there is none, it is malformed, or it is of something else.
        TransportProblem: the place cannot be read.
    """
    place = Place.at(url)
    with place.refusals():
        text = place.read(MANIFEST)
        if text is None:
            why = "its copy was not finished; repeat the push" if place.read(INCOMPLETE) is not None else "correct it"
            raise FileProblem(f"{url} has no {MANIFEST}, which `push` writes at its end: {why}.")
    found = _parsed(text, f"{url}/{MANIFEST}")
    if found.kind != kind:
        raise FileProblem(f"{url} holds a {found.kind[:40]}, not a {kind}: use the `pull` of the other group.")
    return found


def push(folder: Path, manifest: Manifest, url: str, card: str = "", say: Say = lambda done, total: None) -> int:
    """Copy the files of `folder` to `url`; returns the bytes that were sent. A killed push continues where it ended.

    Args:
        folder: whose files `manifest` lists.
        manifest: of them.
        url: an empty or new folder, or one in which this push began.
        card: text of README.md, unless the files have one.
        say: called with (bytes done, bytes in all).

    Raises:
        UsageError: the place holds something else; nothing is written.
        FileProblem: a file changed meanwhile.
        TransportProblem: the place cannot be written; the same command continues.
    """
    place = Place.at(url)
    with place.refusals():
        if (text := place.read(MANIFEST)) is not None:
            kept = _parsed(text, f"{url}/{MANIFEST}")
            if kept.id == manifest.id:
                return 0
            raise UsageError(
                f"{url} holds another {kept.kind}, {kept.id[:12]}: choose a new folder; nothing is replaced."
            )
        arrived = place.arrived(manifest.id)
        done = sent = 0
        for file in manifest.files:
            if file.path not in arrived or place.size(file.path) != file.bytes:
                place.put(folder / file.path, file.path)
                if place.size(file.path) != file.bytes or _hash(folder / file.path) != file.sha256:
                    raise FileProblem(f"{folder / file.path} changed while it was copied: repeat the command.")
                arrived.append(file.path)
                place.write(INCOMPLETE, json.dumps({"id": manifest.id, "files": arrived}).encode())
                sent += file.bytes
            done += file.bytes
            say(done, manifest.size)
        if card and all(file.path != CARD for file in manifest.files):
            place.write(CARD, card.encode())
        place.write(MANIFEST, manifest.encoded())
        place.remove(INCOMPLETE)
    return sent


def pull(url: str, manifest: Manifest, folder: Path, say: Say = lambda done, total: None) -> None:
    """Copy the files of a manifest from `url` into `folder`, each checked; files that are there already stay.

    Args:
        url: where the manifest was read.
        manifest: from `read_manifest`.
        folder: of the caller alone; a killed pull into the same folder continues.
        say: called with (bytes done, bytes in all).

    Raises:
        FileProblem: a file has another size or hash, or does not fit on the disk; it is not kept.
        TransportProblem: the place cannot be read; the same command continues.
    """
    durable.make_folder(folder)
    missing = [file for file in manifest.files if not _is(folder / file.path, file)]
    need, free = sum(file.bytes for file in missing), shutil.disk_usage(folder).free
    if need > free:
        raise FileProblem(f"{url} needs {need} bytes and {folder} has {free} left: free some, or choose another disk.")
    done = manifest.size - need
    place = Place.at(url)
    with place.refusals():
        for file in missing:
            say(done, manifest.size)
            target = folder / file.path
            durable.make_folder(target.parent)
            part = target.with_name(target.name + _PART)
            try:
                found = place.get(file.path, part, file.bytes)
                if found != file.sha256:
                    raise FileProblem(
                        f"{file.path} at {url} is not the file that {MANIFEST} names: it is damaged there."
                    )
                removal.replace(part, target, folder)
            finally:
                removal.try_remove(part, folder)
            done += file.bytes
    say(done, manifest.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder of a file system of fsspec."""

    url: str
    system: Any
    root: str

    @staticmethod
    def at(url: str) -> Place:
        """Open a place.

        Raises:
            MissingExtra: the package that speaks its protocol is not installed.
            UsageError: no package speaks it.
        """
        try:
            import fsspec.core  # pyright: ignore[reportMissingTypeStubs]
        except ModuleNotFoundError as error:
            raise MissingExtra(f"Copies to other places need fsspec ({error}): pip install 'enpire[hub]'.") from error
        try:
            opened: Any = fsspec.core.url_to_fs  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            system, root = opened(url)
        except ImportError as error:
            raise MissingExtra(f"{url} cannot be reached: {str(error).rstrip('.')}.") from error
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"{url!r} is no place for files ({str(error).rstrip('.')}); write a folder, s3://BUCKET/FOLDER, "
                "hf://USER/NAME or another URL of fsspec."
            ) from error
        system.invalidate_cache()
        return Place(url=url, system=system, root=str(root).rstrip("/"))

    @contextlib.contextmanager
    def refusals(self) -> Generator[None]:
        """Turn each error of the file system into a TransportProblem."""
        try:
            yield
        except EnpireError:
            raise
        except Exception as error:  # each file system has errors of its own
            why = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
            raise TransportProblem(
                f"{self.url} cannot be used ({type(error).__name__}: {why}). The same command continues once it can."
            ) from error

    def read(self, name: str) -> bytes | None:
        """A small file; None where it is missing.

        Raises:
            FileProblem: it is too large.
        """
        try:
            with self.system.open(f"{self.root}/{name}", "rb") as file:
                data: bytes = file.read(LARGEST_MANIFEST + 1)
        except FileNotFoundError:
            return None
        if len(data) > LARGEST_MANIFEST:
            raise FileProblem(f"{self.url}/{name} has more than {LARGEST_MANIFEST} bytes, so it is not read.")
        return data

    def arrived(self, wanted: str) -> list[str]:
        """The files that an unfinished push of the same content wrote.

        Raises:
            UsageError: the place holds something else.
        """
        text = self.read(INCOMPLETE)
        if text is None:
            if self.system.exists(self.root) and self.system.ls(self.root, detail=False):
                raise UsageError(f"{self.url} is not empty: choose a new folder; nothing is replaced.")
            self.system.makedirs(self.root, exist_ok=True)
            return []
        listed = _json(text)
        if not is_json_object(listed):
            return []  # cut off in the write of the list: the files are sent again
        if listed.get("id") != wanted:
            raise UsageError(f"{self.url} holds a part of something else: choose a new folder.")
        files = listed.get("files")
        return [file for file in files if isinstance(file, str)] if isinstance(files, list) else []

    def size(self, name: str) -> int | None:
        """Bytes of a file; None where it is missing."""
        self.system.invalidate_cache()
        try:
            found = self.system.size(f"{self.root}/{name}")
        except FileNotFoundError:
            return None
        return int(found) if found is not None else None

    def put(self, path: Path, name: str) -> None:
        """Copy one file there."""
        target = f"{self.root}/{name}"
        self.system.makedirs(target.rpartition("/")[0], exist_ok=True)
        self.system.put_file(str(path), target)

    def write(self, name: str, data: bytes) -> None:
        """Write a small file there."""
        self.system.pipe_file(f"{self.root}/{name}", data)

    def remove(self, name: str) -> None:
        """Remove a file of ours there."""
        with contextlib.suppress(FileNotFoundError):
            self.system.rm_file(f"{self.root}/{name}")

    def get(self, name: str, target: Path, size: int) -> str:
        """Copy one file here, at most one byte more than `size`; its sha256."""
        digest, left = hashlib.sha256(), size + 1
        try:
            with self.system.open(f"{self.root}/{name}", "rb") as source, target.open("wb") as file:
                while left > 0 and (chunk := source.read(min(left, _CHUNK))):
                    digest.update(chunk)
                    file.write(chunk)
                    left -= len(chunk)
            durable.sync(target)
        except FileNotFoundError as error:
            raise FileProblem(f"{self.url} has no {name}, which its {MANIFEST} names: it is damaged there.") from error
        return digest.hexdigest()


def _parsed(text: bytes, where: str) -> Manifest:
    found = parse(Manifest, _json(text), where)
    if found.schema != SCHEMA:
        raise FileProblem(f"{where} has schema {found.schema}; this version of ENPIRE reads {SCHEMA}.")
    names: set[str] = set()
    for file in found.files:
        parts = file.path.split("/")
        plain = all(part and part[0] != "." and "\\" not in part and "\0" not in part for part in parts)
        if not plain or len(file.path) > LONGEST_PATH or parts[-1].endswith(_PART):
            raise FileProblem(f"{where} names the file {file.path[:80]!r}, which would not lie in its folder.")
        if file.path in names or file.bytes < 0:
            raise FileProblem(f"{where} names {file.path[:80]!r} twice, or with a negative size.")
        names.add(file.path)
    if any(file.path.rpartition("/")[0] in names for file in found.files):
        raise FileProblem(f"{where} names a file that is also the folder of another one.")
    return found


def _json(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is(path: Path, file: RemoteFile) -> bool:
    """Whether the file is there with its size and hash."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size == file.bytes and _hash(path) == file.sha256


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
