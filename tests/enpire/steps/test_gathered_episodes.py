"""Episodes wait a moment for others, to be stored with them; none is acknowledged before it is durable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from enpire.campaign.order_events import OrdersIssued
from enpire.home import Home, open_home
from enpire.lab import Lab
from enpire.steps import record as step
from enpire.store.ledger import SqliteLedger
from enpire.types import Order, OutcomeKind
from enpire.wire.arrivals import Delivered, Joined
from tests.enpire.store.store_samples import an_order
from tests.enpire.test_loop import CAMPAIGN, lab_of
from tests.fakes.fake_fleet import FakeFleet, delivered

WAIT_S = 0.2


@dataclass
class Gathering:
    """A lab whose clock a test moves, with a fleet that delivers only what a test takes."""

    lab: Lab
    ledger: SqliteLedger
    now_s: float = 0.0

    def deliver(self, *orders: Order, outcome: OutcomeKind = "success") -> None:
        step.take(self.lab, [delivered(order, outcome, 20, "") for order in orders])

    def issue(self, number: int) -> list[Order]:
        mine = [replace(an_order(), campaign_id="C1", station="one", lease=1) for _ in range(number)]
        self.lab.write(OrdersIssued(orders=tuple(mine)))
        return mine

    @property
    def acknowledged(self) -> list[str]:
        return cast("FakeFleet", self.lab.fleet).acknowledged


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def gathering(home: Home) -> Iterator[Gathering]:
    ledger = SqliteLedger(home.ledger)
    campaign = replace(CAMPAIGN, stations=replace(CAMPAIGN.stations, ahead=8))
    found = Gathering(lab_of(home, ledger, campaign), ledger)
    found.lab.clock, found.lab.began_s, found.lab.gather_s = lambda: found.now_s, 0.0, WAIT_S
    yield found
    ledger.close()


def test_verdicts_wait_for_others_and_are_stored_with_one_event(gathering: Gathering) -> None:
    first, second, third = gathering.issue(3)
    before = gathering.ledger.head.seq
    gathering.deliver(first)
    gathering.now_s += WAIT_S / 2
    gathering.deliver(second)
    assert (gathering.acknowledged, gathering.ledger.head.seq) == ([], before)
    gathering.now_s += WAIT_S / 2
    gathering.deliver(third)
    assert gathering.acknowledged == [first.order_id, second.order_id, third.order_id]
    assert gathering.ledger.head.seq == before + 1
    assert set(gathering.lab.store.ids("C1")) == {first.order_id, second.order_id, third.order_id}


def test_what_waited_long_enough_is_stored_without_another_message(gathering: Gathering) -> None:
    [order] = gathering.issue(1)
    gathering.deliver(order)
    gathering.now_s += WAIT_S
    step.take(gathering.lab, [])
    assert gathering.acknowledged == [order.order_id]


def test_an_episode_that_is_delivered_twice_while_it_waits_counts_once(gathering: Gathering) -> None:
    [order] = gathering.issue(1)
    gathering.deliver(order, order)
    gathering.now_s += WAIT_S
    gathering.deliver(order)
    assert gathering.lab.state.outcomes["success"] == 1
    assert set(gathering.acknowledged) == {order.order_id}


@pytest.mark.parametrize("outcome", ["aborted", "invalid"])
def test_another_end_than_a_verdict_does_not_wait(gathering: Gathering, outcome: OutcomeKind) -> None:
    first, second = gathering.issue(2)
    gathering.deliver(first)
    gathering.deliver(second, outcome=outcome)
    assert gathering.acknowledged == [first.order_id, second.order_id]


def test_nothing_waits_while_the_robots_of_its_station_could_run_out_of_orders(gathering: Gathering) -> None:
    orders = gathering.issue(4)
    gathering.deliver(*orders[:3])
    assert gathering.acknowledged == []
    gathering.deliver(orders[3])
    assert gathering.acknowledged == [order.order_id for order in orders]


def test_what_waits_is_stored_before_the_lost_orders_of_its_station_end(gathering: Gathering) -> None:
    kept, lost = gathering.issue(2)
    gathering.deliver(kept)
    step.take(gathering.lab, [Joined(station="one", lanes=4, lease=2, running=(), spooled=())])
    assert gathering.lab.state.ended == {kept.order_id: "success", lost.order_id: "aborted"}


def test_an_interrupted_session_stores_what_waits(gathering: Gathering) -> None:
    [order] = gathering.issue(1)
    gathering.lab.end_reason = "the test"
    gathering.deliver(order)
    assert gathering.acknowledged == [order.order_id]


def test_what_waited_in_a_killed_process_is_delivered_again_and_counts_once(gathering: Gathering, home: Home) -> None:
    [order] = gathering.issue(1)
    item: Delivered = delivered(order, "success", 20, "")
    step.take(gathering.lab, [item])
    again = lab_of(home, gathering.ledger, gathering.lab.campaign)  # as after kill -9: the memory is gone
    assert order.order_id in again.state.open
    step.take(again, [item])
    assert cast("FakeFleet", again.fleet).acknowledged == [order.order_id]
    assert again.state.outcomes["success"] == 1


def test_messages_that_arrive_while_a_turn_waits_share_that_turn(
    gathering: Gathering, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[Delivered] = []
    polled: list[float] = []

    def poll(timeout_s: float) -> list[Delivered]:
        polled.append(timeout_s)
        return arrived

    def wait(seconds: float) -> None:
        assert seconds == gathering.lab.pace_s
        arrived.extend(delivered(order, "success", 20, "") for order in gathering.issue(2))

    monkeypatch.setattr(gathering.lab.fleet, "poll", poll)
    monkeypatch.setattr(step, "time", SimpleNamespace(sleep=wait))  # other threads sleep as always
    gathering.lab.pace_s = 0.03
    step.record(gathering.lab)
    assert len(gathering.lab.gathered) == 2
    assert polled == [pytest.approx(step.POLL_S - 0.03)], "an idle turn takes as long as without the wait"
