"""A gate, a measure and a confirmation go on while one station cannot do its part; nothing is left out for that."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from enpire.campaign.campaign import Budget, Rounds, Stations
from enpire.campaign.events import LedgerEntry
from enpire.codec import read_order
from enpire.errors import FileProblem
from enpire.gate.rule import GateRule
from enpire.home import Home, open_home
from enpire.lab import StationStatus
from enpire.loop import run
from enpire.queries.decision_audit import recompute
from enpire.steps.dispatch import dispatch
from enpire.steps.evaluate import why_unloadable
from enpire.store.ledger import SqliteLedger
from enpire.types import Order, never_began
from enpire.wire.arrivals import Arrival, Delivered, Heartbeat
from tests.enpire.store.store_samples import an_order
from tests.enpire.test_loop import CAMPAIGN, lab_of
from tests.fakes import fake_fleet
from tests.fakes.fake_fleet import FakeFleet, delivered
from tests.fakes.sample_events import write


@dataclass
class HalfStopped(FakeFleet):
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

    def _beat(self, name: str, index: int) -> Heartbeat:
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
    rule = GateRule(pairs=200, alpha=1e-6)  # no lucky first pairs end the gate before the station is stopped
    campaign = replace(CAMPAIGN, rounds=Rounds(episodes=10), gate=rule, budget=Budget(wall_s=900, rounds=1))
    run(lab_of(home, ledger, campaign, HalfStopped(home.versions)))
    [decided] = ledger.events(kinds=("gate decided",))
    assert decided.body["decision"] != "continue"
    stations: dict[tuple[int, str], list[str]] = {}
    for event in ledger.events(kinds=("order issued",)):
        for item in cast("list[dict[str, object]]", event.body["orders"]):
            order = read_order(item, FileProblem)
            stations.setdefault((order.pair, order.side), []).append(order.station)
    elsewhere = [pair for (pair, side), names in stations.items() if side == "candidate" and names[0] != names[-1]]
    assert elsewhere
    assert [stations[pair, "champion"] for pair in elsewhere].count(["two"]), "what was done there is not done twice"
    assert [check for check in recompute(ledger) if not check.equal] == []


@pytest.fixture
def sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first candidate always succeeds, so a gate with unlucky pairs cannot hold it."""
    monkeypatch.setattr(fake_fleet, "GAIN_PER_ROUND", 0.7)


@dataclass
class Unable(FakeFleet):
    """Some stations cannot load the versions of one round, and say so at once."""

    unable: tuple[str, ...] = ("two",)
    round: int = 1

    def __post_init__(self) -> None:
        self.ending = self._end

    def _end(self, order: Order) -> Delivered:
        file = self.versions / order.policy_id / "policy.json"
        if order.station in self.unable and file.exists() and json.loads(file.read_text())["round"] == self.round:
            return delivered(order, "aborted", 0, f"refused: policy {order.policy_id[:12]} refused: no module lerobot")
        return self.finish(order)


@pytest.mark.usefixtures("sure")
def test_a_station_that_cannot_load_the_candidate_costs_it_nothing(home: Home, ledger: SqliteLedger) -> None:
    campaign = replace(CAMPAIGN, gate=GateRule(pairs=200, alpha=0.001), budget=Budget(wall_s=900, rounds=1))
    lab = lab_of(home, ledger, campaign, Unable(home.versions))
    run(lab)
    [decided] = ledger.events(kinds=("gate decided",))
    assert (decided.body["decision"], decided.body["reason"]) == ("promote", "better")
    [called] = ledger.events(kinds=("person needed",))
    assert called.body["station"] == "two"
    assert "cannot run version" in str(called.body["alarm"])
    assert "no module lerobot" in str(called.body["alarm"])
    assert lab.stations["two"].episodes > 30, "it goes on with what it can do"
    assert [check for check in recompute(ledger) if not check.equal] == []


@pytest.mark.usefixtures("sure")
def test_in_lockstep_others_take_the_turns_of_a_station_that_cannot_load_the_candidate(
    home: Home, ledger: SqliteLedger
) -> None:
    stations, rounds = Stations(count=3, lanes=4, ahead=8), replace(CAMPAIGN.rounds, hard_starts=0.0, lockstep=True)
    campaign = replace(CAMPAIGN, stations=stations, rounds=rounds, budget=Budget(wall_s=900, rounds=1))
    lab = lab_of(home, ledger, campaign, Unable(home.versions, names=stations.names, unable=stations.names[1:2]))
    lab.clock = lambda: time.monotonic() / 100  # on a slow computer, the wait after a refusal ends in no test
    lab.began_s = lab.clock()
    run(lab)
    [decided] = ledger.events(kinds=("gate decided",))
    assert (decided.body["decision"], decided.body["reason"]) == ("promote", "better")
    assert lab.stations[stations.names[1]].load_backoff.versions[str(decided.body["candidate"])].times == 1
    assert [check for check in recompute(ledger) if not check.equal] == []


def test_in_lockstep_a_refusal_takes_the_turns_only_until_the_station_is_asked_again(
    home: Home, ledger: SqliteLedger
) -> None:
    stations, rounds = Stations(count=2, lanes=4, ahead=8), replace(CAMPAIGN.rounds, hard_starts=0.0, lockstep=True)
    lab = lab_of(home, ledger, replace(CAMPAIGN, stations=stations, rounds=rounds), FakeFleet(home.versions))
    refused = delivered(an_order(), "aborted", 0, "refused: the link broke").episode
    lab.state.base_measured, lab.state.champion = True, refused.order.policy_id
    for name, time_s in zip(stations.names, (100.0, 10.0), strict=True):
        lab.stations[name] = StationStatus(name=name, lanes=4, lease=1, facts={})
        lab.stations[name].take_episode(refused, time_s)
    lab.clock = lambda: 101.0
    dispatch(lab)
    assert {order.station for order in lab.state.open.values()} == {stations.names[1]}


def _items(event: LedgerEntry) -> list[object]:
    return cast("list[object]", event.body["episodes"])


def test_the_base_is_measured_where_it_can_be_loaded(home: Home, ledger: SqliteLedger) -> None:
    campaign = replace(CAMPAIGN, budget=Budget(wall_s=900, rounds=8))
    lab = lab_of(home, ledger, campaign, Unable(home.versions, round=0))
    lab.tick = lambda: setattr(lab, "end_reason", "seen" if lab.state.base_measured else "")
    run(lab)
    [measured] = ledger.events(kinds=("base measured",))
    assert measured.body["n"] == 20
    ended = [cast("dict[str, str]", item) for event in ledger.events(kinds=("orders ended",)) for item in _items(event)]
    refused = [item for item in ended if item["cause"].startswith("refused")]
    assert 0 < len(refused) < 20, "what it cannot do is not asked of it again and again"
    assert [check for check in recompute(ledger) if not check.equal] == []


def test_a_candidate_that_no_station_can_load_ends_with_a_sentence(home: Home, ledger: SqliteLedger) -> None:
    campaign = replace(CAMPAIGN, budget=Budget(wall_s=0, rounds=1))
    fleet = Unable(home.versions, names=("one", "two"), unable=("one", "two"))
    lab = lab_of(home, ledger, campaign, fleet)
    lab.clock = lambda: time.monotonic() * 30
    lab.began_s = lab.clock()
    assert not run(lab).reached
    [decided] = ledger.events(kinds=("gate decided",))
    assert (decided.body["decision"], decided.body["reason"]) == ("hold", "unloadable")
    assert "No station can run the candidate: " in str(decided.body["why"])
    assert "no module lerobot" in str(decided.body["why"])
    assert [check for check in recompute(ledger) if not check.equal] == []


@pytest.mark.parametrize("there", ["works", "is paused", "is away"])
def test_a_candidate_is_unloadable_when_everybody_here_refused_it(home: Home, ledger: SqliteLedger, there: str) -> None:
    lab = lab_of(home, ledger, CAMPAIGN, FakeFleet(home.versions))
    for name in ("one", "two"):
        lab.stations[name] = StationStatus(name=name, lanes=4, lease=1, facts={})
    refused = delivered(an_order(), "aborted", 0, "refused: no module lerobot").episode
    for time_s in (0.0, 100.0, 1000.0):
        lab.stations["one"].take_episode(refused, time_s)
    other = lab.stations["two"]
    if there == "is paused":
        write(lab, ("command accepted", {"verb": "pause", "station": "two", "by": "anna"}))
    elif there == "is away":
        other.away_since_s = 0.0
    assert bool(why_unloadable(lab, refused.order.policy_id)) == (there == "is away")


def test_only_what_never_began_counts_for_nobody() -> None:
    assert never_began("aborted", "refused: policy abc refused: no module lerobot")
    for cause in ("policy failed to begin: RuntimeError: refused: it", "policy failed: refused", "robot: refused"):
        assert not never_began("aborted", cause)
    assert not never_began("failure", "refused: by the verifier")
