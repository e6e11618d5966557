"""Command blending: no step in the commands when control changes, and no other effect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from enpire.station.command_blending import PERIODS, CommandBlender
from enpire.types import Bounds, TaskSpec

ONE = np.zeros(1, np.int64)
JOINT, SPEED = Bounds(name="joint", unit="rad", low=-9, high=9), Bounds(name="speed", unit="m/s", low=-9, high=9)
SPEC = TaskSpec(
    name="t", instruction="", state=(SPEED, JOINT), action=(JOINT, replace(SPEED, name="go")), rate_hz=1, limit_ticks=1
)
STATE = np.array([[8.0, 2.0]], np.float32)


def driven(held: list[bool], wishes: list[float]) -> list[float]:
    """The commands sent to one lane, with a guard that changes none."""
    over, sent = CommandBlender(1, replace(SPEC, action=(JOINT,))), []
    over.begin(0)
    for now, wish in zip(held, wishes, strict=True):
        command = over.blend(ONE, np.array([now]), np.array([[wish]], np.float32), STATE)
        over.sent(ONE, command)
        sent.append(float(command[0, 0]))
    return sent


def test_blending_takes_equal_steps_and_ends_at_the_requested_command() -> None:
    sent = driven([False] * 3 + [True] * 8 + [False] * 8, [0.0] * 3 + [1.0] * 8 + [-1.0] * 8)
    assert np.allclose(np.diff(sent[2 : 3 + PERIODS]), 1.0 / PERIODS)
    assert sent[2 + PERIODS : 11] == [1.0] * (9 - PERIODS)
    assert np.allclose(np.diff(sent[10 : 11 + PERIODS]), -2.0 / PERIODS)
    assert sent[10 + PERIODS :] == [-1.0] * (9 - PERIODS)


@given(st.lists(st.tuples(st.booleans(), st.floats(-10, 10, width=32)), min_size=1, max_size=40))
def test_no_blended_step_is_larger_than_its_share_of_the_difference(run: list[tuple[bool, float]]) -> None:
    held, wishes = [item[0] for item in run], [item[1] for item in run]
    sent = driven(held, wishes)
    before = False
    for index, now in enumerate(held):
        if index and now != before:
            most = abs(wishes[index] - sent[index - 1]) / PERIODS
            assert abs(sent[index] - sent[index - 1]) <= most + 1e-5
        before = now
    if not any(held):
        assert sent == wishes, "an episode that nobody touches is what its policy wants, bit for bit"


def test_an_operator_in_control_from_the_first_command_begins_at_rest() -> None:
    over = CommandBlender(1, SPEC)
    over.begin(0)
    over.sent(ONE, np.ones((1, 2), np.float32))
    over.begin(0)
    wish = np.array([[2.0 + PERIODS, PERIODS]], np.float32)
    assert over.blend(ONE, np.array([True]), wish, STATE).tolist() == [[3.0, 1.0]]
