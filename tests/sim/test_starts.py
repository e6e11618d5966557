"""Starts: deterministic, disjoint between splits, hidden ones hang on the secret."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enpire.errors import UsageError
from enpire.types import Split
from sim.starts import Sampler

SAMPLER = Sampler(task="pin", ranges=((-6.0, 6.0), (-6.0, 6.0), (4.0, 9.0)), least_aside=1.0)
SECRET, OTHER = b"0123456789abcdef", b"fedcba9876543210"
SPLITS: tuple[Split, ...] = ("train", "holdout", "confirm")


@settings(max_examples=50, deadline=None)
@given(index=st.integers(0, 10**9), split=st.sampled_from(SPLITS))
def test_a_start_is_the_same_every_time_and_within_its_ranges(index: int, split: Split) -> None:
    start = SAMPLER.start(split, index, SECRET)
    assert start == SAMPLER.start(split, index, SECRET)
    assert all(low <= v <= high for v, (low, high) in zip(start.values, SAMPLER.ranges, strict=True))
    assert start.values[0] ** 2 + start.values[1] ** 2 >= 1.0


def test_splits_and_tasks_share_no_start() -> None:
    other_task = Sampler(task="peg", ranges=SAMPLER.ranges)
    seen = {SAMPLER.start(split, i, SECRET).values for split in SPLITS for i in range(200)}
    seen |= {other_task.start("train", i, SECRET).values for i in range(200)}
    assert len(seen) == 800


def test_hidden_starts_depend_on_the_secret_and_train_starts_do_not() -> None:
    assert SAMPLER.start("train", 5, SECRET) == SAMPLER.start("train", 5, OTHER) == SAMPLER.start("train", 5, b"")
    for split in SPLITS[1:]:
        assert SAMPLER.start(split, 5, SECRET).values != SAMPLER.start(split, 5, OTHER).values
        assert SAMPLER.start(split, 5, SECRET).seed != SAMPLER.start(split, 5, OTHER).seed


def test_what_cannot_be_a_start_is_refused() -> None:
    with pytest.raises(UsageError, match="secret"):
        SAMPLER.start("holdout", 0, b"short")
    with pytest.raises(UsageError, match="numbered from 0"):
        SAMPLER.start("train", -1, SECRET)
    with pytest.raises(UsageError, match="no split"):
        SAMPLER.start("test", 0, SECRET)  # type: ignore[arg-type]
