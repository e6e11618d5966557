"""A gate, a measure and a confirmation go on while one station cannot do its part; nothing is left out for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from enpire.campaign import Budget, Rounds
from enpire.fleet.arrivals import Arrival, Beat
from enpire.home import Home, open_home
from enpire.loop import run
from enpire.recompute import recompute
from enpire.store.ledger import SqliteLedger
from enpire.store.records import order_from
from enpire.types import Order
from tests.enpire.pretend_fleet import PretendFleet
from tests.enpire.test_loop import CAMPAIGN, lab_of


@dataclass
class HalfStopped(PretendFleet):
    """Station `two` does one side of the pairs that it gets, and is stopped before the other begins, for good."""

    waiting: dict[str, Order] = field(default_factory=dict[str, Order])
    stopped: bool = False

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        waiting = {(order.pair, order.gate_id) for order in self.held.values() if order.side == "champion"}
        there = [order for order in self.held.values() if (order.station, order.side) == ("two", "candidate")]
        self.waiting = {order.order_id: self.held.pop(order.order_id) for order in there}
        self.stopped |= any((order.pair, order.gate_id) not in waiting for order in there)
        arrivals = super().poll(timeout_s)
        self.held |= self.waiting
        return arrivals

    def _beat(self, name: str, index: int) -> Beat:
        said = super()._beat(name, index)
        return replace(said, queued=len(self.waiting), stopped=self.stopped) if name == "two" else said


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(open_home(tmp_path / "home").ledger)
    yield opened
    opened.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def test_what_waits_at_a_station_that_is_stopped_is_done_by_others(home: Home, ledger: SqliteLedger) -> None:
    campaign = replace(CAMPAIGN, rounds=Rounds(episodes=10), budget=Budget(wall_s=60, rounds=1))
    run(lab_of(home, ledger, campaign, HalfStopped(home.versions)))
    [decided] = ledger.events(kinds=("gate decided",))
    assert decided.body["decision"] != "continue"
    stations: dict[tuple[int, str], list[str]] = {}
    for event in ledger.events(kinds=("order issued",)):
        for item in cast("list[dict[str, object]]", event.body["orders"]):
            order = order_from(item)
            stations.setdefault((order.pair, order.side), []).append(order.station)
    elsewhere = [pair for (pair, side), names in stations.items() if side == "candidate" and names[0] != names[-1]]
    assert elsewhere
    assert [stations[pair, "champion"] for pair in elsewhere].count(["two"]), "what was done there is not done twice"
    assert [check for check in recompute(ledger) if not check.equal] == []
