"""Approvals of a task that an agent wrote, and their withdrawals: who, of which files, when and why.

A person approves a task before a campaign of it can exist, so no ledger is open at that time: the record is a file of
its own, to which lines are added. Each line holds its number, the hash of the line before it, and an HMAC under the
secret of the task's home, so that no program without that secret approves a task, changes a line or removes one that
others follow. Where the secret cannot be read, no approval counts. `tasks/.approvals` of the home holds the newest line
of each task a second time, so that a file whose newest lines were cut off, such as a withdrawal, shows. A campaign of
the task copies the approval with its number into its first event.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from enpire.errors import FileProblem
from enpire.files import canonical, parse
from enpire.store import durable
from enpire.store.head import keyed_hmac, same_hmac
from enpire.store.secret import known_secret, lab_secret

NAME = "approvals.jsonl"
NEWEST = ".approvals"
"""Folder beside the tasks with the newest line of each."""
LONGEST_REASON, LONGEST_NAME = 1000, 200
"""Characters of a reason, and of the name of who approves."""
AGAIN = "read the task's code, remove the file, and approve the task again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What a person decides about the files with a digest."""

    kind: Literal["approved", "withdrawn"] = "approved"
    digest: str
    """sha256 of the files."""
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalLine:
    """An approval or a withdrawal as it is kept."""

    task_id: str
    number: int
    """1 for the first line of a task; it rises also where the file was begun anew."""
    approval: Approval
    at: str
    """Time in UTC, as ISO 8601."""
    previous: str
    """sha256 of the line before; empty for the first one of the file."""
    hmac: str = ""
    """HMAC-SHA256 of the other fields, under the lab's secret."""

    def signed(self, secret: bytes) -> ApprovalLine:
        """The same with its HMAC."""
        return replace(self, hmac=keyed_hmac(secret, b"approvals of tasks", canonical(replace(self, hmac=""))))


def read_approvals(folder: Path, home: Path) -> list[ApprovalLine]:
    """The approvals and withdrawals of a task, oldest first.

    Raises:
        FileProblem: a line was changed, added without the home's secret, or removed, or the secret cannot be read.
    """
    if not (folder / NAME).exists():
        return []
    if (secret := known_secret(home)) is None:
        raise FileProblem(
            f"The secret of the home {home} cannot be read here, so nothing tells who wrote {folder / NAME}. To use "
            "the task on this computer, copy its folder into a home of this computer, read its code, remove that file, "
            "and approve the task there."
        )
    return [line for line, _ in _whole(folder, secret)]


def add_approval(folder: Path, home: Path, approval: Approval) -> ApprovalLine:
    """Add an approval or a withdrawal, durable when this returns.

    Raises:
        FileProblem: an earlier line was changed, added without the secret, or removed.
    """
    with _alone(folder):
        secret = lab_secret(home)
        whole = _whole(folder, secret)
        lines, newest = [text for _, text in whole], _newest(folder, secret)
        known = [line for line, _ in whole] + ([newest] if newest else [])
        made = ApprovalLine(
            task_id=folder.name, number=1 + max(line.number for line in known) if known else 1, approval=approval,
            at=datetime.now(UTC).isoformat(timespec="seconds"), previous=_hash(lines[-1]) if lines else "",
        ).signed(secret)  # fmt: skip
        data = canonical(made).encode() + b"\n"
        durable.write(folder / NAME, b"".join([*lines, data]))
        durable.make_folder(folder.parent / NEWEST)
        durable.write(_copy(folder), data)
    return made


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Of two processes or threads that approve a task at the same time, the second sees the line of the first."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _whole(folder: Path, secret: bytes) -> list[tuple[ApprovalLine, bytes]]:
    """(line, its text) for each line of a task.

    Raises:
        FileProblem: a line does not hold, or the newest ones are missing.
    """
    lines, newest = list(_lines(folder, secret)), _newest(folder, secret)
    # A power cut between the two writes leaves a copy of the line before the last one.
    if lines and (newest is None or newest not in [line for line, _ in lines]):
        raise FileProblem(
            f"{folder / NAME} ends with line {lines[-1][0].number}, and {_copy(folder)} does not know it as the "
            f"newest{f' (that is line {newest.number})' if newest else ''}: lines were cut off, or one of the two "
            f"files is of an earlier time. Restore both from a backup; or {AGAIN}."
        )
    return lines


def _newest(folder: Path, secret: bytes) -> ApprovalLine | None:
    """The newest line of a task as the copy has it; None if there is none that holds."""
    try:
        line = parse(ApprovalLine, json.loads(_copy(folder).read_bytes()), "The newest approval")
    except (OSError, ValueError, RecursionError, FileProblem):
        return None
    holds = line.task_id == folder.name and same_hmac(line.hmac, line.signed(secret).hmac)
    return line if holds else None


def _copy(folder: Path) -> Path:
    return folder.parent / NEWEST / f"{folder.name}.json"


def _lines(folder: Path, secret: bytes) -> Iterator[tuple[ApprovalLine, bytes]]:
    """(line, its text with a line end) for each line that holds."""
    path, before = folder / NAME, None
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as problem:
        raise FileProblem(f"{path} cannot be read: {problem.strerror}.") from problem
    for text in content.splitlines():
        line = text + b"\n"
        try:
            found = parse(ApprovalLine, json.loads(line), f"{path}, an approval")
        except (ValueError, RecursionError, FileProblem) as problem:
            raise FileProblem(
                f"{path} is damaged: {problem}. Remove the file, and approve the task again."
            ) from problem
        follows = found.previous == (_hash(before[1]) if before else "")
        follows &= before is None or found.number == before[0].number + 1
        if not follows or found.task_id != folder.name or not same_hmac(found.hmac, found.signed(secret).hmac):
            raise FileProblem(f"{path} holds a line that no `enpire task approve` of this home wrote there: {AGAIN}.")
        before = found, line
        yield before


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
