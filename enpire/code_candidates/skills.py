"""The skills of a code candidate: the modules `skills/NAME.py` that its learner and its policy import."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping

from enpire.campaign.agent_events import SkillFile

FOLDER, ENDING = "skills/", ".py"
LONGEST_ABOUT = 120
"""Characters of what a skill says about itself."""


def skills_of(files: Mapping[str, str], trees: Mapping[str, ast.Module]) -> tuple[SkillFile, ...]:
    """The skills of a candidate, in the order of their names.

    Args:
        files: path -> text.
        trees: path -> syntax tree, as `surface.check_files` returned them for these files.
    """
    return tuple(
        SkillFile(
            name=path.removeprefix(FOLDER).removesuffix(ENDING), sha256=digest(text), about=_about(trees[path])
        )
        for path, text in sorted(files.items()) if path.startswith(FOLDER)
    )  # fmt: skip


def digest(text: str) -> str:
    """sha256 of the text of a skill."""
    return hashlib.sha256(text.encode()).hexdigest()


def path_of(name: str) -> str:
    """The path of a skill in the folder of a candidate."""
    return f"{FOLDER}{name}{ENDING}"


def _about(tree: ast.Module) -> str:
    lines = (ast.get_docstring(tree) or "").strip().splitlines()
    return lines[0][:LONGEST_ABOUT] if lines else ""
