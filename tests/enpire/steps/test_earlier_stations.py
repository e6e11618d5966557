"""Stations of earlier versions do not know all purposes of rollouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from enpire.campaign.acceptance import EARLIER_PURPOSES, for_station
from enpire.home import Home, open_home
from enpire.loop import run
from enpire.queries.decision_audit import recompute
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.types import Order
from enpire.wire.arrivals import Delivered
from tests.enpire.test_loop import kinds, lab_of
from tests.fakes.fake_fleet import FakeFleet


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def test_episodes_of_stations_that_do_not_know_extra_rollouts_count_under_the_issued_order(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    fleet = FakeFleet(home.versions)
    lab = lab_of(home, ledger, fleet=fleet)
    extra: list[str] = []

    def finish(order: Order) -> Delivered:
        if order.purpose == "extra":
            extra.append(order.order_id)
        return FakeFleet.finish(fleet, for_station(order, EARLIER_PURPOSES))

    fleet.ending = finish
    assert run(lab).reached
    assert extra
    assert "episode refused" not in kinds(ledger)
    stored = [FolderStore(home.episodes).facts(FolderStore(home.episodes).folder(one)) for one in extra]
    assert {episode.order.purpose for episode in stored} == {"extra"}
    assert all(check.equal for check in recompute(ledger))
    ledger.close()
