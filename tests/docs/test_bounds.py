"""The documents give each confirmation its exact bound, as the gate computes it."""

from __future__ import annotations

import re

from enpire.gate.intervals import lower_bound
from tests.docs.test_blocks import ROOT

BOUNDED = re.compile(r"(\d+) of (\d+)(?: starts)?(?: \([\d.]+ to [\d.]+ %\))?(?:,\s| \()at least ([\d.]+) %")
SHOWN = ("README.md", "docs/branches.md", "docs/robots.md")


def test_each_bound_in_the_documents_is_that_of_its_counts() -> None:
    found = [one for name in SHOWN for one in BOUNDED.findall((ROOT / name).read_text(encoding="utf-8"))]
    found += re.findall(r"\b(\d+)(), at least ([\d.]+) %", _row("| confirmed, of 400"))
    assert len(found) >= 20, "the pattern no longer finds the bounds"
    wrong = [one for one in found if f"{100 * lower_bound(int(one[0]), int(one[1] or 400)):.1f}" != one[2]]
    assert not wrong


def test_each_confirmation_of_a_table_has_its_bound() -> None:
    text = (ROOT / "docs" / "branches.md").read_text(encoding="utf-8")
    cells = [cell for line in text.splitlines() if line.startswith("|") for cell in line.split("|") if "of 400" in cell]
    assert len(cells) >= 12
    assert [cell for cell in cells if "at least" not in cell] == []


def _row(begin: str) -> str:
    """The row of a table in README that begins so."""
    [row] = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith(begin)]
    return row
