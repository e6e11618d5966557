"""The search space of a recipe: what it declares, what it allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from enpire.campaign.recipe import Recipe, changed, read_recipe
from enpire.campaign.search_space import Choice, Range, axes, axis_of
from enpire.errors import FileProblem, UsageError
from enpire.files import parse, plain

WRITTEN = {
    "name": "r", "learner": "habc", "settings": {"rate": 0.001, "steps": 4, "gate": "soft"},
    "space": {"rate": [0.0001, 0.01, "log"], "steps": [1, 8, "linear"], "gate": ["soft", "off"]},
}  # fmt: skip


def recipe(**changes: object) -> Recipe:
    return parse(Recipe, {**WRITTEN, **changes}, "The recipe")


def test_a_space_is_read_and_dumped_back() -> None:
    read = recipe()
    assert parse(Recipe, plain(read), "The dump") == read
    assert axes(read.space) == {
        "rate": Range(low=0.0001, high=0.01, scale="log", whole=False),
        "steps": Range(low=1, high=8, scale="linear", whole=True),
        "gate": Choice(options=("soft", "off")),
    }
    assert read.hash == recipe(space={}).hash


@pytest.mark.parametrize(
    "space",
    [
        {"unknown": [1, 2, "linear"]}, {"rate": [0.01, 0.001, "log"]}, {"rate": [0.0, 1.0, "log"]}, {"gate": ["soft"]},
        {"gate": ["soft", "soft"]}, {"rate": ["a", "b", "linear"]}, {"rate": [True, 2, "linear"]},
    ],
)  # fmt: skip
def test_a_space_that_cannot_be_is_refused(space: dict[str, object]) -> None:
    with pytest.raises(FileProblem, match="space"):
        recipe(space=space)


def test_changes_keep_the_kind_of_a_number() -> None:
    made = changed(recipe(), {"steps": 8.0, "rate": 0.01}, "made")
    assert made.settings == {"rate": 0.01, "steps": 8, "gate": "soft"}
    assert isinstance(made.settings["steps"], int)
    assert made.hash != recipe().hash


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rate": 0.1}, "numbers from 0.0001 to 0.01"), ({"steps": True}, "whole numbers from 1 to 8"),
        ({"gate": "hard"}, "one of 'soft', 'off'"), ({"seed": 1}, "not in the search space"), ({}, "at least one"),
        ({"rate": 0.001}, "as it is"),
    ],
)  # fmt: skip
def test_changes_outside_are_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        changed(recipe(), changes, "made")


def test_every_shipped_recipe_of_a_round_declares_a_space(tmp_path: Path) -> None:
    for name in ("habc_plus", "filtered_bc"):
        shipped = read_recipe(name)
        assert len(shipped.space) >= 3
        assert all(axis.holds(shipped.settings[setting]) for setting, axis in axes(shipped.space).items())


def test_a_whole_number_that_no_float_holds_is_outside_every_range_and_named_by_its_size() -> None:
    for axis in (axis_of("skill", (0.1, 0.9, "linear")), axis_of("steps", (1, 8, "log"))):
        for value in (10**400, -(10**400), float("inf"), float("nan")):
            assert not axis.holds(value)
    with pytest.raises(ValueError, match="both finite"):
        axis_of("steps", (1, 10**400, "linear"))
