"""The skills of a code candidate: the modules `skills/NAME.py` that its learner and its policy import."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping

from enpire.campaign.agent_events import SkillFile

FOLDER, ENDING = "skills/", ".py"
LONGEST_ABOUT = 120
"""Characters of what a skill says about itself."""


def skills_of(files: Mapping[str, str], trees: Mapping[str, ast.Module]) -> tuple[SkillFile, ...]:
    """The skills of a candidate that another of its files imports, in the order of their names.

    Args:
        files: path -> text.
        trees: path -> syntax tree, as `surface.check_files` returned them for these files.
    """
    used = {name for path, tree in trees.items() for name in _imported(tree) if path != path_of(name)}
    return tuple(
        SkillFile(name=name, sha256=digest(files[path_of(name)]), about=_about(trees[path_of(name)]))
        for name in sorted(used) if path_of(name) in files
    )  # fmt: skip


def digest(text: str) -> str:
    """sha256 of the text of a skill."""
    return hashlib.sha256(text.encode()).hexdigest()


def path_of(name: str) -> str:
    """The path of a skill in the folder of a candidate."""
    return f"{FOLDER}{name}{ENDING}"


def _imported(tree: ast.Module) -> Iterator[str]:
    """Names of the skills that a file imports, as in `import skills.grasp` or `from skills import grasp`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [f"{node.module or ''}.{one.name}" for one in node.names]
        else:
            continue
        for name in imported:
            first, _, rest = name.partition(".")
            if first == FOLDER.rstrip("/") and rest:
                yield rest.partition(".")[0]


def _about(tree: ast.Module) -> str:
    """The first line of the docstring. Its escapes can make characters that no line of the file may hold."""
    lines = (ast.get_docstring(tree) or "").strip().splitlines()
    return "".join(letter for letter in lines[0] if letter.isprintable())[:LONGEST_ABOUT] if lines else ""
