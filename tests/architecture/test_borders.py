"""Untyped data ends at the border: past the files that read or write it, no `cast` and no `Mapping[str, object]`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.architecture.sources import files, nodes, tree, where

CAST_BORDERS = frozenset({
    "enpire/campaign/event_forms.py", "enpire/datasets/lerobot_tables.py", "enpire/datasets/lerobot_video.py",
    "enpire/field_reader.py", "enpire/files.py", "enpire/parts.py", "enpire/plugins.py", "enpire/store/arrays.py",
    "enpire/store/entries.py", "enpire/wire/messages.py", "enpire/wire/rpc.py",
})  # fmt: skip
"""Files that turn files, rows, messages and plug-ins into types, or back."""
MAPPING_BORDERS = frozenset({
    "enpire/datasets/lerobot_tables.py", "enpire/datasets/lerobot_video.py", "enpire/field_reader.py",
    "enpire/files.py",
    "enpire/parts.py", "enpire/wire/rpc.py",
})  # fmt: skip
CASTS_LEFT: Mapping[str, int] = {"enpire/store/pictures.py": 1, "enpire/verifiers.py": 2}
"""File -> casts that are left past the border. These numbers may only get smaller."""
MAPPINGS_LEFT: Mapping[str, int] = {
    "enpire/campaign/campaign.py": 2, "enpire/campaign/recipe.py": 4, "enpire/commands/robots.py": 1,
    "enpire/interfaces.py": 4, "enpire/interventions.py": 2, "enpire/queries/branch_models.py": 1,
    "enpire/queries/hypotheses.py": 1,
    "enpire/queries/models.py": 1, "enpire/requests/agent_requests.py": 2, "enpire/service/processes.py": 1,
    "enpire/station/station_file.py": 5, "enpire/store/order_page.py": 1, "enpire/verifiers.py": 1,
}  # fmt: skip
"""File -> `Mapping[str, object]` left past the border, most of them options of plug-ins. They may only get smaller."""


def casts(path: Path) -> int:
    """Calls of `typing.cast` in a file, under any spelling of `cast` or `typing.cast`."""
    calls = [node.func for node in nodes(path) if isinstance(node, ast.Call)]
    return sum(ast.unparse(called) in ("cast", "typing.cast") for called in calls)


def mappings(path: Path) -> int:
    """Places of `Mapping[str, object]` in a file, in types and in texts that hold types."""
    return ast.unparse(tree(path)).count("Mapping[str, object]")


@pytest.mark.parametrize(
    ("count", "borders", "left"),
    [(casts, CAST_BORDERS, CASTS_LEFT), (mappings, MAPPING_BORDERS, MAPPINGS_LEFT)],
    ids=["cast", "mapping"],
)
def test_untyped_data_ends_at_the_border(
    count: Callable[[Path], int], borders: frozenset[str], left: Mapping[str, int]
) -> None:
    counted = {where(path): found for path in files(("enpire",)) if (found := count(path))}
    assert borders <= set(counted), f"Take these out of the list of borders: {sorted(borders - set(counted))}"
    past = {path: found for path, found in sorted(counted.items()) if path not in borders}
    assert past == dict(left), (
        f"Past the border are {past}. Where a file has more than the table allows, narrow the value by a check or "
        "read it at the border; where it has fewer, make the number in the table smaller."
    )


def test_the_counts_find_what_they_count(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        "import typing\nfrom typing import cast\n\n\n"
        "def read(given: Mapping[str, object]) -> int:\n"
        "    return cast('int', given['a']) + typing.cast('Mapping[str, object]', given['b'])['c']\n"
    )
    assert (casts(sample), mappings(sample)) == (2, 2)
