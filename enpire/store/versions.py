"""Policy versions as folders of plain files: their hash, durable publication, and packing for the wire. No torch.

No function holds a whole version in memory, because weights may be larger than the memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import FileProblem, PolicyProblem
from enpire.files import is_json_object
from enpire.ids import version_id
from enpire.store import durable, removal
from enpire.types import Json

MANIFEST = "policy.json"
"""Every version has this file: a JSON object with `kind`, the name of the policy plug-in that loads the version."""
_SCHEMA = 2
_LENGTH = 8
"""Bytes of the number at the start of a packed version: the length of its list of files."""
_LONGEST_LIST, _LARGEST_MANIFEST = 2**20, 2**24
_CHUNK = 2**20


def identify(folder: Path) -> str:
    """The policy_id of a folder: the hash of its files, sorted by name.

    Raises:
        FileProblem: the folder is no version: it has no manifest, or an entry that is not a plain file (the target of
            a link could change later).
    """
    return hash_files(folder, _sizes(folder))


def hash_files(folder: Path, sizes: Mapping[str, int]) -> str:
    """Sha256 over files below a folder, in the order of `sizes` (name -> bytes), each as (name, size, bytes)."""
    digest = hashlib.sha256()
    for name, size in sizes.items():
        encoded = name.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded + size.to_bytes(8, "big"))
        for chunk in _chunks(folder / name, 0, size):
            digest.update(chunk)
    return digest.hexdigest()


def is_version(folder: Path) -> bool:
    """Whether there is a folder with a manifest; False also for a path that the system does not allow."""
    try:
        return (folder / MANIFEST).is_file()
    except (OSError, ValueError):
        return False


def manifest(folder: Path) -> Mapping[str, Json]:
    """The content of `policy.json`; FileProblem when it is not an object with a `kind`."""
    path = folder / MANIFEST
    if not path.is_file():
        raise FileProblem(f"{folder} is not a policy version: it has no {MANIFEST}.")
    return _manifest(path.read_bytes(), path)


def publish(folder: Path, versions_root: Path) -> str:
    """Copy a folder to `versions_root`/<policy_id>, durably, whole or not at all; returns the policy_id.

    Publishing the same files again changes nothing.

    Raises:
        FileProblem: the folder is no version, or the published version was changed.
    """
    policy_id = identify(folder)
    kept = versions_root / version_id(policy_id)
    if not kept.exists():
        copy(folder, kept)
    if identify(kept) != policy_id:
        raise FileProblem(f"{kept} holds files that are not version {policy_id}: delete that folder and try again.")
    return policy_id


def copy(folder: Path, target: Path) -> None:
    """Copy the files of a version to a new folder, durably, whole or not at all; does not check their hash."""
    _place({name: _chunks(folder / name, 0, size) for name, size in _sizes(folder).items()}, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A version as one sequence of bytes for `unpack` on another machine; `read` reads from the disk."""

    folder: Path
    sizes: Mapping[str, int]
    """File -> size in bytes, in the order of packing."""
    head: bytes

    @property
    def size(self) -> int:
        """Bytes of the packed version."""
        return len(self.head) + sum(self.sizes.values())

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on; fewer only at the end."""
        found = bytearray(self.head[offset : offset + size])
        begin = len(self.head)
        for name, length in self.sizes.items():
            low, high = max(offset - begin, 0), min(offset + size - begin, length)
            found += b"".join(_chunks(self.folder / name, low, high - low))
            begin += length
        return bytes(found)


def pack(folder: Path) -> Packed:
    """Pack a version: the length of the list of files, the list [[name, bytes], ...] as JSON, then the files."""
    sizes = _sizes(folder)
    listed = json.dumps({"schema": _SCHEMA, "files": list(sizes.items())}).encode()
    return Packed(folder=folder, sizes=sizes, head=len(listed).to_bytes(_LENGTH, "big") + listed)


def unpack(packed: Path, folder: Path) -> str:
    """Write the files of a packed version to a new folder, durably, whole or not at all; returns their policy_id.

    The caller compares it with the requested id.

    Raises:
        FileProblem: the packed file is malformed; nothing is written.
    """
    places = _places(packed)
    _place({name: _chunks(packed, *place) for name, place in places.items()}, folder)
    return identify(folder)


def keep(packed: Path, policy_id: str, root: Path) -> None:
    """Unpack a received version to `root`/`policy_id`, durably; the packed file is always removed.

    Raises:
        PolicyProblem: its files have another hash; nothing is stored.
        FileProblem: the packed file is malformed; nothing is stored.
    """
    incoming = root / f"incoming-{version_id(policy_id)}"
    try:
        if (found := unpack(packed, incoming)) != policy_id:
            raise PolicyProblem(f"the received files have the hash {found[:12]}; they were damaged in transfer")
        removal.replace(incoming, root / version_id(policy_id), root)
    finally:
        removal.try_remove(packed, root)
        removal.try_remove(incoming, root)


def _sizes(folder: Path) -> dict[str, int]:
    """File -> size in bytes, sorted by name; FileProblem when the folder is no version."""
    if not folder.is_dir():
        raise FileProblem(f"There is no policy version at {folder}: it must be a folder with {MANIFEST} and weights.")
    sizes: dict[str, int] = {}
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file():
            raise FileProblem(
                f"{path} is not a plain file; a policy version holds plain files only, no folders or links."
            )
        _check_name(path.name)
        sizes[path.name] = path.stat().st_size
    manifest(folder)
    return sizes


def _chunks(path: Path, offset: int, size: int) -> Iterator[bytes]:
    """`size` bytes of a file from `offset` on, in chunks."""
    if size <= 0:
        return
    with path.open("rb") as file:
        file.seek(offset)
        while size > 0 and (chunk := file.read(min(size, _CHUNK))):
            size -= len(chunk)
            yield chunk


def _places(packed: Path) -> dict[str, tuple[int, int]]:
    """File -> (offset, size in bytes) in a packed version; FileProblem when it is malformed."""
    whole = packed.stat().st_size
    with packed.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "big")
        listed = file.read(min(length, _LONGEST_LIST))
    try:
        content: object = json.loads(listed)
    except (ValueError, RecursionError) as error:
        raise FileProblem(f"This is not a packed policy version ({whole} bytes): {error}.") from error
    fields = content if is_json_object(content) else {}
    files = fields.get("files")
    if fields.get("schema") != _SCHEMA or not isinstance(files, list):
        raise FileProblem(f"A packed policy version must have schema {_SCHEMA} and a list of its files.")
    places: dict[str, tuple[int, int]] = {}
    offset = _LENGTH + length
    for entry in files:
        match entry:
            case [str() as name, int() as size] if name not in places and size >= 0:
                _check_name(name)
                places[name] = offset, size
                offset += size
            case _:
                raise FileProblem("Each file of a packed policy version must be [name, bytes], each name once.")
    if offset != whole:
        raise FileProblem(f"A packed policy version has {whole} bytes instead of {offset}; it was damaged in transfer.")
    if places.get(MANIFEST, (0, _LARGEST_MANIFEST))[1] >= _LARGEST_MANIFEST:
        raise FileProblem(f"The packed policy version has no {MANIFEST} of less than {_LARGEST_MANIFEST} bytes.")
    _manifest(b"".join(_chunks(packed, *places[MANIFEST])), packed / MANIFEST)
    return places


def _check_name(name: str) -> None:
    if not name or name[0] == "." or "/" in name or "\\" in name or "\0" in name:
        raise FileProblem(f"A policy version cannot hold a file named {name!r}: no folders, no hidden files.")


def _manifest(data: bytes, path: Path) -> Mapping[str, Json]:
    try:
        content: object = json.loads(data)
    except ValueError as error:
        raise FileProblem(f"{path} is not JSON: {error}.") from error
    fields = content if is_json_object(content) else {}
    if not isinstance(fields.get("kind"), str):
        raise FileProblem(f'{path} must be an object with "kind", the name of the policy plug-in that loads it.')
    return fields


def _place(files: Mapping[str, Iterable[bytes]], folder: Path) -> None:
    if folder.exists():
        raise FileProblem(f"{folder} exists already; write a policy version to a new folder.")
    staged = durable.stage_folder(folder)
    try:
        for name, chunks in files.items():
            with (staged / name).open("xb") as file:
                file.writelines(chunks)
            durable.sync(staged / name)
    except OSError as error:
        removal.try_remove(staged, folder.parent)
        raise durable.refusal(error, folder) from error
    durable.sync(staged)
    durable.reveal([(staged, folder)])
