"""Joints that are far from their command and do not move."""

from __future__ import annotations

import numpy as np
import pytest

from enpire.errors import UsageError
from enpire.types import Bounds, TaskSpec
from robot_drivers.safety import Envelope, Limits
from robot_drivers.stall import StallWatch

JOINTS = tuple(Bounds(name=f"{name}.pos", unit="deg", low=-90.0, high=90.0) for name in ("pan", "lift"))
SPEC = TaskSpec(name="arm", instruction="", state=JOINTS[::-1], action=JOINTS, rate_hz=10.0, limit_ticks=9)
LIMITS = Limits(stall={"lift.pos": 8.0}, stall_s=0.5)


def row(pan: float, lift: float) -> np.ndarray:
    """A state: the joints stand in another order than in actions."""
    return np.array([[lift, pan]], np.float32)


def stalls(watch: StallWatch, at_s: float, lift: float, command: float) -> bool:
    commanded = np.array([[0.0, command]], np.float32)
    return bool(watch.note(int(at_s * 1e9), row(60.0, lift), commanded).any())


def test_a_joint_stalls_once_it_was_held_for_so_long() -> None:
    watch = StallWatch(SPEC, LIMITS, 1)
    assert not stalls(watch, 1.0, 10.0, 30.0)
    assert not stalls(watch, 1.4, 10.0, 30.0)
    assert stalls(watch, 1.5, 10.0, 30.0)
    watch.begin(0)
    assert not stalls(watch, 9.0, 10.0, 30.0), "a new rollout begins anew"


def test_a_joint_that_moves_or_arrives_begins_anew() -> None:
    watch = StallWatch(SPEC, LIMITS, 1)
    for step in range(20):
        assert not stalls(watch, 1.0 + 0.3 * step, 2.5 * step, 60.0), "it moves"
    assert not stalls(watch, 8.0, 50.0, 57.0), "it is near its command"
    assert not stalls(watch, 8.4, 50.0, 59.0)
    assert stalls(watch, 8.55, 50.0, 59.0)


def test_a_joint_without_a_limit_or_a_command_does_not_stall() -> None:
    watch = StallWatch(SPEC, LIMITS, 1)
    for step in range(10):
        assert not watch.note(step * 10**9, row(60.0, 0.0), np.array([[-60.0, 0.0]], np.float32)).any()
        assert not watch.note(step * 10**9, row(60.0, 0.0), np.full((1, 2), np.nan, np.float32)).any()


def test_the_sentence_names_the_joint_and_both_positions() -> None:
    watch = StallWatch(SPEC, LIMITS, 1)
    found = watch.sentence(np.array([True]), row(60.0, 10.0)[0], np.array([0.0, 30.0], np.float32))
    assert found == "lift.pos stalls: it is at 10 deg, its command is 30 deg, and it has not moved for 0.5 s"


def test_a_speed_cannot_stall_and_a_limit_is_a_number() -> None:
    with pytest.raises(UsageError, match="limits knee.pos, but arm has no such position"):
        Envelope(SPEC, Limits(stall={"knee.pos": 1.0}))
    with pytest.raises(UsageError, match="stall.lift.pos of the envelope must be a number of at least 0"):
        Limits.read({"stall": {"lift.pos": "far"}})
