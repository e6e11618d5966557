"""Tasks that agents wrote: propose, measure, approve."""

from __future__ import annotations

from enpire.code_candidates.authored_tasks import (
    TaskScore,
    approve,
    authored_tasks,
    check_task_files,
    digest_of,
    find_task,
    propose,
    score_task,
)

__all__ = [
    "TaskScore", "approve", "authored_tasks", "check_task_files", "digest_of", "find_task", "propose", "score_task",
]  # fmt: skip
