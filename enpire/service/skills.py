"""The skills of a home: code that a gate confirmed, which later candidates take."""

from __future__ import annotations

from pathlib import Path

from enpire.code_candidates.repository import CodeRepository
from enpire.code_candidates.skills import digest, path_of
from enpire.errors import FileProblem, UsageError
from enpire.queries.skills import SkillView, find_skill, skill_library
from enpire.service.code import write_files

__all__ = ["SkillView", "add_file", "find_skill", "path_of", "skill_library", "text_of"]


def text_of(home: Path, skill: SkillView) -> str:
    """The text of a skill, from the commit that made it.

    Raises:
        FileProblem: the repository holds another text.
        UsageError: the repository does not hold the commit.
    """
    text = CodeRepository(home).files(skill.commit).get(path_of(skill.name), "")
    if digest(text) != skill.sha256:
        raise FileProblem(
            f"Commit {skill.commit[:12]} does not hold the skill {skill.name} that a gate confirmed; restore code.git."
        )
    return text


def add_file(folder: Path, path: str, text: str) -> Path:
    """Add a file to the folder of a code candidate; returns its place.

    Raises:
        UsageError: there is no such folder, or it holds something else there.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; `enpire agent code-template {folder}` makes one.")
    place = folder / path
    try:
        if place.is_symlink() or (place.exists() and place.read_text(encoding="utf-8", errors="replace") != text):
            raise UsageError(f"The folder has another {path}; rename it, then take the skill.")
        write_files(folder, {path: text})
    except OSError as problem:
        raise UsageError(f"{path} cannot be written ({problem.strerror}); remove what is in its place.") from problem
    return place
