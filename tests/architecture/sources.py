"""The Python files of the project, parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("enpire", "robot_drivers", "sim", "policies", "agent_loop", "web_ui")
EVERYWHERE = (*PACKAGES, "tests", "benchmarks")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def files(folders: tuple[str, ...] = EVERYWHERE) -> tuple[Path, ...]:
    """All Python files below these folders, without what npm installs."""
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return tuple(path for path in found if "node_modules" not in path.parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, of which each test looks at some."""
    return tuple(ast.walk(tree(path)))


def where(path: Path, node: ast.AST | None = None) -> str:
    line = getattr(node, "lineno", None)
    return str(path.relative_to(ROOT)) + (f":{line}" if line else "")


def functions(path: Path) -> list[Function]:
    return [node for node in nodes(path) if isinstance(node, Function)]


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in nodes(path) if isinstance(node, ast.ClassDef)]


def imports(path: Path) -> list[tuple[ast.AST, str]]:
    """(node, dotted module) of every import in a file, wherever it stands."""
    found: list[tuple[ast.AST, str]] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(node, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node, node.module)]
    return found
