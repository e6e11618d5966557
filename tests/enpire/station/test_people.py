"""Demonstrations by people: recorded from the first motion of the operator, held still between two take-overs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import PolicyProblem
from enpire.policy_calls import LoadedPolicy
from enpire.station.lanes import Lanes
from enpire.station.people import HoldStill
from enpire.station.policy_cache import PolicyCache
from enpire.store import arrays
from enpire.types import PEOPLE, SOURCE_EXPERT, Bounds, Observation
from tests.fakes.point_person import Person
from tests.fakes.point_task import LIMIT, PointRig, PointTask, point_order

ORDER = replace(point_order(PEOPLE, 3), purpose="demonstrate", supervised=True)
PERSON = LoadedPolicy(policy_id=PEOPLE, policy=HoldStill(PointTask.spec), source=SOURCE_EXPERT)


def demonstrated(moves: Sequence[int], periods: int) -> Lanes:
    lanes = Lanes(PointTask(), PointRig(PointTask.spec, 1), operator=Person(moves))
    lanes.begin(0, ORDER, PERSON)
    for _ in range(periods):
        lanes.sense()
        lanes.reset()
        lanes.verify()
        lanes.decide()
        lanes.act()
    return lanes


def test_the_robot_waits_for_a_person_and_the_wait_is_not_recorded() -> None:
    lanes = demonstrated([], 10 * LIMIT)
    assert lanes.busy
    assert not lanes.take_ended()
    assert lanes.overdue(-1.0) == []
    assert lanes.time.phase(0) == "wait-person"


def test_a_demonstration_is_what_the_person_commanded_and_counts_as_a_teachers() -> None:
    lanes = demonstrated(range(50, 500), 200)
    [parcel] = lanes.take_ended()
    found = arrays.unpack(parcel.arrays_file)
    assert parcel.episode.outcome == "success"
    assert parcel.episode.ran_policy_id == PEOPLE
    assert 0 < len(found.action) < LIMIT
    assert (found.source == SOURCE_EXPERT).all()
    assert np.abs(found.action).max(axis=1).min() > 0, "no period without a command of the person is recorded"


def test_a_robot_that_is_given_back_holds_still_until_the_time_is_up() -> None:
    lanes = demonstrated(range(5), 5 + 2 * LIMIT)
    [parcel] = lanes.take_ended()
    found = arrays.unpack(parcel.arrays_file)
    assert parcel.episode.outcome == "failure"
    assert len(found.action) == LIMIT
    assert np.abs(found.action[-1]).max() == 0.0


def test_positions_are_held_where_the_robot_is_and_speeds_are_zero() -> None:
    joint = Bounds(name="elbow_rad", unit="rad", low=-1.0, high=1.0)
    speed = Bounds(name="forward_m_s", unit="m/s", low=-1.0, high=1.0)
    spec = replace(PointTask.spec, state=(speed, joint), action=(joint, speed), limit_ticks=7)
    seen = Observation(stamp_ns=0, state=np.array([[0.3, 0.5], [0.2, 4.0]], np.float32))
    held = HoldStill(spec).act(seen, np.arange(2))
    assert held.shape == (2, 7, 2)
    np.testing.assert_allclose(held[:, -1], [[0.5, 0.0], [1.0, 0.0]])


def test_a_station_without_an_operator_refuses_and_says_what_to_set(tmp_path: Path) -> None:
    cache = PolicyCache(tmp_path, PointTask(), 0)
    with pytest.raises(PolicyProblem, match="names no operator: set `operator: browser`"):
        cache.find(PEOPLE)
    assert "names no operator" in cache.alarm
    other = PolicyCache(tmp_path / "other", PointTask(), 0)
    other.has_operator = True
    found = other.find(PEOPLE)
    assert found is not None
    assert found.source == SOURCE_EXPERT
    cache.close()
    other.close()
