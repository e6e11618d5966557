"""docs/faults.md lists faults and their tests: every row is there, and every named test exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = 47
NOT_YET: set[int] = set()
"""Faults without a test."""
OF_INJECTORS = {
    "test_all_states_of_two_sectors_are_generated",
    "test_a_name_is_durable_with_its_folder_and_a_rename_is_atomic",
    "test_simultaneous_events_happen_in_the_order_of_planning",
    "test_the_same_seed_gives_the_same_run_in_another_process",
    "test_more_seeds",
}
"""Tests of the injectors themselves, and more seeds of a test in the table."""


def rows() -> dict[int, list[str]]:
    """Row of the table -> the tests in its last column."""
    found: dict[int, list[str]] = {}
    for line in (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").splitlines():
        if row := re.match(r"\| (\d+) \|", line):
            number = int(row[1])
            assert number not in found, f"row {number} is there twice"
            assert len(line.split(" | ")) == 4, line
            found[number] = re.findall(r"`(tests/[^`]+)`", line.split(" | ")[-1])
    return found


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_fault_has_one_row_with_tests() -> None:
    assert sorted(rows()) == list(range(1, ROWS + 1))
    assert {number for number, tests in rows().items() if not tests} == NOT_YET


def test_every_test_in_the_table_exists() -> None:
    for number, tests in rows().items():
        for named in tests:
            path, _, name = named.partition("::")
            assert (ROOT / path).is_file(), f"row {number} names {path}, which is not there"
            assert name in names_in(ROOT / path), f"row {number} names {name}, which is not in {path}"


def test_every_test_of_the_faults_folder_is_in_the_table() -> None:
    named = {test.partition("::")[2] for tests in rows().values() for test in tests}
    own = {Path(__file__).name}
    there = {
        name for path in Path(__file__).parent.glob("test_*.py") if path.name not in own for name in names_in(path)
    }
    assert there - named == OF_INJECTORS
