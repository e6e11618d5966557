"""docs/walk.md names functions that exist, and no walk goes back to a room more than once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WALK = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\| \d+ \| \[`([\w.]+)`\]\(\.\./([\w/]+\.py)\)", re.MULTILINE)
RULE = re.compile(r"^\| .+ \| (\w+) \| \[(\w+\.py)\]\(\.\./([\w/]+\.py)\) \|$", re.MULTILINE)


def walks() -> dict[str, list[tuple[str, str]]]:
    """Title -> (function, file) of each step, in order."""
    parts = re.split(r"^## ", WALK, flags=re.MULTILINE)
    found = {part.splitlines()[0]: STEP.findall(part) for part in parts}
    return {title: steps for title, steps in found.items() if steps}


def defined(path: Path) -> set[str]:
    """Functions and methods (`Class.method`) of a file."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return names


def test_six_walks_are_told() -> None:
    five = ["One order", "One episode", "One candidate", "One operator's click", "One agent's call"]
    assert list(walks()) == [*five, "One call of a language model"]
    assert min(len(steps) for steps in walks().values()) >= 5


@pytest.mark.parametrize("title", walks())
def test_every_function_of_a_walk_exists(title: str) -> None:
    missing = [f"{file}: {name}" for name, file in walks()[title] if name not in defined(ROOT / file)]
    assert not missing


@pytest.mark.parametrize("title", walks())
def test_no_walk_returns_to_a_room_more_than_once(title: str) -> None:
    rooms = [str(Path(file).parent) for _, file in walks()[title]]
    entered = [room for number, room in enumerate(rooms) if number == 0 or rooms[number - 1] != room]
    returns = len(entered) - len(set(entered))
    assert returns <= 1, entered


def test_a_newcomer_finds_twenty_rules_in_their_rooms() -> None:
    rules = RULE.findall(WALK)
    assert len(rules) >= 20
    for room, name, file in rules:
        assert (ROOT / file).is_file(), file
        assert Path(file).name == name
        assert Path(file).parent.name == room
