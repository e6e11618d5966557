"""docs/papers.md names files and definitions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
NAMED = re.compile(r"\[`([\w.]+)`\]\(\.\./([\w/]+\.py)\)")


def defined(path: Path) -> set[str]:
    """Classes, functions, constants and methods (`Class.method`) of a file."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize(("name", "file"), sorted(set(NAMED.findall(PAGE))))
def test_each_name_is_defined_where_the_page_says(name: str, file: str) -> None:
    assert name in defined(ROOT / file)


def test_both_papers_are_covered() -> None:
    by_paper = {
        part.split("\n", 1)[0]: len(NAMED.findall(part)) for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)
    }
    assert by_paper["ENPIRE"] >= 20
    assert by_paper["HABC"] >= 12
