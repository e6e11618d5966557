"""What a station did while nobody heard it is found when it is back: kept once, and no decision changes behind us."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from enpire.campaign.agent_events import ExperimentSubmitted
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.order_events import LateResults
from enpire.campaign.recipe import Recipe
from enpire.campaign.state import Confirmation
from enpire.codec import order_fields, result_of
from enpire.gate.intervals import wilson
from enpire.gate.rule import GateRule, level
from enpire.home import open_home
from enpire.lab import Lab, StationStatus
from enpire.queries.decision_audit import recompute
from enpire.steps import record as step
from enpire.steps.ending import ending, shut_down
from enpire.steps.evaluate import evaluate
from enpire.store.arrays import pack
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.reconcile import compare
from enpire.store.search_rows import search_rows
from enpire.types import EpisodeArrays, Order, OutcomeKind, Purpose, Split
from enpire.wire.arrivals import Arrival, Delivered, Heartbeat, Joined, Left
from tests.enpire.test_loop import lab_of, lab_seat
from tests.fakes.fake_fleet import FakeFleet, delivered
from tests.fakes.sample_events import append, write

POLICY = "p" * 64


@dataclass
class SilentFleet(FakeFleet):
    """Says only what the test puts into its mouth."""

    says: tuple[Arrival, ...] = ()

    def poll(self, timeout_s: float) -> tuple[Arrival, ...]:
        said, self.says = self.says, ()
        return said


@dataclass
class Away:
    """A laboratory whose one station is away, with the orders that it took along."""

    lab: Lab
    fleet: SilentFleet
    ledger: SqliteLedger

    def take(self, purpose: Purpose, count: int = 4, **more: object) -> list[Order]:
        splits: dict[str, Split] = {"base": "holdout", "gate": "holdout", "confirm": "confirm"}
        orders: list[Order] = []
        for index in range(count):
            [order, *_] = self.lab.scheduler.next_orders(self.lab.state, lab_seat())
            start = self.lab.start(splits.get(purpose, "train"), index)
            pair = index if purpose == "gate" else -1
            order = replace(order, purpose=purpose, policy_id=POLICY, start=start, side="", gate_id="", pair=pair)
            orders.append(replace(order, **more))  # pyright: ignore[reportArgumentType]
        write(self.lab, ("order issued", {"orders": [order_fields(order) for order in orders]}))
        return orders

    def wait(self) -> None:
        self.lab.began_s = time.monotonic() - step.SILENT_S - 1.0
        step.record(self.lab)
        assert not self.lab.state.open

    def hear(self, *said: Arrival) -> None:
        self.fleet.says = said
        step.record(self.lab)

    def count(self, kind: str) -> int:
        return sum(1 for _ in self.ledger.events(kinds=(kind,)))

    def sound(self) -> None:
        """The records agree with each other, whichever way they are read."""
        self.ledger.verify()
        assert rebuilt(self.ledger, self.lab.state.campaign_id) == self.lab.state
        assert compare(Reading(self.ledger.database), self.lab.store, deep=True).none
        assert [check.sentence for check in recompute(self.ledger) if not check.equal] == []


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Away]:
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    fleet = SilentFleet(home.versions, names=())
    yield Away(lab_of(home, ledger, fleet=fleet), fleet, ledger)
    ledger.close()


def told(order: Order, outcome: OutcomeKind = "success", cause: str = "") -> Delivered:
    return delivered(order, outcome, 7 if not cause else 0, cause)


def test_data_of_a_station_that_comes_back_late_is_kept_once_and_learned_from(away: Away) -> None:
    orders = away.take("collect")
    away.wait()
    assert set(away.lab.state.ended.values()) == {"unknown"}
    away.hear(*map(told, orders[:3]))
    away.hear(told(orders[0]), told(orders[1], "failure"), told(orders[3]), told(orders[3]))
    assert away.fleet.acknowledged == [order.order_id for order in [*orders[:3], orders[0], orders[3], orders[3]]]
    assert away.fleet.refused == [orders[1].order_id]
    assert (
        away.lab.state.data.fresh(orders[0].policy_id)
        == len(away.lab.state.data.rows)
        == away.lab.state.outcomes["success"]
        == 4
    )
    assert (away.count("orders found"), away.count("episode refused")) == (2, 1)
    row = Reading(away.ledger.database).order(orders[0].order_id)
    assert row is not None
    assert row.episode is not None
    assert row.episode.outcome == "success"
    found = next(iter(away.ledger.events(kinds=("orders found",))))
    assert row.found_seq == found.seq
    assert row.ended_seq is not None
    assert row.issued_seq < row.ended_seq < found.seq
    assert away.lab.store.get(orders[3].order_id).arrays is not None
    ends = Reading(away.ledger.database).ends(away.lab.state.campaign_id)
    assert (ends.started, ends.success, ends.unknown) == (4, 4, 0)
    away.sound()


def test_what_a_gate_counted_as_unknown_stays_so_and_the_episodes_are_kept(away: Away) -> None:
    rule = GateRule(pairs=2, early_hold=False)
    away.lab.campaign = replace(away.lab.campaign, gate=rule)
    sides = {"gate_id": "g", "champion": POLICY, "candidate": POLICY, "round": 1}
    figures = {"k": 1, "promoted": 0, "alpha": level(rule.alpha, 1, 0), "rule": asdict(rule)}
    write(away.lab, ("gate opened", {**sides, **figures}))
    orders = [*away.take("gate", 2, gate_id="g", side="champion"), *away.take("gate", 2, gate_id="g", side="candidate")]
    away.wait()
    away.hear(told(orders[0]))
    evaluate(away.lab)
    away.hear(*map(told, orders[1:]))
    [decided] = [event.body for event in away.ledger.events(kinds=("gate decided",))]
    assert (decided["decision"], decided["reason"], decided["neither"]) == ("hold", "spent", 2)
    assert POLICY not in away.lab.state.forecast.trials  # a version's record is of verdicts alone
    assert set(away.lab.state.ended.values()) == {"success"}
    [sums] = [check for check in recompute(away.ledger) if check.kind == "sum of orders"]
    assert "4 late results, 4 of them stay as their gate counted" in sums.sentence
    assert all(away.lab.store.get(order.order_id).arrays is not None for order in orders)
    away.sound()


def test_a_confirmation_and_the_base_are_read_once_so_they_take_what_is_found_before(away: Away) -> None:
    state = away.lab.state
    write(away.lab, ("confirm opened", {"policy_id": POLICY, "n": 4, "goal": 0.5}))
    confirming, base = away.take("confirm"), away.take("base", 2)
    away.wait()
    assert isinstance(state.confirmation, Confirmation)
    assert (state.confirmation.ended.successes, state.confirmation.ended.n) == (0, 4)
    released = told(confirming[3], "aborted", "released")
    away.hear(told(confirming[0]), told(confirming[1]), told(confirming[2], "failure"), released, told(base[0]))
    assert (state.confirmation.ended.successes, state.confirmation.ended.n) == (2, 3)
    assert (state.base.successes, state.base.n) == (1, 2)
    away.sound()
    n = {"policy_id": POLICY, "successes": 1, "n": 2}
    write(away.lab, ("base measured", {**n, "low": wilson(1, 2).low, "high": wilson(1, 2).high}))
    away.hear(told(base[1]))
    assert (state.base.successes, state.base.n) == (1, 2), "what was read stays as it was read"
    away.sound()


def test_nothing_begins_any_more_under_an_order_that_has_ended(away: Away) -> None:
    orders = away.take("collect")
    away.wait()
    away.fleet.held = {order.order_id: order for order in orders[2:]}
    held = tuple(order.order_id for order in orders)
    away.hear(Joined(station="one", lanes=4, lease=9, running=held[1:], spooled=held[:1]))
    assert away.fleet.held == {}
    away.hear(*away.fleet.unacknowledged.values(), told(orders[0]), told(orders[1], "failure"))
    assert [away.lab.state.ended[order_id] for order_id in held] == ["success", "failure", "aborted", "aborted"]
    away.sound()


def test_an_episode_of_an_earlier_campaign_is_kept_under_that_campaign(away: Away) -> None:
    orders = away.take("collect", 3)
    write(away.lab, ("campaign ended", {"reached": False, "reason": "the test"}))
    away.lab.began_s -= step.SILENT_S + 1.0
    shut_down(away.lab)
    assert [away.lab.state.ended[order.order_id] for order in orders] == ["unknown"] * 3
    append(away.ledger, [("campaign started", {"campaign_id": "C2", "name": "next"})])
    earlier, away.lab.state = away.lab.state.campaign_id, rebuilt(away.ledger, "C2")
    away.hear(told(orders[0]), told(orders[1], "failure"))
    away.hear(told(orders[0]))
    assert Reading(away.ledger.database).ends(earlier).success == 1
    assert rebuilt(away.ledger, earlier).outcomes == {"success": 1, "failure": 1, "unknown": 1}
    assert not away.lab.state.ended
    assert away.count("episode refused") == 0
    away.sound()


def test_a_file_without_its_row_is_recorded_again_at_the_next_start(away: Away) -> None:
    [order] = away.take("collect", 1)
    away.wait()
    kept = told(order)
    away.lab.store.put(kept.episode, kept.arrays_file)
    assert compare(Reading(away.ledger.database), away.lab.store).unrecorded == (order.order_id,)


def test_files_that_cannot_be_read_end_their_order_and_nothing_else(away: Away) -> None:
    orders = away.take("collect", 3)
    wide = np.zeros((4, 2), np.float32)
    others = EpisodeArrays(state=wide, action=wide[1:], source=np.zeros(3, np.uint8), chunk=np.zeros(3, np.int32))
    files = {orders[0]: b"no arrays at all", orders[1]: pack(others)}
    for order, data in files.items():
        came = told(order)
        episode = replace(came.episode, sha256=hashlib.sha256(data).hexdigest())
        away.hear(replace(came, episode=episode, arrays_file=data))
    away.hear(told(orders[2]))
    ended = [away.lab.state.ended[order.order_id] for order in orders]
    assert ended == ["invalid", "invalid", "success"]
    assert away.fleet.acknowledged == [order.order_id for order in orders]
    away.sound()


def test_a_second_recording_under_the_same_order_is_refused_and_the_first_kept(away: Away) -> None:
    [order] = away.take("collect", 1)
    first, second = told(order), told(order, "failure")
    assert first.episode.sha256
    second = replace(second, episode=replace(second.episode, sha256=""), arrays_file=b"")
    away.lab.store.put(first.episode, first.arrays_file)
    away.hear(second)
    assert order.order_id in away.lab.state.open
    assert away.count("episode refused") == 1
    away.hear(first)
    assert away.lab.state.ended[order.order_id] == "success"
    away.sound()


@pytest.mark.parametrize("brought", [4, 2])
def test_the_end_of_a_campaign_waits_for_what_a_station_still_brings(
    away: Away, monkeypatch: pytest.MonkeyPatch, brought: int
) -> None:
    orders = away.take("collect")
    away.lab.stations["one"] = StationStatus(name="one", lanes=4, lease=1, facts={})
    coming: list[Arrival] = [*map(told, orders[:brought]), Left(station="one", cause="told to")]
    now_s = away.lab.began_s

    def poll(timeout_s: float) -> tuple[Arrival, ...]:
        nonlocal now_s
        now_s += 20.0
        return (coming.pop(0),)

    away.lab.clock = lambda: now_s
    monkeypatch.setattr(away.fleet, "poll", poll)
    away.lab.end_reason, away.lab.ends_campaign = "somebody stopped the campaign", True
    assert ending(away.lab) is not None
    shut_down(away.lab)
    assert away.lab.state.outcomes == {"success": brought} | ({"unknown": 4 - brought} if brought < 4 else {})
    assert len(coming) == (1 if brought == 4 else 0), "nobody is waited for who has nothing more, or has left"


@pytest.mark.parametrize("joins", [True, False])
def test_the_end_of_a_campaign_waits_for_a_station_that_still_starts(
    away: Away, monkeypatch: pytest.MonkeyPatch, joins: bool
) -> None:
    orders = away.take("collect")
    kept = tuple(order.order_id for order in orders)
    joined = Joined(station="one", lanes=4, lease=1, running=(), spooled=kept)
    coming: list[Arrival] = [joined, *map(told, orders)] if joins else []
    now_s = away.lab.began_s

    def poll(timeout_s: float) -> tuple[Arrival, ...]:
        nonlocal now_s
        now_s += 5.0
        return (coming.pop(0),) if coming else ()

    away.lab.clock = lambda: now_s
    monkeypatch.setattr(away.fleet, "poll", poll)
    away.lab.end_reason, away.lab.ends_campaign = "somebody stopped the campaign", True
    assert ending(away.lab) is not None
    shut_down(away.lab)
    assert away.lab.state.outcomes == {"success" if joins else "unknown": 4}
    assert away.fleet.controls == ([("one", "leave", "")] if joins else [])
    assert now_s <= away.lab.began_s + step.SILENT_S + 5.0, "a station that never joins is not waited for any longer"


def test_what_another_station_says_of_an_order_moves_nothing_and_who_answers_another_order_ends_its_own(
    away: Away,
) -> None:
    mine, spoilt = away.take("collect", 2)
    away.hear(replace(told(mine), station="another"))
    assert set(away.lab.state.open) == {mine.order_id, spoilt.order_id}
    away.hear(told(mine), replace(told(replace(spoilt, station="another")), station=spoilt.station))
    assert not away.lab.state.open
    assert away.lab.state.ended == {mine.order_id: "success", spoilt.order_id: "invalid"}
    assert away.fleet.refused == [mine.order_id, spoilt.order_id]
    away.sound()


def test_a_station_that_floods_with_refused_episodes_and_alarms_fills_no_ledger(away: Away) -> None:
    [order] = away.take("collect", 1)
    wrong = [replace(told(replace(order, order_id=f"01X{number}")), station=order.station) for number in range(200)]
    away.hear(*wrong)
    assert away.count("episode refused") == 50
    assert len(away.fleet.refused) == 200, "each is answered"
    away.lab.stations[order.station] = StationStatus(name=order.station, lanes=1, lease=1, facts={})
    for number in range(100):
        away.hear(replace(a_beat(order.station), alarm=f"alarm {number}"))
    assert away.count("person needed") <= 10
    away.lab.clock = lambda: time.monotonic() + 60.0
    away.hear(replace(a_beat(order.station), alarm="alarm 99"))
    [*_, last] = away.ledger.events(kinds=("person needed",))
    assert last.body["alarm"] == "alarm 99", "the newest is written down"


def test_nobody_waits_for_an_order_that_is_overdue_and_its_end_is_found_later(away: Away) -> None:
    late, other = away.take("collect", 2)
    away.lab.stations[late.station] = StationStatus(name=late.station, lanes=2, lease=1, facts={})
    for _ in range(2):
        away.hear(replace(a_beat(late.station), overdue=(late.order_id, "never given")))
    assert away.lab.state.ended == {late.order_id: "unknown"}
    assert list(away.lab.state.open) == [other.order_id]
    away.hear(told(late))
    assert away.lab.state.ended == {late.order_id: "success"}
    away.sound()


def a_beat(station: str) -> Heartbeat:
    return Heartbeat(station=station, lease=1, phase="rollout", seconds={}, queued=0, running=0, deployed="")


def test_a_station_that_joins_when_the_campaign_is_over_is_told_to_leave(away: Away) -> None:
    away.hear(Joined(station="one", lanes=4, lease=9, running=(), spooled=()))
    assert ("one", "leave", "") not in away.fleet.controls
    write(away.lab, ("campaign ended", {"reached": False, "reason": "the test"}))
    away.hear(Joined(station="one", lanes=4, lease=10, running=(), spooled=()))
    assert ("one", "leave", "") in away.fleet.controls


def test_an_invalid_end_whose_acknowledgement_was_lost_is_acknowledged_again(away: Away) -> None:
    [order] = away.take("collect", 1)
    came = told(order)
    bad = replace(came, episode=replace(came.episode, sha256=hashlib.sha256(b"no").hexdigest()), arrays_file=b"no")
    away.hear(bad)
    away.hear(bad)
    assert away.lab.state.ended[order.order_id] == "invalid"
    assert (away.fleet.acknowledged, away.fleet.refused) == ([order.order_id] * 2, [])


def test_late_results_of_a_search_count_once_for_their_branch(away: Away) -> None:
    away.lab.write(
        ExperimentSubmitted(
            request_id="r", author="test", lane="one", experiment_id="E1", hypothesis_id="H1", changes={},
            champion=POLICY, recipe=Recipe(name="x", learner="clone"), recipe_hash="h", turn_rollouts=5,
        )
    )  # fmt: skip
    orders = [*away.take("search", 3, branch="E1"), *away.take("search", 1)]
    away.wait()
    branches = away.lab.state.branches
    branch, searched = branches.by_experiment["E1"], branches.searched[POLICY]
    assert (searched.issued, len(searched.results), branch.robot_s) == (4, 0, 0.0)
    away.hear(told(orders[0]), told(orders[1], "failure"), told(orders[3]))
    away.hear(told(orders[0]), told(orders[1], "failure"), told(orders[3]))
    assert searched.results == {0: (True, 7), 1: (False, 7)}, "the champion's start 0 replaces the same start"
    assert (branch.robot_s, searched.robot_s) == (2.0, 3.0)
    away.hear(told(orders[2], "aborted", "released"))
    assert (branch.robot_s, len(searched.results)) == (2.0, 2), "it never began"
    rows = search_rows(Reading(away.ledger.database), away.lab.state.campaign_id)
    assert sum(row.took_s for row in rows if row.branch) == branch.robot_s
    assert sum(row.outcome == "success" for row in rows) == 2
    away.sound()


def test_late_results_that_an_older_ledger_did_not_count_for_branches_stay_so(away: Away) -> None:
    [order] = away.take("search", 1)
    away.wait()
    away.lab.write(LateResults(results=(result_of(told(order).episode),)))
    assert away.lab.state.branches.searched[POLICY].results == {}
    assert rebuilt(away.ledger, away.lab.state.campaign_id) == away.lab.state
