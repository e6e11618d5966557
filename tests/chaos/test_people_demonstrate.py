"""A campaign whose first step is a person: a base is trained from the demonstrations, and the campaign goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from enpire.campaign.gate_events import BaseMeasured
from enpire.campaign.order_events import OrdersEnded, OrdersIssued
from enpire.campaign.training_events import LearnerStarted
from enpire.store import arrays
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.types import PEOPLE, SOURCE_EXPERT
from tests.chaos.harness import Orchestrator
from tests.chaos.point_lab import write_campaign

WANTED = 3


@pytest.mark.slow
def test_a_campaign_begins_with_what_a_person_shows(tmp_path: Path) -> None:
    recipe = str(tmp_path / "files" / "reach.yaml")
    campaign = write_campaign(
        tmp_path / "files", stations=1, rounds={"episodes": 6, "train_starts": 50}, gate={"pairs": 8},
        base={"recipe": recipe, "demonstrations": WANTED, "demonstrators": "people", "evaluate_starts": 4},
        budget={"wall_s": 0, "rounds": 1},
    )  # fmt: skip
    content = yaml.safe_load(campaign.read_text())
    content["stations"] |= {"lanes": 1, "operator": "tests.fakes.point_person:open_person"}
    campaign.write_text(yaml.safe_dump(content))
    home = tmp_path / "home"
    lab = Orchestrator(campaign, home)
    lab.start()
    try:
        assert lab.process is not None
        assert lab.process.wait(600) == 3, lab.said()[-3000:]
    finally:
        lab.kill_all()
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    events = [entry.event for entry in ledger.events()]
    campaign_id = next(iter(ledger.events())).campaign_id
    ledger.close()
    issued = {order.order_id: order for event in events if isinstance(event, OrdersIssued) for order in event.orders}
    ended = {result.order_id: result for event in events if isinstance(event, OrdersEnded) for result in event.results}
    shown = [order for order in issued.values() if order.purpose == "demonstrate"]
    assert {order.policy_id for order in shown} == {PEOPLE}
    good = [order.order_id for order in shown if ended[order.order_id].outcome == "success"]
    assert len(good) == WANTED
    for order_id in good:
        folder = FolderStore(home / "episodes").folder(order_id, campaign_id)
        found = arrays.unpack((folder / "arrays.npz").read_bytes())
        assert (found.source == SOURCE_EXPERT).all()
    first = next(event for event in events if isinstance(event, LearnerStarted))
    assert set(good) <= set(first.episodes)
    assert any(isinstance(event, BaseMeasured) for event in events)
    assert "collect" in {order.purpose for order in issued.values()}
