"""Where an imported policy version came from: one small file for each version, from which a campaign takes it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from enpire.errors import FileProblem
from enpire.files import canonical, parse
from enpire.ids import version_id
from enpire.store import durable

_FOLDER = "origins"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The last import of a version. The files themselves are pinned by its id."""

    source: str
    """URL or folder, with the revision where the place has revisions, without name and password."""
    revision: str = ""
    """Commit of a hub; empty elsewhere."""
    by: str
    stamp_ns: int


def record(root: Path, policy_id: str, source: str, by: str) -> None:
    """Write where a version of a home came from; a later import replaces it."""
    revision = source.rpartition("@")[2] if source.startswith("hf://") and "@" in source else ""
    origin = Origin(source=_without_secrets(source), revision=revision, by=by, stamp_ns=time.time_ns())
    durable.make_folder(root / _FOLDER)
    durable.write(_path(root, policy_id), (canonical(origin) + "\n").encode())


def find(root: Path, policy_id: str) -> Origin | None:
    """Where a version came from; None if it was not imported, or by a version of ENPIRE that did not record it.

    Raises:
        FileProblem: the file was changed.
    """
    path = _path(root, policy_id)
    if not path.is_file():
        return None
    try:
        document: object = json.loads(path.read_bytes())
    except ValueError as error:
        raise FileProblem(f"{path} cannot be read as JSON ({error}): import the version again.") from error
    return parse(Origin, document, str(path))


def _without_secrets(source: str) -> str:
    """A URL without name, password, query and fragment, which may hold a token; a folder, or a hub's, as it is."""
    if "://" not in source or source.startswith("hf://"):
        return source
    parts = urlsplit(source)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _path(root: Path, policy_id: str) -> Path:
    return root / _FOLDER / f"{version_id(policy_id)}.json"
