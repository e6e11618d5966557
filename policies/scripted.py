"""A version whose behaviour is a task's own script: the reference that a learned policy is gated against.

policy.json: {"kind": "scripted", "task": name, "script": "expert" or "clean_expert", "seed": number}.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, cast

from enpire.errors import PolicyProblem
from enpire.files import parse
from enpire.interfaces import Policy, Task
from enpire.plugins import load as plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Which script of which task."""

    kind: Literal["scripted"] = "scripted"
    task: str
    """Plug-in name."""
    script: Literal["expert", "clean_expert"] = "expert"
    """The demonstrating expert, or the task's expert at its best where it has one."""
    seed: int = 0


def save(script: Script, folder: Path) -> None:
    """Write policy.json into an existing folder; the same script gives the same bytes."""
    (folder / "policy.json").write_text(json.dumps(asdict(script), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load(folder: Path) -> Policy:
    """The script as a policy; PolicyProblem when the file or the task does not fit."""
    path = folder / "policy.json"
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyProblem(f"{path} cannot be read ({error}); fetch the version again.") from error
    script = parse(Script, document, f"The version {path}")
    task = cast("type[Task]", plugin("tasks", script.task))()
    if script.script == "expert":
        return task.expert(script.seed)
    clean = getattr(task, "clean_expert", None)
    if clean is None:
        raise PolicyProblem(f"{path}: the task {script.task} has no clean_expert; say script: expert.")
    return cast(Policy, clean())
