"""Code candidates: the template, the files of earlier ones, and what checks and keeps a new one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from enpire.code_candidates.repository import CodeRepository
from enpire.code_candidates.submission import Submitted, keep_submission
from enpire.code_candidates.surface import MOST_BYTES, MOST_CHANGED_LINES, MOST_FILES, SURFACE, read_folder
from enpire.errors import UnknownName, UsageError
from enpire.files import configs_root
from enpire.store import durable, removal

__all__ = [
    "MOST_BYTES", "MOST_FILES", "CodeDiff", "FileDiff", "Submitted", "code_of", "diff_of", "drop_submission",
    "keep_submission", "limits", "read_folder", "replace_files", "require_new", "template",
    "write_files", "write_template",
]  # fmt: skip


def template() -> dict[str, str]:
    """The files of a candidate to begin with: a policy that imitates the successful episodes."""
    return read_folder(configs_root() / "code")


def write_template(folder: Path) -> None:
    """Write the template into a new folder.

    Raises:
        UsageError: the folder exists and is not empty.
    """
    require_new(folder)
    write_files(folder, template())


def require_new(folder: Path) -> None:
    """Refuse a folder that holds something.

    Raises:
        UsageError: it exists and is not an empty folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already and is not empty; name a new folder.")


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a code candidate into a folder."""
    for name, text in files.items():
        path = folder / name
        durable.make_folder(path.parent)
        path.write_text(text, encoding="utf-8")


def replace_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a code candidate in the place of a folder and its content."""
    removal.remove(folder, within=folder.parent)
    write_files(folder, files)


def code_of(home: Path, commit: str) -> Mapping[str, str]:
    """The files of a kept candidate: path -> text."""
    return CodeRepository(home).files(commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """One changed file of a code candidate."""

    path: str
    added: int
    removed: int
    lines: tuple[str, ...]
    """As `diff -u` writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDiff:
    """How a code candidate differs from the one that it continues, or from the template."""

    against: str
    files: tuple[FileDiff, ...]


def diff_of(home: Path, commit: str) -> CodeDiff:
    """The changes of a kept candidate.

    Raises:
        EnpireError: the home has no such commit.
    """
    repository = CodeRepository(home)
    if not repository.folder.is_dir():
        raise UnknownName("This home has no code candidates.")
    new, parent = repository.files(commit), repository.parent(commit)
    old = repository.files(parent) if parent else template()
    found: list[FileDiff] = []
    for path in sorted({*old, *new}):
        before, after = old.get(path, "").splitlines(), new.get(path, "").splitlines()
        lines = list(difflib.unified_diff(before, after, path, path, lineterm=""))[2:]
        if lines:
            added = sum(line.startswith("+") for line in lines)
            removed = sum(line.startswith("-") for line in lines)
            found.append(FileDiff(path=path, added=added, removed=removed, lines=tuple(lines)))
    return CodeDiff(against=f"commit {parent[:12]}" if parent else "the template", files=tuple(found))


def drop_submission(home: Path, submitted: Submitted) -> None:
    """Remove the ref of a submission that the loop has answered; an accepted one has a ref of its experiment."""
    CodeRepository(home).drop(submitted.ref)


def limits() -> Mapping[str, int | str]:
    """The edit surface and its limits, for a brief."""
    return {
        "surface": SURFACE, "files": MOST_FILES, "bytes": MOST_BYTES, "changed_lines": MOST_CHANGED_LINES,
    }  # fmt: skip
