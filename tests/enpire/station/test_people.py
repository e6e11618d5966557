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
from enpire.station.station import Station
from enpire.store import arrays
from enpire.types import PEOPLE, SOURCE_EXPERT, Bounds, FloatArray, MaskArray, Observation, never_began
from enpire.wire.messages import ControlMessage, Orders, Release
from robot_drivers.guard_rules import GuardRules, Ticket
from tests.fakes.point_person import Person
from tests.fakes.point_task import LIMIT, PointRig, PointTask, point_order, point_station

ORDER = replace(point_order(PEOPLE, 3), purpose="demonstrate", supervised=True)
PERSON = LoadedPolicy(policy_id=PEOPLE, policy=HoldStill(PointTask.spec), source=SOURCE_EXPERT)


class WatchedRig(PointRig):
    """A rig whose guard trips when no action comes for three periods, by the lanes' own clock."""

    def __init__(self) -> None:
        super().__init__(PointTask.spec, 1)
        self.now_ns, self.sent, self.largest = 0, 0, 0.0
        self.rules = GuardRules(patience_ns=round(3e9 * PointTask.spec.period_s))
        self.rules.unlatch()
        self.rules.begin(Ticket(lease=1, sequence=0, stamp_ns=0))

    def clock(self) -> float:
        return self.now_ns / 1e9

    def observe(self) -> Observation:
        self.now_ns += round(1e9 * PointTask.spec.period_s)
        assert not self.rules.overdue(self.now_ns), self.rules.tripped
        return super().observe()

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        self.sent, self.largest = self.sent + 1, max(self.largest, float(np.abs(action).max()))
        assert self.rules.admit(Ticket(lease=1, sequence=self.sent, stamp_ns=self.now_ns), self.now_ns) == ""
        return super().act(action, moving)


def demonstrated(moves: Sequence[int], periods: int, rig: WatchedRig | None = None) -> Lanes:
    rig = rig or WatchedRig()
    lanes = Lanes(PointTask(), rig, operator=Person(moves), clock=rig.clock)
    lanes.begin(0, ORDER, PERSON)
    for _ in range(periods):
        if not lanes.busy:
            break
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
    assert lanes.time.phase(0) == "wait-person"


def test_a_guard_hears_of_a_waiting_robot_in_every_period_and_it_does_not_move() -> None:
    rig = WatchedRig()
    lanes = demonstrated([], 10 * LIMIT, rig)
    assert rig.rules.armed
    assert rig.sent >= 10 * LIMIT - 1, "every period after the reset"
    assert lanes.busy
    assert rig.largest == 0.0


def test_neither_the_time_limit_nor_the_duration_counts_the_wait_for_a_person() -> None:
    period_s = PointTask.spec.period_s
    begun = demonstrated(range(50, 500), 52)
    assert begun.overdue(5 * period_s) == [], "the person has just begun"
    assert begun.overdue(0.5 * period_s) == [ORDER.order_id]
    [parcel] = demonstrated(range(50, 500), 200).take_ended()
    took_s = parcel.episode.ended_s - parcel.episode.began_s
    assert took_s == pytest.approx((parcel.episode.ticks + 1) * period_s)


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


def test_a_wait_that_is_released_ends_and_a_demonstration_that_has_begun_does_not() -> None:
    waiting = demonstrated([], 5)
    assert (waiting.by_people(begun=False), waiting.by_people(begun=True)) == ([ORDER.order_id], [])
    assert waiting.moved_by() == PEOPLE
    waiting.end_waits(["another"], "released")
    assert waiting.busy
    waiting.end_waits([ORDER.order_id], "released")
    [parcel] = waiting.take_ended()
    assert never_began(parcel.episode.outcome, parcel.episode.cause), "it goes back, and counts for nobody"
    assert (parcel.arrays_file, waiting.free()) == (b"", [0])
    begun = demonstrated(range(3, 6), 9)
    assert (begun.by_people(begun=False), begun.by_people(begun=True)) == ([], [ORDER.order_id])
    begun.end_waits([ORDER.order_id], "released")
    assert begun.busy, "the person has given the robot back, and the demonstration is not over"


def test_a_paused_station_gives_a_waiting_demonstration_back_and_says_so_in_its_heartbeat(tmp_path: Path) -> None:
    station = Station(
        point_station(tmp_path, lanes=1, operator="tests.fakes.point_person:open_person"), "inproc://nobody", print
    )
    try:
        station._handle(Orders(orders=(ORDER,)))
        station.take_orders()
        for _ in range(3):
            station.sense()
            station._robot.act()
        beat = station._heartbeat(1)
        assert (beat.running, beat.waits_for_person, beat.person_moves) == (1, (ORDER.order_id,), ())
        station._handle(ControlMessage(control="pause", argument="ann"))
        station._handle(Release(order_ids=(ORDER.order_id,)))
        beat = station._heartbeat(1)
        assert (beat.running, beat.waits_for_person, beat.paused) == (0, (), True)
        assert [parcel.episode.cause for parcel in station._lanes.take_ended()] == ["released"]
    finally:
        station.close()
