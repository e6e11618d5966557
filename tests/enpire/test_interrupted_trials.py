"""Interrupted trials of a base measurement and of a confirmation, in the lab's loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from enpire.campaign.state import CampaignState, Confirmation, Count
from enpire.codec import read_order
from enpire.errors import FileProblem
from enpire.gate.trials import REPLACED
from enpire.home import Home, open_home
from enpire.loop import run
from enpire.queries.decision_audit import recompute
from enpire.store.ledger import SqliteLedger
from enpire.types import Order
from enpire.wire.arrivals import Delivered
from tests.enpire.store.store_samples import an_order
from tests.enpire.test_loop import CAMPAIGN, lab_of
from tests.fakes.fake_fleet import FakeFleet, delivered
from tests.fakes.sample_events import append


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.mark.parametrize("version", [2, 3])
def test_a_confirmation_that_is_interrupted_reissues_those_trials_and_is_recomputed_the_same(
    home: Home, version: int
) -> None:
    ledger = SqliteLedger(home.ledger)
    campaign = {"gate": {"version": version}}
    append(ledger, [("campaign started", {"campaign_id": "C1", "name": CAMPAIGN.name, "campaign": campaign})])
    fleet = FakeFleet(home.versions)
    cut: list[Order] = []

    def ending(order: Order) -> Delivered:
        if order.purpose in {"base", "confirm"} and sum(o.purpose == order.purpose for o in cut) < 8:
            cut.append(order)
            return delivered(order, "aborted", 0, "the station left: told to")
        return fleet.finish(order)

    fleet.ending = ending
    end = run(lab_of(home, ledger, fleet=fleet))
    assert end.reached, "sixteen interruptions are not sixteen failures"
    assert {order.purpose for order in cut} == {"base", "confirm"}
    confirmed = next(iter(ledger.events(kinds=("confirmed",)))).body
    assert (confirmed["n"], confirmed["given_again"]) == (30, 8)
    issued = [event.body["orders"] for event in ledger.events(kinds=("order issued",))]
    orders = [read_order(item, FileProblem) for items in issued for item in cast("list[dict[str, object]]", items)]
    starts = [order.start.index for order in orders if order.purpose == "confirm"]
    again = [order.start.index for order in cut if order.purpose == "confirm"]
    repeated = [one for one in set(starts) if starts.count(one) > 1]
    assert repeated == (sorted(again) if version > 2 else []), "each interrupted start is ordered again, and no other"
    assert len(set(starts)) == (30 if version > 2 else 38)
    assert all(check.equal for check in recompute(ledger))
    ledger.close()


def test_a_person_who_stops_a_robot_in_a_confirmation_does_not_take_the_trial_away(home: Home) -> None:
    state = CampaignState(confirmation=Confirmation(policy_id="p" * 64, n=30))
    order = replace(an_order(), purpose="confirm", policy_id="p" * 64)
    for cause in ("stopped by anna", "policy failed: ValueError", "the station left: told to"):
        state.issue(order)
        state.end(delivered(order, "aborted", 0, cause).episode)
    state.end(delivered(replace(order, policy_id="q" * 64), "success", 9, "").episode)
    assert state.confirmation is not None
    assert state.confirmation.ended == Count(0, 2), "and another version's trials are not its own"
    assert state.reissues.trials["p" * 64] == 1
    state.reissues.trials["p" * 64] = REPLACED
    state.end(delivered(order, "aborted", 0, "the station left: told to").episode)
    assert state.confirmation.ended == Count(0, 3), "not without end"
