"""Docstrings of public functions with arrays state the shapes."""

from __future__ import annotations

import pytest

from tests.architecture.array_shapes import SHAPE, everywhere

OPEN = 16
"""Functions that still state none: this number only goes down."""


def test_public_functions_with_arrays_state_their_shapes() -> None:
    found = everywhere()
    assert len(found) <= OPEN, "State a shape such as (T, 7) in these docstrings:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text", ["state (lanes, state_dim)", "(n,)", "(T + 1, 7)", "(len(lanes), horizon)", "(B, ...)"]
)
def test_a_shape_is_recognised(text: str) -> None:
    assert SHAPE.search(text)


@pytest.mark.parametrize("text", ["arrays of a lane", "the state (of all lanes)", "see (act)", "()"])
def test_other_parentheses_are_no_shape(text: str) -> None:
    assert not SHAPE.search(text)
