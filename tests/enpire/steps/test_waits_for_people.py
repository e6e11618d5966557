"""Robots that wait for a person: the wait ends when no demonstration is missing, or the station takes no orders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.campaign import Base, Stations
from enpire.home import open_home
from enpire.lab import Lab, StationStatus
from enpire.steps.dispatch import dispatch
from enpire.store.ledger import SqliteLedger
from enpire.types import Order
from enpire.wire.arrivals import Heartbeat
from tests.enpire.test_loop import CAMPAIGN, lab_of
from tests.fakes.fake_fleet import FakeFleet
from tests.fakes.sample_events import write

BY_PEOPLE = replace(
    CAMPAIGN, base=Base(demonstrations=1, demonstrators="people"), stations=Stations(operator="browser")
)  # fmt: skip


class Releases(FakeFleet):
    """A fleet that notes what it is asked to release."""

    def release(self, station: str, order_ids: list[str]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.released: list[tuple[str, list[str]]] = [*getattr(self, "released", []), (station, list(order_ids))]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Two stations with a person each, one demonstration is missing, and both robots wait."""
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger, BY_PEOPLE, Releases(home.versions, names=("one", "two")))
    lab.clock = lambda: 100.0
    for name in ("one", "two"):
        lab.stations[name] = StationStatus(name=name, lease=1, lanes=1, facts={})
        beat(lab, name)
    dispatch(lab)
    beat(lab, "one", waits=True)
    dispatch(lab)
    beat(lab, "two", waits=True)
    assert {order.station for order in lab.state.open.values()} == {"one", "two"}
    lab.last_done_s.clear()
    yield lab
    ledger.close()


def order_of(lab: Lab, station: str) -> Order:
    return next(order for order in lab.state.open.values() if order.station == station)


def beat(lab: Lab, name: str, *, waits: bool = False, begun: bool = False, paused: bool = False) -> None:
    mine = tuple(order.order_id for order in lab.state.open.values() if order.station == name)
    lab.stations[name].last_heartbeat = Heartbeat(
        station=name, lease=1, phase="wait-person", seconds={}, queued=0, running=len(mine), deployed="", paused=paused,
        waits_for_person=mine if waits else (), person_moves=mine if begun else (),
    )  # fmt: skip


def released(lab: Lab) -> list[tuple[str, list[str]]]:
    lab.began_s = 0.0
    dispatch(lab)
    return getattr(lab.fleet, "released", [])


def test_robots_wait_while_a_demonstration_is_missing(lab: Lab) -> None:
    assert released(lab) == []
    assert len(lab.state.open) == 2


def test_when_a_person_begins_the_last_one_the_other_waits_end(lab: Lab) -> None:
    beat(lab, "one", begun=True)
    assert released(lab) == [("two", [order_of(lab, "two").order_id])]


def test_a_paused_campaign_ends_every_wait(lab: Lab) -> None:
    write(lab, ("campaign paused", {"by": "ada", "why": ""}))
    assert {name for name, _ in released(lab)} == {"one", "two"}


@pytest.mark.parametrize("kind", ["pause", "service"])
def test_a_station_that_takes_no_orders_gives_its_wait_back_and_another_may_take_it(lab: Lab, kind: str) -> None:
    write(lab, ("command accepted", {"command_id": "K1", "verb": kind, "target": "one", "by": "ada", "reason": "tea"}))
    assert released(lab) == [("one", [order_of(lab, "one").order_id])]
    assert order_of(lab, "two"), "its robot waits on"
