"""Lists of numbers from a message: every number is finite and in range, whether all are floats or not."""

from __future__ import annotations

import math

import pytest

from enpire.errors import TransportProblem
from enpire.field_reader import NUMBER_MAX, Fields


def fields(*values: object) -> Fields:
    return Fields({"values": list(values)}, "a message")


@pytest.mark.parametrize(
    "odd", [math.nan, math.inf, -math.inf, 2 * NUMBER_MAX, -2 * NUMBER_MAX, True, "1", None, [1.0]]
)
def test_a_list_with_something_that_is_no_number_is_refused(odd: object) -> None:
    for values in ([odd], [1.0, odd], [odd, 1.0], [1, odd]):
        with pytest.raises(TransportProblem, match="a message"):
            fields(*values).numbers("values")


def test_whole_numbers_and_floats_come_back_as_floats() -> None:
    for values in ([0.5, -NUMBER_MAX, NUMBER_MAX], [1, 0.5], [3], []):
        found = fields(*values).numbers("values")
        assert found == tuple(values)
        assert all(type(one) is float for one in found)


def test_a_null_stands_for_a_missing_number_only_where_one_is_given() -> None:
    assert fields(0.5, None).numbers("values", missing=-1.0) == (0.5, -1.0)
