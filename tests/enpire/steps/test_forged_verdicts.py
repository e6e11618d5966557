"""A verdict counts only with the arrays that show it, and from the campaign's own verifier."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from enpire.codec import order_fields
from enpire.gate.plausibility import LEAST_KNOWN, known_successes
from enpire.home import Home, open_home
from enpire.lab import StationStatus
from enpire.loop import turn
from enpire.steps import check_episode, record
from enpire.steps.dispatch import dispatch
from enpire.store.arrays import pack, unpack
from enpire.store.ledger import SqliteLedger
from enpire.types import FloatArray, Order, OutcomeKind
from enpire.wire.arrivals import Delivered, Joined
from sim.verifiers.earlier_digests import EARLIER
from tests.enpire.store.store_samples import an_order
from tests.enpire.test_loop import lab_of, lab_seat
from tests.fakes.fake_fleet import FakeFleet, delivered
from tests.fakes.sample_events import append, write


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def ledger(home: Home) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(home.ledger)
    yield opened
    opened.close()


@pytest.mark.parametrize("outcome", ["success", "failure"])
def test_a_verdict_without_the_arrays_that_show_it_is_invalid(
    home: Home, ledger: SqliteLedger, outcome: OutcomeKind
) -> None:
    fleet = FakeFleet(home.versions)
    lab = lab_of(home, ledger, fleet=fleet)
    whole = delivered(an_order(), outcome, 5, "")
    empty, short = delivered(an_order(), outcome, 0, ""), replace(whole, episode=replace(whole.episode, ticks=4))
    bare = replace(whole, episode=replace(whole.episode, sha256=""), arrays_file=b"")
    forged = iter([bare, empty, short])

    def ending(order: Order) -> Delivered:
        kind = next(forged, whole)
        return replace(kind, station=order.station, episode=replace(
            kind.episode, order=order, ran_policy_id=order.policy_id
        ))  # fmt: skip

    fleet.ending = ending
    while len(lab.state.ended) < 4:
        turn(lab)
    causes = [result["cause"] for result in results(ledger) if result["outcome"] == "invalid"]
    assert len(causes) == lab.state.outcomes["invalid"] == 3
    assert sum("without the arrays that show it" in cause for cause in causes) == 2
    assert sum("its arrays have 5 actions, but it reports 4" in cause for cause in causes) == 1
    assert {results(ledger)[3]["outcome"]} == {outcome}


@pytest.mark.parametrize("name", ["state", "action"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_verdict_whose_arrays_are_not_finite_is_invalid(name: str, value: float) -> None:
    came = delivered(an_order(), "success", 5, "")
    arrays = unpack(came.arrays_file)
    spoilt = getattr(arrays, name).copy()
    spoilt[2, 0] = value
    data = pack(replace(arrays, **{name: spoilt}))
    episode = replace(came.episode, sha256=hashlib.sha256(data).hexdigest())
    found = check_episode.sound(replace(came, episode=episode, arrays_file=data))
    assert (found.episode.outcome, found.arrays_file) == ("invalid", b"")
    assert found.episode.cause.startswith(f"its {name}s hold a number that is not finite")
    assert check_episode.sound(came).episode.outcome == "success"


@pytest.mark.parametrize(("ends_at", "tripwires"), [(0.0, ["displacement"]), (1.2, [])])
def test_a_success_that_moved_nothing_is_suspected_when_it_is_stored(
    home: Home, ledger: SqliteLedger, ends_at: float, tripwires: list[str]
) -> None:
    lab, random = lab_of(home, ledger), np.random.default_rng(1)

    def moved(to: float) -> FloatArray:
        return np.linspace(0.0, to, 6, dtype=np.float32)[:, None]

    lab.known, lab.known_due = known_successes([moved(1 + random.random()) for _ in range(LEAST_KNOWN)]), 10**9
    order = replace(lab.scheduler.next_orders(lab.state, lab_seat())[0], purpose="search", policy_id="v" * 64)
    write(lab, ("order issued", {"orders": [order_fields(order)]}))
    came = delivered(order, "success", 5, "")
    data = pack(replace(unpack(came.arrays_file), state=moved(ends_at)))
    episode = replace(came.episode, sha256=hashlib.sha256(data).hexdigest())
    record._store(lab, [replace(came, episode=episode, arrays_file=data)])
    found = [(event.body["tripwire"], event.body["order_id"]) for event in ledger.events(kinds=("episode suspected",))]
    assert found == [(tripwire, order.order_id) for tripwire in tripwires]


def results(ledger: SqliteLedger, kind: str = "orders ended") -> list[dict[str, str]]:
    """The results of all orders, in the order in which they were written."""
    ended = ledger.events(kinds=(kind,))
    return [result for event in ended for result in cast("list[dict[str, str]]", event.body["episodes"])]


def test_a_verdict_of_another_verifier_is_invalid_and_counts_nowhere(home: Home, ledger: SqliteLedger) -> None:
    append(ledger, [("campaign started", {"campaign_id": "C1", "name": "coin", "verifier": "own"})])
    lab = lab_of(home, ledger)
    reports = [{"verifier": "own"}, {"verifier": "another"}, {}]
    for number, facts in enumerate(reports):
        name = f"station-{number}"
        lab.stations[name] = StationStatus(name=name, lanes=1, lease=1, facts=facts)
        for outcome in ("success", "failure", "unsafe", "aborted"):
            [order, *_] = lab.scheduler.next_orders(lab.state, lab_seat())
            order = replace(order, station=name)
            write(lab, ("order issued", {"orders": [order_fields(order)]}))
            record._store(lab, [delivered(order, outcome, 5, "")])
    kept = [result["outcome"] for result in results(ledger)]
    assert kept == ["success", "failure", "unsafe", "aborted", *(["invalid"] * 3 + ["aborted"]) * 2]
    assert {lab.state.outcomes[kind] for kind in ("success", "failure", "unsafe")} == {1}
    assert len(lab.state.data.rows) == 3, "only the episodes of the first station are learned from"
    assert "reports the verifier another, and the campaign has the verifier own" in results(ledger)[4]["cause"]
    assert "reports the verifier none" in results(ledger)[8]["cause"]


def test_a_late_verdict_is_compared_with_the_verifiers_of_its_own_campaign(home: Home, ledger: SqliteLedger) -> None:
    before, updated = EARLIER["push_t"].before, EARLIER["push_t"].now
    append(ledger, [("campaign started", {"campaign_id": "C0", "name": "coin", "verifier": before})])
    earlier = [("campaign resumed", {"campaign_id": "C0", "verifier": "first"})]
    append(ledger, [*earlier, ("campaign resumed", {"campaign_id": "C0", "verifier": "second"})])
    append(ledger, [("campaign resumed", {"campaign_id": "C0", "verifier": ""})])
    append(ledger, [("campaign started", {"campaign_id": "C1", "name": "coin", "verifier": "third"})])
    lab = lab_of(home, ledger)
    lab.state.campaign_id, lab.state.verifier = "C1", "third"
    wanted = [("second", "first", before), ("third",), ()]
    assert [lab.records.verifiers(campaign) for campaign in ("C0", "C1", "C2")] == wanted
    for number, verifier in enumerate(("first", "second", before, updated, "third", "")):
        lab.stations["one"] = StationStatus(name="one", lanes=1, lease=1, facts={"verifier": verifier})
        order = replace(an_order(), order_id=f"late-{number}", campaign_id="C0", station="one")
        append(ledger, [("order issued", {"campaign_id": "C0", "orders": [order_fields(order)]})])
        unknown = check_episode.unfinished(order, "unknown", "away")
        ledger.append([record.OrdersEnded(results=(record.result_of(unknown),))], "C0")
        record._store(lab, [delivered(order, "success", 5, "")])
    found = [result["outcome"] for result in results(ledger, "orders found")]
    assert found == [*["success"] * 4, "invalid", "invalid"]


def test_a_verdict_from_before_a_resume_counts_in_its_own_campaign(home: Home, ledger: SqliteLedger) -> None:
    append(ledger, [("campaign started", {"campaign_id": "C1", "name": "coin", "verifier": "first"})])
    append(ledger, [("campaign resumed", {"campaign_id": "C1", "verifier": "second"})])
    lab = lab_of(home, ledger)
    lab.state.verifier = "second"
    for number, verifier in enumerate(("first", "second", "third")):
        name = f"station-{number}"
        lab.stations[name] = StationStatus(name=name, lanes=1, lease=1, facts={"verifier": verifier})
        [order, *_] = lab.scheduler.next_orders(lab.state, lab_seat())
        order = replace(order, station=name)
        write(lab, ("order issued", {"orders": [order_fields(order)]}))
        record._store(lab, [delivered(order, "success", 5, "")])
    assert [result["outcome"] for result in results(ledger)] == ["success", "success", "invalid"]


@pytest.mark.parametrize(("reported", "takes_orders"), [("own", True), ("another", False)])
def test_a_station_with_another_verifier_gets_no_order_and_its_operator_is_called(
    home: Home, ledger: SqliteLedger, reported: str, takes_orders: bool
) -> None:
    append(ledger, [("campaign started", {"campaign_id": "C1", "name": "coin", "verifier": "own"})])
    lab = lab_of(home, ledger)
    joined = Joined(station="one", lanes=4, lease=1, running=(), spooled=(), facts={"verifier": reported})
    record._joined(lab, joined)
    dispatch(lab)
    assert {order.station for order in lab.state.open.values()} == ({"one"} if takes_orders else set())
    alarms = [str(event.body["alarm"]) for event in ledger.events(kinds=("person needed",))]
    assert len(alarms) == (not takes_orders)
    assert not alarms or "Its verifier differs from the campaign's verifier" in alarms[0]
