"""The wall clock jumps: no deadline moves, no order of events changes, no duration is wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from enpire.codec import order_fields
from enpire.home import open_home
from enpire.ids import Mint, is_id
from enpire.queries.campaign_history import History
from enpire.steps import record as step
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from tests.enpire.test_loop import lab_of, lab_seat
from tests.fakes.fake_fleet import FakeFleet
from tests.fakes.sample_events import append, write

HOUR_S = 3600.0


class Clocks:
    """A monotonic clock, and a wall clock that is set while the test runs."""

    def __init__(self) -> None:
        self.now_s, self.wall_s = 50.0, 1.7e9

    def monotonic(self) -> float:
        return self.now_s

    def wall_ns(self) -> int:
        return int((self.wall_s + self.now_s) * 1e9)


def jumps(seed: int) -> Callable[[], int]:
    """A wall clock that changes by up to an hour at every reading."""
    draw = random.Random(seed)
    return lambda: int(1.7e18 + draw.uniform(-HOUR_S, HOUR_S) * 1e9)


@pytest.mark.parametrize("count", [500, pytest.param(10000, marks=pytest.mark.slow)])
def test_events_keep_their_order_and_verify_with_any_wall_clock(tmp_path: Path, count: int) -> None:
    path = tmp_path / "ledger.db"
    with closing(SqliteLedger(path, wall_ns=jumps(1))) as ledger:
        for number in range(count):
            append(ledger, [("note", {"campaign_id": f"c{number * 3 // count}", "number": number})])
        stamps = [event.stamp_ns for event in ledger.events()]
        assert sum(a > b for a, b in pairwise(stamps)) > count // 4, "the clock did jump"
        assert [event.body["number"] for event in ledger.events()] == list(range(count))
        assert ledger.verify() == count
        reading = Reading(ledger.database)
        assert [event.body["number"] for event in reading.tail(3)] == list(range(count - 3, count))
        assert [span.campaign_id for span in reading.campaigns()] == ["c2", "c1", "c0"]


def test_ids_rise_when_the_wall_clock_is_set_back() -> None:
    made = [mint() for mint in [Mint(jumps(2))] for _ in range(2000)]
    assert made == sorted(set(made))
    assert all(map(is_id, made))


def test_no_deadline_of_the_loop_moves_with_the_wall_clock(tmp_path: Path) -> None:
    clocks = Clocks()
    home = open_home(tmp_path / "home")
    with closing(SqliteLedger(home.ledger, wall_ns=clocks.wall_ns)) as ledger:
        lab = lab_of(home, ledger, fleet=FakeFleet(home.versions, names=()))
        lab.clock, lab.began_s = clocks.monotonic, clocks.monotonic()
        orders = lab.scheduler.next_orders(lab.state, lab_seat())
        write(lab, ("order issued", {"orders": [order_fields(order) for order in orders]}))
        assert not lab.due("something", 10.0)
        for hours in (1.0, -2.0, 24.0):
            clocks.wall_s += hours * HOUR_S
            clocks.now_s += 3.0
            step.record(lab)
            assert len(lab.state.open) == len(orders), "an hour on the wall clock ends no order"
        assert not lab.due("something", 10.0)
        assert lab.elapsed_s() == pytest.approx(9.0)
        clocks.now_s += step.SILENT_S
        clocks.wall_s -= 48 * HOUR_S
        step.record(lab)
        assert not lab.state.open
        assert lab.due("something", 10.0)


def test_durations_of_a_campaign_use_the_orchestrators_monotonic_clock(tmp_path: Path) -> None:
    clocks = Clocks()
    with closing(SqliteLedger(tmp_path / "ledger.db", wall_ns=clocks.wall_ns)) as ledger:
        body = {"campaign_id": "c"}
        append(ledger, [("campaign started", {**body, "name": "n"})])
        for number in range(20):
            clocks.now_s += 5.0
            clocks.wall_s += (HOUR_S, -HOUR_S, 0.0)[number % 3]
            append(ledger, [("robot time", {**body, "stations": {}, "wall_s": 5.0 * (number + 1), "robot_s": 0.0})])
        clocks.now_s += 1.0
        clocks.wall_s += 24 * HOUR_S
        append(ledger, [("deployed", {**body, "policy_id": "p"})])
        past = History("c")
        for event in ledger.events():
            past.apply(event)
    assert past.wall_s == 100.0
    assert 100.0 <= past.champions[0][0] <= 110.0
