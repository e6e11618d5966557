"""Retries within an episode, as a station records them."""

from __future__ import annotations

import numpy as np

from enpire.station.recording import retry_ticks
from enpire.types import MaskArray


def marks(levels: str) -> MaskArray:
    """Subtask marks (T, 3): each digit is one tick and says how many of three subtasks are done."""
    return np.array([[int(level) > k for k in range(3)] for level in levels])


def test_a_retry_begins_when_the_furthest_subtask_is_lost_for_ten_ticks() -> None:
    assert retry_ticks(marks("0011222333")) == ()
    assert retry_ticks(marks("0122" + "1" * 10 + "2" * 3 + "3")) == (13,)
    assert retry_ticks(marks("2" + "0" * 30 + "1" * 30 + "2" + "1" * 12)) == (10, 71)
    assert retry_ticks(marks("2" + "1" * 9 + "2" + "1" * 9)) == (), "shorter losses are sensor noise"
    assert retry_ticks(
        marks(
            "2" + "1" * 3 + "2",
        ),
        lost_ticks=3,
    ) == (3,)
    assert retry_ticks(marks("")[:0].reshape(0, 3)) == ()


def test_a_later_mark_implies_the_earlier_ones() -> None:
    lifted = np.array([[True, True, False]] + [[False, False, True]] * 30)
    assert retry_ticks(lifted) == ()
