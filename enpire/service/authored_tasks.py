"""Tasks that agents wrote: propose, measure, approve, withdraw the approval."""

from __future__ import annotations

from enpire.code_candidates.authored_tasks import (
    TaskScore,
    approve,
    approved_files,
    authored_tasks,
    check_task_files,
    digest_of,
    find_task,
    propose,
    score_task,
    withdraw,
)

__all__ = [
    "TaskScore", "approve", "approved_files", "authored_tasks", "check_task_files", "digest_of", "find_task",
    "propose", "score_task", "withdraw",
]  # fmt: skip
