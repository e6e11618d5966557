"""Code candidates: the template, the files of earlier ones, and what checks and keeps a new one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from enpire.code_candidates.repository import CodeRepository
from enpire.code_candidates.submission import Submitted, keep_submission
from enpire.code_candidates.surface import MOST_BYTES, MOST_CHANGED_LINES, MOST_FILES, SURFACE, read_folder
from enpire.errors import UsageError
from enpire.files import configs_root
from enpire.store import durable

__all__ = [
    "Submitted", "code_of", "drop_submission", "keep_submission", "limits", "read_folder", "template", "write_template",
]  # fmt: skip


def template() -> dict[str, str]:
    """The files of a candidate to begin with: a policy that imitates the successful episodes."""
    return read_folder(configs_root() / "code")


def write_template(folder: Path) -> None:
    """Write the template into a new folder.

    Raises:
        UsageError: the folder exists and is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} exists already and is not empty; name a new folder.")
    for name, text in template().items():
        path = folder / name
        durable.make_folder(path.parent)
        path.write_text(text, encoding="utf-8")


def code_of(home: Path, commit: str) -> Mapping[str, str]:
    """The files of a kept candidate: path -> text."""
    return CodeRepository(home).files(commit)


def drop_submission(home: Path, submitted: Submitted) -> None:
    """Remove the ref of a submission that the loop has answered; an accepted one has a ref of its experiment."""
    CodeRepository(home).drop(submitted.ref)


def limits() -> Mapping[str, int | str]:
    """The edit surface and its limits, for a brief."""
    return {
        "surface": SURFACE, "files": MOST_FILES, "bytes": MOST_BYTES, "changed_lines": MOST_CHANGED_LINES,
    }  # fmt: skip
