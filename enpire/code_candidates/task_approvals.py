"""Approvals of a task that an agent wrote: who approved which files, when and why. The task's folder keeps all of them.

A person approves a task before a campaign of it can exist, so no ledger is open at that time: the record is a file of
its own, to which lines are added. Each line holds the hash of the line before it, and an HMAC under the lab's secret,
so that no program without the secret approves a task, changes an approval or removes one that others follow. A campaign
of the task copies the approval into its first event.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from enpire.errors import FileProblem
from enpire.files import canonical, parse
from enpire.store import durable
from enpire.store.head import same_hmac
from enpire.store.secret import known_secret, lab_secret

NAME = "approvals.jsonl"
LONGEST_REASON = 1000


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
        key = hmac.digest(secret, b"approvals of tasks", hashlib.sha256)
        text = canonical(replace(self, hmac=""))
        return replace(self, hmac=hmac.new(key, text.encode(), hashlib.sha256).hexdigest())


def read_approvals(folder: Path, home: Path) -> list[TaskApproval]:
    """The approvals of a task, oldest first.

    A computer that has the task but not the lab's secret checks the chain alone.

    Raises:
        FileProblem: a line was changed, added without the secret, or removed.
    """
    return [approval for approval, _ in _lines(folder, known_secret(home))]


def approve_task(folder: Path, home: Path, approval: TaskApproval) -> TaskApproval:
    """Add an approval, durable when this returns; the time, the line before and the HMAC are filled in.

    Raises:
        FileProblem: an earlier line was changed, added without the secret, or removed.
    """
    secret = lab_secret(home)
    lines = [line for _, line in _lines(folder, secret)]
    made = replace(
        approval, task_id=folder.name, at=datetime.now(UTC).isoformat(timespec="seconds"),
        previous=_hash(lines[-1]) if lines else "",
    ).signed(secret)  # fmt: skip
    durable.write(folder / NAME, b"".join([*lines, canonical(made).encode() + b"\n"]))
    return made


def _lines(folder: Path, secret: bytes | None) -> Iterator[tuple[TaskApproval, bytes]]:
    """(approval, its line) for each line that holds."""
    path, previous = folder / NAME, ""
    for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else []:
        try:
            found = parse(TaskApproval, json.loads(line), f"{path}, an approval")
        except ValueError as problem:
            raise FileProblem(
                f"{path} is damaged: {problem}. Remove the file, and approve the task again."
            ) from problem
        right = found.previous == previous and found.task_id == folder.name
        if not right or (secret is not None and not same_hmac(found.hmac, found.signed(secret).hmac)):
            raise FileProblem(
                f"{path} holds an approval that no `enpire task approve` of this home wrote there: read the task's "
                "code, remove the file, and approve the task again."
            )
        previous = _hash(line)
        yield found, line


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
