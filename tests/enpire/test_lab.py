"""Hidden starts depend on the home's secret, the campaign, the split and the gate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.campaign import Campaign, Stations
from enpire.campaign.state import OpenGate
from enpire.home import open_home
from enpire.lab import Lab
from enpire.scheduling.scheduler import FreeStation
from enpire.store.ledger import SqliteLedger
from enpire.types import Split
from tests.enpire.test_loop import CAMPAIGN, lab_of

LOCKSTEP = replace(
    CAMPAIGN,
    stations=Stations(count=2, lanes=4, ahead=8),
    rounds=replace(CAMPAIGN.rounds, lockstep=True, hard_starts=0.0),
)
BOTH = pytest.mark.parametrize("campaign", [CAMPAIGN, LOCKSTEP], ids=["free", "lockstep"])


@contextmanager
def a_lab(home: Path, campaign: Campaign = CAMPAIGN, campaign_id: str = "C1") -> Iterator[Lab]:
    """The lab of a campaign in this home, which may exist."""
    opened = open_home(home)
    ledger = SqliteLedger(opened.ledger)
    lab = lab_of(opened, ledger, campaign)
    lab.state.campaign_id = campaign_id
    try:
        yield lab
    finally:
        ledger.close()


def starts(
    home: Path, campaign: Campaign = CAMPAIGN, campaign_id: str = "C1", split: Split = "holdout", scope: str = "G1"
) -> list[tuple[float, ...]]:
    """The first five starts of a split."""
    with a_lab(home, campaign, campaign_id) as lab:
        return [lab.start(split, index, scope).values for index in range(5)]


@BOTH
def test_two_homes_share_no_hidden_start(tmp_path: Path, campaign: Campaign) -> None:
    assert not set(starts(tmp_path / "one", campaign)) & set(starts(tmp_path / "other", campaign))


@BOTH
def test_two_gates_share_no_hidden_start_and_a_confirmation_none_with_them(tmp_path: Path, campaign: Campaign) -> None:
    first, second = starts(tmp_path, campaign, scope="G1"), starts(tmp_path, campaign, scope="G2")
    assert len(set(first + second)) == 10
    assert not set(starts(tmp_path, campaign, split="confirm", scope="G1")) & set(first)


def test_a_home_that_is_opened_again_gives_the_same_starts(tmp_path: Path) -> None:
    assert starts(tmp_path) == starts(tmp_path)


def test_only_in_lockstep_a_repeated_campaign_has_the_same_hidden_starts(tmp_path: Path) -> None:
    assert not set(starts(tmp_path, campaign_id="C1")) & set(starts(tmp_path, campaign_id="C2"))
    again = starts(tmp_path, LOCKSTEP, "C1")
    assert again == starts(tmp_path, LOCKSTEP, "C2")
    assert not set(again) & set(starts(tmp_path, replace(LOCKSTEP, seed=LOCKSTEP.seed + 1)))


@BOTH
def test_the_orders_of_two_gates_begin_from_different_hidden_starts(tmp_path: Path, campaign: Campaign) -> None:
    seen: list[set[tuple[float, ...]]] = []
    with a_lab(tmp_path, campaign) as lab:
        lab.state.champion, lab.state.base_measured = "a" * 64, True
        for k in (1, 2):
            gate = OpenGate(gate_id=f"G{k}", champion="a" * 64, candidate="b" * 64, round=k, k=k, level=0.03)
            lab.state.gates = {gate.gate_id: gate}
            station = campaign.stations.names[0] if campaign.stations.count else "s"
            orders = lab.scheduler.next_orders(lab.state, FreeStation(station, 1, 8))
            trials = [order for order in orders if order.purpose == "gate"]
            assert {order.start.split for order in trials} == {"holdout"}
            seen.append({order.start.values for order in trials})
    assert min(map(len, seen)) > 1
    assert not seen[0] & seen[1]
