"""One file with everything that a campaign's decisions rest on, which another machine can check and compute again.

It is a zip file with a manifest and the ledger: events, orders, hashes of all recordings, campaign file and recipes.
The ledger is one chain over all campaigns of its home, so the file holds all of them. The recordings stay at home.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from enpire.errors import FileProblem, LedgerProblem, UsageError
from enpire.files import parse
from enpire.store import durable, removal
from enpire.store.head import HeadFile
from enpire.store.ledger import SqliteLedger

LEDGER, MANIFEST = "ledger.db", "manifest.json"
_MOST_MANIFEST = 2**16
_CHUNK = 2**20
_WHEN = (2000, 1, 1, 0, 0, 0)
"""Time of the members, so that equal contents give equal files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an evidence file is about."""

    schema: int = 1
    campaign: str
    """Id of the campaign that it was written for."""
    head: str
    """SEQUENCE:HASH of the last event of the ledger."""
    hmac: str
    """HMAC of a recent head under the secret of the home that wrote it; only that home can check it."""
    code: str
    """Version of ENPIRE that wrote it."""
    sha256: str
    """Of the ledger."""

    def __post_init__(self) -> None:
        """Refuse another schema with ValueError."""
        if self.schema != 1:
            raise ValueError(f"schema must be 1, not {self.schema}; it was written by a newer ENPIRE")


def write_evidence(ledger: SqliteLedger, campaign_id: str, path: Path, code: str) -> Manifest:
    """Write the evidence file of a campaign, also while an orchestrator writes the ledger.

    Raises:
        UsageError: the file exists, or its folder does not.
        LedgerProblem: the ledger is damaged.
        FileProblem, StorageFull: the disk refuses it.
    """
    require_new(path)
    target = path.absolute()
    filed = HeadFile(ledger.path).read()
    with tempfile.TemporaryDirectory(prefix="enpire-evidence-") as folder:
        copy = Path(folder) / LEDGER
        verified = ledger.back_up(copy)
        manifest = Manifest(
            campaign=campaign_id, head=str(verified.head), hmac=filed.hmac if filed else "", code=code,
            sha256=_sha256(copy),
        )  # fmt: skip
        staged = durable.staged_name(target)
        try:
            with zipfile.ZipFile(staged, "w", zipfile.ZIP_DEFLATED) as members:
                text = json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n"
                members.writestr(zipfile.ZipInfo(MANIFEST, _WHEN), text)
                about = zipfile.ZipInfo(LEDGER, _WHEN)
                about.compress_type = zipfile.ZIP_DEFLATED
                with copy.open("rb") as whole, members.open(about, "w", force_zip64=True) as member:
                    shutil.copyfileobj(whole, member, _CHUNK)
            durable.adopt(staged, target, target.parent)
        except OSError as error:
            raise durable.refusal(error, target) from error
        finally:
            removal.try_remove(staged, target.parent)
    return manifest


def require_new(path: Path) -> None:
    """Refuse a file that exists, or whose folder does not, with UsageError."""
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already: name a new file for the evidence.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist: name a file in a folder that does.")


@contextmanager
def opened_evidence(path: Path) -> Generator[tuple[Path, Manifest]]:
    """Give (folder with the ledger, manifest) of an evidence file; the folder is removed afterwards.

    Raises:
        FileProblem: it is no evidence file.
        LedgerProblem: its ledger is not the one that its manifest names.
    """
    with tempfile.TemporaryDirectory(prefix="enpire-evidence-") as folder:
        place = Path(folder)
        try:
            if path.exists() and not path.is_file():
                raise FileProblem(f"{path} is no evidence file: it is a folder, a pipe or a device.")
            with zipfile.ZipFile(path) as members:
                packed = {one.compress_type for one in members.infolist()} - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
                if sorted(members.namelist()) != [LEDGER, MANIFEST] or packed:
                    raise FileProblem(f"{path} is no evidence file: it must hold {LEDGER} and {MANIFEST} alone.")
                needed, free = members.getinfo(LEDGER).file_size, shutil.disk_usage(place).free
                if needed > free:
                    raise FileProblem(
                        f"The ledger in {path} unpacks to {needed >> 20} MiB, and {place.parent} has {free >> 20} MiB "
                        "free; set TMPDIR to a folder with more space if you trust the file."
                    )
                with members.open(MANIFEST) as text:
                    manifest = parse(Manifest, json.loads(text.read(_MOST_MANIFEST)), f"The manifest of {path}")
                with members.open(LEDGER) as member, (place / LEDGER).open("xb") as whole:
                    shutil.copyfileobj(member, whole, _CHUNK)
        except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
            raise FileProblem(
                f"{path} is no evidence file, or is damaged ({error}). Write it again with `enpire campaign export`."
            ) from error
        except OSError as error:
            raise FileProblem(f"Cannot read {path}: {error.strerror or error}.") from error
        if _sha256(place / LEDGER) != manifest.sha256:
            raise LedgerProblem(f"The ledger in {path} was changed after it was written: its sha256 differs.")
        yield place, manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as whole:
        return hashlib.file_digest(whole, "sha256").hexdigest()
