"""Tasks that agents wrote: propose, measure, approve, withdraw the approval."""

from __future__ import annotations

from enpire.code_candidates.authored_tasks import (
    AuthoredTask,
    FilesChanged,
    TaskScore,
    approve,
    approved_files,
    authored_tasks,
    files_of,
    find_task,
    propose,
    score_task,
    why_not,
    withdraw,
)
from enpire.code_candidates.task_files import check_task_files, digest_of

__all__ = [
    "AuthoredTask", "FilesChanged", "TaskScore", "approve", "approved_files", "authored_tasks", "check_task_files",
    "digest_of", "files_of", "find_task", "propose", "score_task", "why_not", "withdraw",
]  # fmt: skip
