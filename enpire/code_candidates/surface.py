"""The files of a code candidate: which ones an agent may write, and what they may hold (docs/code.md).

A folder that breaks a rule is refused as a whole, with one sentence. Nothing of it is kept.
"""

from __future__ import annotations

import ast
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from enpire.errors import UsageError
from enpire.files import shown

LEARNER, POLICY, RECIPE = "learner.py", "policy.py", "recipe.yaml"
NEEDED = (LEARNER, POLICY, RECIPE)
SURFACE = "learner.py, policy.py, recipe.yaml, README.md and skills/NAME.py"
"""The edit surface, for readers."""
_ALLOWED = re.compile(r"learner\.py|policy\.py|recipe\.yaml|README\.md|skills/[a-z_][a-z0-9_]{0,63}\.py")
MOST_FILES, MOST_BYTES = 32, 128 * 1024
MOST_NESTED = 200
"""Most depth of a syntax tree: each block, operand, argument and `elif` is one deeper than what holds it."""
MOST_NODES = 40_000
"""Nodes of the syntax trees of all files together: the loop reads them between two looks at the robots."""
MOST_CHANGED_LINES, LONGEST_LINE = 2000, 400
"""Lines of one submission that differ from its parent's, and characters of a line: a change must be readable."""


class SurfaceProblem(UsageError):
    """The files of a code candidate break a rule; nothing of them was kept."""


def check_files(files: Mapping[str, str], parent: Mapping[str, str]) -> dict[str, ast.Module]:
    """Check the files of a candidate; path -> syntax tree of those that are Python.

    Args:
        files: path -> text.
        parent: the files of the candidate that it continues; empty for a first one.

    Raises:
        SurfaceProblem: one sentence about the first rule that they break.
    """
    for path in files:
        if not _ALLOWED.fullmatch(path):
            raise SurfaceProblem(f"{shown(path)} is outside the edit surface; allowed are {SURFACE}: remove it.")
    if missing := [name for name in NEEDED if name not in files]:
        raise SurfaceProblem(f"The folder has no {missing[0]}; a code candidate needs {', '.join(NEEDED)}.")
    check_size("folder", files, ": keep weights in the version, not in the code")
    trees: dict[str, ast.Module] = {}
    left = MOST_NODES
    for path, text in files.items():
        check_text(path, text)
        if path.endswith(".py"):
            trees[path], nodes = _parsed(path, text, left)
            _check_contract(path, trees[path])
            left -= nodes
    changed = changed_lines(files, parent)
    if changed > MOST_CHANGED_LINES:
        raise SurfaceProblem(
            f"The change has {changed} lines; at most {MOST_CHANGED_LINES} are allowed: split it into several "
            "experiments."
        )
    return trees


def check_size(what: str, files: Mapping[str, str], advice: str = "") -> None:
    """Check the number of files and their size; `advice` ends the sentence.

    Raises:
        SurfaceProblem: they are more, or larger, than allowed.
    """
    size = sum(len(text.encode(errors="replace")) for text in files.values())
    if len(files) > MOST_FILES or size > MOST_BYTES:
        raise SurfaceProblem(
            f"The {what} has {len(files)} files with {size} bytes; at most {MOST_FILES} files with {MOST_BYTES} bytes "
            f"together are allowed{advice}."
        )


def changed_lines(files: Mapping[str, str], parent: Mapping[str, str]) -> int:
    """Lines that were added and removed between two candidates."""
    total = 0
    for path in {*files, *parent}:
        new, old = (Counter(one.get(path, "").splitlines()) for one in (files, parent))
        total += (new - old).total() + (old - new).total()
    return total


def read_folder(folder: Path) -> dict[str, str]:
    """The files of a folder: path -> text. No link is followed.

    Raises:
        SurfaceProblem: it holds a link, another thing than files and folders, a binary file, or too much.
    """
    found: dict[str, str] = {}
    size = 0
    for path in _paths(folder):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as problem:
            raise SurfaceProblem(f"{path} cannot be read ({problem.strerror}); links are not followed.") from problem
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
                raise SurfaceProblem(f"{path} is not a file of this folder alone; only plain files are allowed.")
            data = file.read(MOST_BYTES + 1)
        size += len(data)
        if size > MOST_BYTES or len(found) >= MOST_FILES:
            raise SurfaceProblem(
                f"{folder} holds more than {MOST_FILES} files or {MOST_BYTES} bytes, which is the limit; remove what "
                "is no code."
            )
        try:
            found[path.relative_to(folder).as_posix()] = data.decode()
        except UnicodeDecodeError as problem:
            raise SurfaceProblem(f"{path} is no text in UTF-8; binary files are not allowed: remove it.") from problem
    return found


def _paths(folder: Path) -> list[Path]:
    """The files below a folder, in order of their names; what Python itself leaves there is passed over.

    Raises:
        SurfaceProblem: it holds a link, a repository or too much, or cannot be listed: it is nested too deeply, or
            changes meanwhile.
    """
    try:
        return _listed(folder)
    except OSError as problem:
        raise SurfaceProblem(
            f"{shown(str(folder))} cannot be listed ({problem.strerror}); remove what is no code."
        ) from problem


def _listed(folder: Path) -> list[Path]:
    if folder.is_symlink() or not folder.is_dir():
        raise SurfaceProblem(f"{folder} is not a folder; name the folder with {', '.join(NEEDED)}.")
    found: list[Path] = []
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_symlink():
                raise SurfaceProblem(f"{path} is a link; only plain files are allowed: replace it by its content.")
            if path.name == "__pycache__":
                continue
            if path.name == ".git":
                raise SurfaceProblem(f"{path} is a git repository or submodule, which is not allowed; remove it.")
            (waiting if path.is_dir() else found).append(path)
        if len(found) + len(waiting) > 4 * MOST_FILES:
            raise SurfaceProblem(f"{folder} holds too many files; at most {MOST_FILES} are allowed.")
    return sorted(found)


def check_text(path: str, text: str) -> None:
    """Check the text of a file that a person approves, or that runs.

    Raises:
        SurfaceProblem: a line is too long, or holds a character that is not shown to readers.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_LINE:
            raise SurfaceProblem(
                f"{path}, line {number} has {len(line)} characters; at most {LONGEST_LINE} are allowed: break it."
            )
        if odd := next((letter for letter in line if not (letter.isprintable() or letter == "\t")), ""):
            raise SurfaceProblem(
                f"{path}, line {number} holds the character U+{ord(odd):04X}, which is not shown to readers; remove it."
            )


def _check_contract(path: str, tree: ast.Module) -> None:
    if path == LEARNER and "improve" not in _names(tree, ast.FunctionDef):
        raise SurfaceProblem("learner.py defines no function `improve`; add it (docs/code.md).")
    if path == POLICY and "Policy" not in _names(tree, ast.ClassDef):
        raise SurfaceProblem("policy.py defines no class `Policy`; add it (docs/code.md).")


def _names(tree: ast.Module, kind: type[ast.FunctionDef | ast.ClassDef]) -> set[str]:
    """Names of the functions or classes at the top level of a Python file."""
    return {node.name for node in tree.body if isinstance(node, kind)}


def _parsed(path: str, text: str, most_nodes: int) -> tuple[ast.Module, int]:
    """The syntax tree of a Python file, and its number of nodes.

    Raises:
        SurfaceProblem: it is not Python, nested too deeply, or has too many nodes.
    """
    try:
        tree = ast.parse(text)
    except (RecursionError, MemoryError) as problem:
        raise _too_deep(path) from problem
    except (SyntaxError, ValueError) as problem:
        line = problem.lineno if isinstance(problem, SyntaxError) else 1
        raise SurfaceProblem(f"{path}, line {line} is not Python: {' '.join(str(problem).split())[:200]}.") from problem
    level: list[ast.AST] = [tree]
    nodes = 0
    for _ in range(MOST_NESTED):
        nodes += len(level)
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise _too_deep(path)
    if nodes > most_nodes:
        raise SurfaceProblem(
            f"The code has more than {MOST_NODES} names, constants and operations, which is the limit; {path} goes "
            "beyond it: keep tables in the version, not in the code."
        )
    return tree, nodes


def _too_deep(path: str) -> SurfaceProblem:
    return SurfaceProblem(
        f"{path} is nested deeper than {MOST_NESTED} levels, which is the limit; split its longest expression or block."
    )
