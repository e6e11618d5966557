"""The files of a task that an agent wrote: which ones it may have, and the digest that a score and an approval name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from enpire.code_candidates.surface import MOST_BYTES, MOST_FILES, SurfaceProblem, check_text
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
    size = sum(len(text.encode(errors="replace")) for text in files.values())
    if len(files) > MOST_FILES or size > MOST_BYTES:
        raise SurfaceProblem(
            f"The task has {len(files)} files with {size} bytes; at most {MOST_FILES} files with {MOST_BYTES} bytes "
            "together are allowed."
        )


def digest_of(files: Mapping[str, str]) -> str:
    """sha256 of the files of a task."""
    return hashlib.sha256(canonical(dict(files)).encode()).hexdigest()
