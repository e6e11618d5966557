"""Policy versions as folders of plain files: identity, durable publication, and the bytes for the wire. No torch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]

from enpire.errors import FileProblem
from enpire.store import durable

MANIFEST = "policy.json"
"""The file that every version has: a JSON object with `kind`, the name of the policy plug-in that loads it."""
ID = re.compile(r"[0-9a-f]{64}")
"""The form of a policy_id."""
_SCHEMA = 1


def identify(folder: Path) -> str:
    """The policy_id of a folder: sha256 over its files, sorted by name, each as (name, size, bytes).

    FileProblem when it is not a version: no manifest, or anything but plain files (a link could change later).
    """
    return _digest(_read(folder))


def manifest(folder: Path) -> Mapping[str, object]:
    """What `policy.json` says; FileProblem when it is not an object with a `kind`."""
    path = folder / MANIFEST
    if not path.is_file():
        raise FileProblem(f"{folder} is not a policy version: it has no {MANIFEST}.")
    return _manifest(path.read_bytes(), path)


def publish(folder: Path, versions_root: Path) -> str:
    """Copy a folder to `versions_root`/<policy_id>, durably and all at once; returns the policy_id.

    Publishing the same files again is a no-op; a published version that has been changed is refused by FileProblem.
    """
    files = _read(folder)
    policy_id = _digest(files)
    _place(files, versions_root / policy_id, policy_id)
    return policy_id


def pack(folder: Path) -> bytes:
    """All files of a version as one message (msgpack), for `unpack` on another machine."""
    files = _read(folder)
    whole = {"schema": _SCHEMA, "files": [[name, files[name]] for name in sorted(files)]}
    return cast(bytes, msgpack.packb(whole))  # pyright: ignore[reportUnknownMemberType]


def unpack(data: bytes, folder: Path) -> str:
    """Write the files of a packed version to `folder`, durably and all at once; returns their policy_id.

    Compare it with the id that you asked for. FileProblem when the message is malformed, or when `folder` holds
    something else already.
    """
    files = _parse(data)
    policy_id = _digest(files)
    _place(files, folder, policy_id)
    return policy_id


def _read(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        raise FileProblem(f"There is no policy version at {folder}: it must be a folder with {MANIFEST} and weights.")
    files: dict[str, bytes] = {}
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file():
            raise FileProblem(
                f"{path} is not a plain file; a policy version holds plain files only, no folders or links."
            )
        _check_name(path.name)
        files[path.name] = path.read_bytes()
    _check_manifest(files, str(folder))
    return files


def _parse(data: bytes) -> dict[str, bytes]:
    try:
        message = cast(object, msgpack.unpackb(data, raw=False, strict_map_key=True))  # pyright: ignore[reportUnknownMemberType]
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise FileProblem(f"This is not a packed policy version ({len(data)} bytes): {error}.") from error
    if not isinstance(message, dict):
        raise FileProblem("A packed policy version must be a map with schema and files.")
    fields = cast(dict[str, object], message)
    if fields.get("schema") != _SCHEMA or not isinstance(fields.get("files"), list):
        raise FileProblem(f"A packed policy version must say schema {_SCHEMA} and list its files.")
    files: dict[str, bytes] = {}
    for entry in cast(list[object], fields["files"]):
        match entry:
            case [str() as name, bytes() as content] if name not in files:
                _check_name(name)
                files[name] = content
            case _:
                raise FileProblem("Each file of a packed policy version must be [name, bytes], each name once.")
    _check_manifest(files, "The packed policy version")
    return files


def _check_name(name: str) -> None:
    if not name or name[0] == "." or "/" in name or "\\" in name or "\0" in name:
        raise FileProblem(f"A policy version cannot hold a file named {name!r}: no folders, no hidden files.")


def _check_manifest(files: Mapping[str, bytes], where: str) -> None:
    if MANIFEST not in files:
        raise FileProblem(f"{where} is not a policy version: it has no {MANIFEST}.")
    _manifest(files[MANIFEST], Path(where) / MANIFEST)


def _manifest(data: bytes, path: Path) -> Mapping[str, object]:
    try:
        content: object = json.loads(data)
    except ValueError as error:
        raise FileProblem(f"{path} is not JSON: {error}.") from error
    fields = cast(dict[str, object], content) if isinstance(content, dict) else {}
    if not isinstance(fields.get("kind"), str):
        raise FileProblem(f'{path} must be an object with "kind", the name of the policy plug-in that loads it.')
    return fields


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        encoded = name.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded + len(files[name]).to_bytes(8, "big"))
        digest.update(files[name])
    return digest.hexdigest()


def _place(files: Mapping[str, bytes], folder: Path, policy_id: str) -> None:
    if not folder.exists():
        staged = durable.stage_folder(folder)
        durable.fill_folder(staged, files)
        durable.reveal([(staged, folder)])
    if identify(folder) != policy_id:
        raise FileProblem(f"{folder} holds files that are not version {policy_id}: delete that folder and try again.")
