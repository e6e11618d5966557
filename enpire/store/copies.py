"""Verified copies of the ledger, one for each campaign and day, and the way back to one of them."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from enpire.errors import LedgerProblem
from enpire.store import connection, durable, removal
from enpire.store.copy_names import copies, copy_path
from enpire.store.head import Head, HeadFile, signed_head
from enpire.store.ledger import SqliteLedger, locked
from enpire.store.secret import known_secret, lab_secret
from enpire.store.verification import Verified, Witness, first_signed, verify

KEPT = 8
"""Most copies of one ledger; each holds all campaigns of the home, so the oldest are removed first."""
_FILES = ("", "-journal", "-wal", "-shm")
"""Ends of the names of the files of one SQLite database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did."""

    head: Head
    """Last event of the copy, which is now the ledger."""
    lost: Head | None
    """Last event of the replaced ledger, as its head file names it; None where it names none."""
    replaced: Path
    """The replaced ledger, kept under a new name."""


def make_copy(ledger: SqliteLedger, campaign_id: str, day: str) -> Path:
    """Copy a ledger while it is written, verify the copy, and put it in place of an earlier one of that day.

    Args:
        ledger: open for writing; any thread may call this.
        campaign_id: of the campaign that runs.
        day: YYYY-MM-DD.

    Raises:
        LedgerProblem: the copy does not verify, so the ledger is damaged.
        StorageFull, FileProblem: the disk refuses the copy.
    """
    target = copy_path(ledger.path, campaign_id, day)
    durable.make_folder(target.parent)
    durable.sweep(target.parent)
    staged = durable.staged_name(target)
    try:
        ledger.back_up(staged)
        durable.adopt(staged, target, target.parent)
    finally:
        for end in _FILES:
            removal.try_remove(staged.with_name(f"{staged.name}{end}"), target.parent)
    for old in copies(ledger.path)[:-KEPT]:
        removal.try_remove(old, target.parent)
    return target


def verify_copy(path: Path, home: Path) -> Verified:
    """Verify a copy of the ledger of a home; LedgerProblem names its first fault."""
    with connection.sentences(path), closing(connection.open_reader(path)) as database:
        return verify(database, path, Witness(secret=known_secret(home), needs_file=False))


def restore(path: Path, copy: Path, now: datetime | None = None) -> Restored:
    """Put a copy in place of a ledger that no process writes. The replaced files stay in the folder under a new name.

    After a crash at any moment, the same call completes the restore.

    Raises:
        LedgerProblem: the copy does not verify, or a process writes the ledger.
        StorageFull, FileProblem: the disk refuses it.
    """
    verified = verify_copy(copy, path.parent)
    with locked(path):
        lost = _filed_head(path)
        staged = durable.staged_name(path)
        try:
            shutil.copyfile(copy, staged)
            stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%S")
            replaced = path.with_name(f"{path.name}.replaced-{stamp}")
            # The journal goes first: SQLite would apply it to the restored file.
            for end in reversed(_FILES):
                if (part := path.with_name(path.name + end)).exists():
                    removal.replace(part, replaced.with_name(replaced.name + end), path.parent)
            durable.adopt(staged, path, path.parent)
        except OSError as error:
            raise durable.refusal(error, path) from error
        finally:
            removal.try_remove(staged, path.parent)
        write_head_file(path, verified.head)
    return Restored(head=verified.head, lost=lost, replaced=replaced)


def write_head_file(path: Path, head: Head) -> None:
    """Write the head file of a verified copy that is in place now."""
    with connection.sentences(path), closing(connection.open_reader(path)) as database:
        since = first_signed(database, head)
    HeadFile(path).write(signed_head(lab_secret(path.parent), head, since))


def _filed_head(path: Path) -> Head | None:
    try:
        filed = HeadFile(path).read()
    except LedgerProblem:
        return None
    return filed.head if filed is not None else None
