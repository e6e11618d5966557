"""A version that runs a task's script, as a reference for learned policies.

policy.json: {"kind": "scripted", "task": name, "script": "expert" or "clean_expert", "seed": number}.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, cast

from enpire.errors import PolicyProblem
from enpire.files import parse, shown
from enpire.interfaces import Policy, Task
from enpire.plugins import is_part, names
from enpire.plugins import load as plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The contents of policy.json: a script of a task."""

    kind: Literal["scripted"] = "scripted"
    task: str
    """Plug-in name."""
    script: Literal["expert", "clean_expert"] = "expert"
    """The demonstrating expert, or the task's expert without variations."""
    seed: int = 0
    """Of the expert's variations."""


def save(script: Script, folder: Path) -> None:
    """Write policy.json into an existing folder; equal scripts give equal bytes."""
    (folder / "policy.json").write_text(json.dumps(asdict(script), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load(folder: Path) -> Policy:
    """Load the script as a policy; PolicyProblem if the file or the task does not fit."""
    path = folder / "policy.json"
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyProblem(f"{path} cannot be read ({error}); fetch the version again.") from error
    script = parse(Script, document, f"The version {path}")
    if not is_part("tasks", script.task):
        raise PolicyProblem(
            f"{path} names the task {shown(script.task)}; a version may name an installed task: "
            f"{', '.join(names('tasks'))}."
        )
    task = cast("type[Task]", plugin("tasks", script.task))()
    if script.script == "expert":
        return task.expert(script.seed)
    clean = getattr(task, "clean_expert", None)
    if clean is None:
        raise PolicyProblem(f"{path}: the task {script.task} has no clean_expert; set script: expert.")
    return cast(Policy, clean())
