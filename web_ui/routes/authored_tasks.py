"""Tasks that agents wrote: their score and code, and the approval of an admin, as `enpire task approve` gives it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

import anyio.from_thread
from fastapi import APIRouter, Request
from fastapi import Path as PathPart
from pydantic import BaseModel, ConfigDict, Field

from enpire.errors import FileProblem, UnknownName
from enpire.home import Home
from enpire.log_lines import printable
from enpire.service.authored_tasks import (
    AuthoredTask,
    FilesChanged,
    approve,
    authored_tasks,
    digest_of,
    files_of,
    withdraw,
)
from web_ui.auth import Admin, Viewer, accounts_of
from web_ui.authored_tasks import AuthoredTaskLine, task_line, task_lines
from web_ui.hub import Hub
from web_ui.openapi import refusals
from web_ui.problems import Problem

router = APIRouter(prefix="/tasks/authored", tags=["tasks of agents"])
TaskId = Annotated[str, PathPart(max_length=80, description="The `id` of a task.")]


class TaskFile(BaseModel):
    """One file of a task. What a reader would not see is replaced."""

    path: str
    text: str


class TaskFiles(BaseModel):
    """The present files of a task, at most 32 with 128 KiB together."""

    digest: str
    files: list[TaskFile]


class TaskAnswer(BaseModel):
    """An approval or a withdrawal."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"seen": "a" * 64, "reason": "I read the code."}]}
    )
    seen: str = Field(
        pattern="^[0-9a-f]{64}$",
        description="`digest` of the files that you saw; to withdraw, `approved`. 409 if it is another one by now.",
    )
    reason: str = Field(min_length=1, max_length=300, pattern=r"\S")


@router.get("")
def tasks(_caller: Viewer, request: Request) -> list[AuthoredTaskLine]:
    """The tasks that agents wrote in this home, oldest first."""
    return task_lines(_home(request))


@router.get("/{task_id}/files", responses=refusals(400))
def files(task_id: TaskId, _caller: Viewer, request: Request) -> TaskFiles:
    """The code of a task. 400 if its folder holds a link, a binary file, or too much."""
    found = files_of(_find(request, task_id))
    texts = [TaskFile(path=printable(path), text=printable(text)) for path, text in found.items()]
    return TaskFiles(digest=digest_of(found), files=texts)


@router.post("/{task_id}/approve", responses=refusals(400, 409))
def approve_task(task_id: TaskId, body: TaskAnswer, caller: Admin, request: Request) -> AuthoredTaskLine:
    """Approve the files of a task: campaigns may use it from then on, outside a sandbox. 400 without a good score."""
    return _answered(task_id, body, caller, request, approve)


@router.post("/{task_id}/withdraw", responses=refusals(400, 409))
def withdraw_task(task_id: TaskId, body: TaskAnswer, caller: Admin, request: Request) -> AuthoredTaskLine:
    """Withdraw the approval of a task: nothing loads it from then on. A campaign that runs keeps what it has loaded."""
    return _answered(task_id, body, caller, request, withdraw)


def _answered(
    task_id: str, body: TaskAnswer, caller: Admin, request: Request, answer: Callable[..., object]
) -> AuthoredTaskLine:
    """The task after an approval or a withdrawal."""
    task, by = _find(request, task_id), caller.user.name
    try:
        answer(task, by, body.reason.strip(), seen=body.seen)
    except (FilesChanged, FileProblem) as problem:
        raise Problem(409, printable(str(problem))) from problem
    done = "approved" if answer is approve else "withdrew the approval of"
    accounts_of(request).record(by, f"{done} the task {task_id} of an agent")
    anyio.from_thread.run_sync(cast(Hub, request.app.state.hub).tasks_changed)
    return task_line(_find(request, task_id))


def _find(request: Request, task_id: str) -> AuthoredTask:
    """The task in the folder of this name.

    Raises:
        UnknownName: there is none.
    """
    for task in authored_tasks(_home(request)):
        if task.folder.name == task_id:
            return task
    raise UnknownName("There is no task of an agent with this id in this home; GET /api/v1/tasks/authored lists them.")


def _home(request: Request) -> Path:
    return cast(Home, request.app.state.home).root
