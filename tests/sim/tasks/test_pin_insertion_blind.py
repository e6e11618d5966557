"""Blind pin insertion: luck decides without a search, and a spiral finds the hole."""

from __future__ import annotations

import numpy as np

from sim.rollouts import roll_out
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.pin_insertion_blind import PinInsertionBlind

SECRET = b"a secret of the tests"


def test_a_search_finds_what_an_aimed_descent_misses() -> None:
    blind = PinInsertionBlind()
    starts = [blind.start("holdout", index, SECRET) for index in range(40)]
    rig = blind.rig(40, 11)
    searched = roll_out(blind, rig, blind.clean_expert(), starts)
    aimed = roll_out(blind, rig, PinInsertion().clean_expert(), starts)
    assert sum(item.truth.success for item in searched) >= 36
    assert sum(item.truth.success for item in aimed) <= 18
    said = [item.verdict.kind == "success" for item in searched + aimed]
    assert np.mean([was == item.truth.success for was, item in zip(said, searched + aimed, strict=True)]) >= 0.97


def test_the_error_of_the_estimate_is_hidden_and_lasts_for_the_episode() -> None:
    blind = PinInsertionBlind()
    rig = blind.rig(1, 0)
    gaps = []
    for index in range(12):
        rig.place(0, blind.start("train", index, b""))
        seen = []
        for _ in range(20):
            rig.act(np.zeros((1, 3), dtype=np.float32), np.ones(1, dtype=np.bool_))
            seen.append(rig.observe().state[0, :2] - rig.tip_mm()[0, :2])
        assert np.std(seen, axis=0).max() < 0.2
        gaps.append(np.mean(seen, axis=0))
    assert np.std(gaps) > 0.4
