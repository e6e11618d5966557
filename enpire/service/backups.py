"""Back up a home while a campaign runs there, and restore a backup to a new folder."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from enpire import __version__
from enpire.campaign.session_events import LedgerRestored
from enpire.errors import FileProblem, UsageError
from enpire.home import Home
from enpire.queries.campaigns import open_records
from enpire.queries.records_audit import RecordsAudit, audit_records
from enpire.store import durable, removal
from enpire.store.copies import verify_copy, write_head_file
from enpire.store.home_backup import Manifest, Progress, opened_backup, unpack, write_backup
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading

__all__ = ["RestoredHome", "back_up", "restore_home"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredHome:
    """What a restore made."""

    folder: Path
    head: str
    """SEQUENCE:HASH of the last event of the backup."""
    files: int
    audit: RecordsAudit
    """Of the restored home."""


def back_up(home: Home, path: Path, progress: Progress) -> Manifest:
    """Write a backup of a home; errors as of `write_backup`."""
    return write_backup(home.root, path, __version__, progress)


def restore_home(path: Path, folder: Path, operator: str, progress: Progress) -> RestoredHome:
    """Restore a backup to a new or empty folder, verify it, and record who did it. It appears when it is complete.

    Raises:
        UsageError: the folder holds something.
        FileProblem, LedgerProblem: the backup is damaged.
        StorageFull: the disk has too little space.
    """
    target = folder.absolute()
    _require_empty(target)
    with opened_backup(path):
        pass  # nothing is made for a file that is no backup
    durable.make_folder(target.parent)
    durable.sweep_target(target)
    staged = durable.stage_folder(target)
    try:
        staged.chmod(0o700)
        manifest = unpack(path, staged, progress)
        audit = _verified(Home(staged), path, manifest, operator)
        staged.chmod(0o755)
        _require_empty(target)
        removal.replace(staged, target, target.parent)
    except OSError as error:
        raise durable.refusal(error, target) from error
    finally:
        removal.try_remove(staged, target.parent)
    durable.sync(target.parent)
    return RestoredHome(folder=target, head=manifest.head, files=len(manifest.files), audit=audit)


def _require_empty(target: Path) -> None:
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"{target} is not empty: name a new folder for the restored home.")


def _verified(home: Home, path: Path, manifest: Manifest, operator: str) -> RecordsAudit:
    """Verify an unpacked home and record the restore in its ledger."""
    found = verify_copy(home.ledger, home.root).head
    if str(found) != manifest.head:
        raise FileProblem(f"The ledger in {path} ends with {found} instead of {manifest.head}: take another backup.")
    write_head_file(home.ledger, found)
    with closing(SqliteLedger(home.ledger)) as ledger:
        last = next(iter(Reading.of(ledger).tail(1)), None)
        event = LedgerRestored(by=operator, copy=path.name, head=str(found), lost="")
        ledger.append([event], last.campaign_id if last is not None else "")
    with open_records(home.root) as records:
        audit = audit_records(records)
    if not (audit.sound or manifest.damaged):
        raise FileProblem(f"The backup {path} is not whole, so nothing was restored. {audit.files}")
    return audit
