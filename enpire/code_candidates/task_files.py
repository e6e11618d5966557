"""The files of a task that an agent wrote: which ones it may have, and the digest that a score and an approval name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from enpire.code_candidates.surface import SurfaceProblem, check_size, check_text
from enpire.files import canonical, shown

MODULE, CLASS = "task", "Task"
_ALLOWED = re.compile(r"task\.py|README\.md|[a-z_][a-z0-9_]{0,63}\.(xml|yaml|json)")
_SURFACE = "task.py, README.md, and NAME.xml, NAME.yaml, NAME.json beside it"


def check_task_files(files: Mapping[str, str]) -> None:
    """Check the files of a task.

    Raises:
        SurfaceProblem: one sentence about the first rule that they break.
    """
    for path, text in files.items():
        if not _ALLOWED.fullmatch(path):
            raise SurfaceProblem(f"{shown(path)} is no file of a task; allowed are {_SURFACE}: remove it.")
        check_text(path, text)
    if f"{MODULE}.py" not in files:
        raise SurfaceProblem(f"A task needs {MODULE}.py with the class {CLASS} (docs/tasks.md).")
    check_size("task", files)


def digest_of(files: Mapping[str, str]) -> str:
    """sha256 of the files of a task."""
    return hashlib.sha256(canonical(dict(files)).encode()).hexdigest()
