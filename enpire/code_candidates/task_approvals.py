"""Approvals of a task that an agent wrote: who approved which files, when and why. The task's folder keeps all of them.

A person approves a task before a campaign of it can exist, so no ledger is open at that time: the record is a file of
its own, to which lines are added. Each line holds the hash of the line before it, and an HMAC under the secret of the
task's home, so that no program without that secret approves a task, changes an approval or removes one that others
follow. Where the secret cannot be read, no approval counts. A program that may write the home can still cut the newest
lines off. A campaign of the task copies the approval into its first event.
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

from enpire.errors import FileProblem
from enpire.files import canonical, parse
from enpire.store import durable
from enpire.store.head import keyed_hmac, same_hmac
from enpire.store.secret import known_secret, lab_secret

NAME = "approvals.jsonl"
LONGEST_REASON, LONGEST_NAME = 1000, 200
"""Characters of a reason, and of the name of who approves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskApproval:
    """A person approves the files with a digest."""

    task_id: str
    digest: str
    """sha256 of the files."""
    by: str
    at: str
    """Time in UTC, as ISO 8601."""
    reason: str
    previous: str
    """sha256 of the line before; empty for the first one."""
    hmac: str = ""
    """HMAC-SHA256 of the other fields, under the lab's secret."""

    def signed(self, secret: bytes) -> TaskApproval:
        """The same with its HMAC."""
        return replace(self, hmac=keyed_hmac(secret, b"approvals of tasks", canonical(replace(self, hmac=""))))


def read_approvals(folder: Path, home: Path) -> list[TaskApproval]:
    """The approvals of a task, oldest first.

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
    return [approval for approval, _ in _lines(folder, secret)]


def approve_task(folder: Path, home: Path, approval: TaskApproval) -> TaskApproval:
    """Add an approval, durable when this returns; the time, the line before and the HMAC are filled in.

    Raises:
        FileProblem: an earlier line was changed, added without the secret, or removed.
    """
    with _alone(folder):
        secret = lab_secret(home)
        lines = [line for _, line in _lines(folder, secret)]
        made = replace(
            approval, task_id=folder.name, at=datetime.now(UTC).isoformat(timespec="seconds"),
            previous=_hash(lines[-1]) if lines else "",
        ).signed(secret)  # fmt: skip
        durable.write(folder / NAME, b"".join([*lines, canonical(made).encode() + b"\n"]))
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


def _lines(folder: Path, secret: bytes) -> Iterator[tuple[TaskApproval, bytes]]:
    """(approval, its line with a line end) for each line that holds."""
    path, previous = folder / NAME, ""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as problem:
        raise FileProblem(f"{path} cannot be read: {problem.strerror}.") from problem
    for text in content.splitlines():
        line = text + b"\n"
        try:
            found = parse(TaskApproval, json.loads(line), f"{path}, an approval")
        except (ValueError, RecursionError, FileProblem) as problem:
            raise FileProblem(
                f"{path} is damaged: {problem}. Remove the file, and approve the task again."
            ) from problem
        right = found.previous == previous and found.task_id == folder.name
        if not right or not same_hmac(found.hmac, found.signed(secret).hmac):
            raise FileProblem(
                f"{path} holds an approval that no `enpire task approve` of this home wrote there: read the task's "
                "code, remove the file, and approve the task again."
            )
        previous = _hash(line)
        yield found, line


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
