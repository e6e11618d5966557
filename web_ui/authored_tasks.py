"""Tasks that agents wrote, as the page lists them: score, approval, and why a person cannot approve one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from enpire.errors import UsageError
from enpire.log_lines import printable
from enpire.service.authored_tasks import AuthoredTask, TaskScore, authored_tasks, digest_of, files_of, why_not

LONGEST = 2000
"""Characters of a text about a task that an answer has."""
LONGEST_REPORT, MOST_FAILED = 8000, 20


class TaskScoreLine(BaseModel):
    """What was measured of the present files of a task."""

    passed: int
    applied: int
    """Conformance checks."""
    failed: list[str]
    """One line for each check that failed."""
    precision: float | None
    recall: float | None
    verifier: str
    """The report of its verifier, or why there is none."""


class AuthoredTaskLine(BaseModel):
    """A task that an agent wrote. Its texts are the agent's: show them as text alone."""

    id: str
    name: str
    """Its name in campaign and station files."""
    state: str
    """damaged, proposed, scored, approved, or withdrawn."""
    about: str
    author: str
    lane: str
    campaign_id: str
    digest: str
    """sha256 of its present files; empty if they cannot be read."""
    approved: str
    """Digest of the approved files; empty without an approval."""
    by: str
    """Who approved it or withdrew the approval last."""
    at: str
    reason: str
    score: TaskScoreLine | None
    """Of the present files."""
    refused: str
    """Why the present files cannot be approved; empty if they can be."""


def task_lines(home: Path) -> list[AuthoredTaskLine]:
    """The tasks that agents wrote in a home, oldest first. It reads their files."""
    return [task_line(one) for one in authored_tasks(home)]


def task_line(task: AuthoredTask) -> AuthoredTaskLine:
    """One task, with what was measured of its present files."""
    try:
        found = files_of(task)
        digest, refused = digest_of(found), why_not(task, found)
    except UsageError as problem:
        digest, refused = "", str(problem)
    of, last = task.proposal, task.approvals[-1] if task.approvals else None
    texts: Mapping[str, str] = {
        "name": task.name, "about": of.about, "author": of.author, "lane": of.lane, "campaign_id": of.campaign_id,
        "by": last.approval.by if last else "", "reason": last.approval.reason if last else "",
        "at": last.at if last else "", "refused": refused,
    }  # fmt: skip
    return AuthoredTaskLine(
        id=task.folder.name, state=task.state, digest=digest,
        approved=last.approval.digest if last and task.state == "approved" else "",
        score=_score(task.score) if task.score and task.score.digest == digest else None,
        **{key: printable(text[:LONGEST]) for key, text in texts.items()},
    )  # fmt: skip


def _score(score: TaskScore) -> TaskScoreLine:
    precision, recall = (
        rate if rate is not None and math.isfinite(rate) else None for rate in (score.precision, score.recall)
    )
    return TaskScoreLine(
        passed=score.passed, applied=score.applied,
        failed=[printable(line[:LONGEST]) for line in score.failed[:MOST_FAILED]],
        precision=precision, recall=recall, verifier=printable(score.verifier[:LONGEST_REPORT]),
    )  # fmt: skip
