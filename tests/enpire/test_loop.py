"""The lab's loop with a pretended fleet: real ledger, real store, real learner process."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Base, Budget, Campaign, Goal, Rounds, Stations
from enpire.campaign.recipe import Recipe
from enpire.codec import read_order
from enpire.errors import FileProblem
from enpire.gate.rule import GateRule
from enpire.home import Home, open_home
from enpire.lab import Lab
from enpire.loop import run, turn
from enpire.queries.campaigns import campaign_view, open_records
from enpire.queries.decision_audit import recompute
from enpire.requests import operator_commands
from enpire.steps.ending import ending, shut_down
from enpire.steps.take_snapshot import champion_interval
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.store.pictures import keep
from enpire.store.reading import Reading
from enpire.types import Order
from enpire.wire.arrivals import Delivered
from tests.enpire.gate.level_checks import check_levels
from tests.enpire.store.store_samples import an_order
from tests.fakes.fake_fleet import CoinTask, FakeFleet, delivered
from tests.fakes.sample_events import append

CAMPAIGN = Campaign(
    name="coin", task="coin", recipe="better",
    goal=Goal(success=0.9, confirm_starts=30, attempt_chance=0.9),
    stations=Stations(count=0, lanes=4, ahead=8),
    base=Base(demonstrations=10, evaluate_starts=20),
    rounds=Rounds(episodes=20, train_starts=500),
    gate=GateRule(pairs=200),
    budget=Budget(wall_s=900, rounds=8),
)  # fmt: skip
LONG_ROUNDS = replace(
    CAMPAIGN, goal=Goal(success=1.0, confirm_starts=5000), budget=Budget(wall_s=600, rounds=3),
    rounds=Rounds(episodes=900, train_starts=500, hard_starts=0.0),
)  # fmt: skip
"""Rounds in which the change detector sees many trials of each champion, and no confirmation passes."""
BETTER = Recipe(name="better", learner="tests.fakes.fake_fleet:ImprovingLearner")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def lab_of(
    home: Home, ledger: SqliteLedger, campaign: Campaign = CAMPAIGN, fleet: FakeFleet | None = None, new: str = "C1"
) -> Lab:
    """The laboratory of the one campaign in this home, as its events left it; `new`: id of one that begins now."""
    begun = [event.body["campaign_id"] for event in ledger.events(kinds=("campaign started",))]
    campaign_id = str(begun[0]) if begun else new
    if not begun:
        append(ledger, [("campaign started", {"campaign_id": campaign_id, "name": campaign.name})])
    return Lab(
        campaign=campaign, recipe=BETTER, base_recipe=BETTER, home=home, ledger=ledger,
        records=Reading.of(ledger), store=FolderStore(home.episodes), state=rebuilt(ledger, campaign_id),
        fleet=fleet or FakeFleet(home.versions), task=CoinTask(),  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


@contextmanager
def open_lab(home: Home) -> Iterator[Lab]:
    """The laboratory of this home with its ledger, which a test runs turn by turn."""
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger)
    try:
        yield lab
    finally:
        shut_down(lab)
        ledger.close()


def issued(ledger: SqliteLedger) -> int:
    return sum(len(cast("list[object]", event.body["orders"])) for event in ledger.events(kinds=("order issued",)))


def kinds(ledger: SqliteLedger) -> list[str]:
    return [event.kind for event in ledger.events()]


def test_a_campaign_goes_from_demonstrations_to_a_confirmed_champion(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger)
    end = run(lab)
    assert end.reached, end
    decided = [event.body["decision"] for event in ledger.events(kinds=("gate decided",))]
    assert decided.count("promote") >= 2
    check_levels(ledger, CAMPAIGN.gate.alpha)
    measured = next(iter(ledger.events(kinds=("base measured",)))).body
    assert measured["n"] == 20
    confirmed = list(ledger.events(kinds=("confirmed",)))[-1].body
    assert confirmed["n"] == 30
    assert confirmed["passed"]
    assert not lab.state.open
    assert issued(ledger) == sum(lab.state.outcomes.values())
    assert ledger.verify() > 0
    assert rebuilt(ledger, lab.state.campaign_id) == lab.state
    ledger.close()


def test_the_champion_has_the_same_rate_live_as_in_the_records(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger)
    seen: set[str] = set()
    over = None
    while over is None:
        turn(lab)
        over, gates, champion = ending(lab), dict(lab.state.gates), lab.state.champion
        if over or (any(len(gate.trials) > 8 for gate in gates.values()) and champion not in seen):
            seen.add(champion)
            live = champion_interval(lab.state)
            with open_records(home.root) as records:
                told = campaign_view(records, lab.state.campaign_id).champion
            assert live is not None
            assert told is not None
            assert (live.successes, live.n) == (told.successes, told.n)
    assert len(seen) > 1
    assert lab.state.base_policy in seen, "the base too, which had a measure of its own"
    shut_down(lab)
    ledger.close()


@pytest.mark.parametrize("turns", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_a_killed_campaign_goes_on_and_counts_every_order_once(home: Home, turns: int) -> None:
    ledger = SqliteLedger(home.ledger)
    fleet = FakeFleet(home.versions)
    lab = lab_of(home, ledger, fleet=fleet)
    for _ in range(turns):
        turn(lab)
    if lab.learner is not None:
        lab.learner.process.kill()
        lab.learner.process.wait()
    lease = lab.state.lease + 1
    ledger.close()  # what kill -9 leaves: the file as it is, open orders and a learner without a parent
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger, fleet=replace(fleet, joined=False, held={}, lease=lease))
    assert run(lab).reached
    assert not lab.state.open
    assert issued(ledger) == sum(lab.state.outcomes.values())
    ledger.close()


def test_aborted_trials_count_against_their_side(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    fleet = FakeFleet(home.versions, spoil=lambda order: "aborted" if order.side == "candidate" else None)
    lab = lab_of(home, ledger, replace(CAMPAIGN, budget=Budget(wall_s=900, rounds=1)), fleet)
    end = run(lab)
    assert not end.reached
    decided = [event.body["decision"] for event in ledger.events(kinds=("gate decided",))]
    assert decided == ["reject"]
    ledger.close()


def test_the_budget_ends_a_campaign_without_its_goal(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger, replace(CAMPAIGN, budget=Budget(wall_s=0.5, rounds=8)))
    end = run(lab)
    assert not end.reached
    assert end.over
    assert "wall-clock time" in end.reason
    ledger.close()


def test_a_campaign_that_a_person_ends_is_over(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    operator_commands.leave(home.inbox, "end campaign", operator="anna")
    end = run(lab_of(home, ledger))
    assert end.over
    assert not end.reached
    assert "anna stopped the campaign" in end.reason
    assert kinds(ledger).count("campaign ended") == 1
    ledger.close()


def test_commands_are_carried_out_once_and_written_down(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    fleet = FakeFleet(home.versions)
    lab = lab_of(home, ledger, replace(CAMPAIGN, budget=Budget(wall_s=900, rounds=8)), fleet)
    turns = [0]

    def tick() -> None:
        turns[0] += 1
        if turns[0] == 1:
            assert "two" in lab.stations
            operator_commands.leave(home.inbox, "stop", "two", "anna", "A1")
            operator_commands.leave(home.inbox, "stop", "two", "anna", "A1")
            operator_commands.leave(home.inbox, "fly", "two", "anna", "A2")
        if turns[0] > 200 or "command effective" in kinds(ledger):
            lab.end_reason = "seen"

    lab.tick = tick
    run(lab)
    assert fleet.controls.count(("two", "stop", "anna")) == 1
    assert kinds(ledger).count("command requested") == 2
    refused = next(iter(ledger.events(kinds=("command refused",)))).body
    assert "no command 'fly'" in str(refused["why"])
    assert "command effective" in kinds(ledger)
    ledger.close()


def test_an_answer_that_ran_another_policy_does_not_count(home: Home) -> None:
    from enpire.campaign.acceptance import refusal
    from enpire.steps.check_episode import sound

    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger)
    order = lab.scheduler.next_orders(lab.state, lab_seat())[0]
    came = FakeFleet(home.versions).finish(order)
    episode = came.episode
    assert refusal(order, "", episode, order.station) == ""
    assert refusal(order, "unknown", episode, order.station) == ""
    other = sound(replace(came, episode=replace(episode, ran_policy_id="something else"))).episode
    assert (other.outcome, other.sha256) == ("invalid", "")
    assert "its order asked for" in other.cause
    assert "differs" in refusal(replace(order, round=order.round + 1), "", episode, order.station)
    assert "was issued to the station" in refusal(order, "", episode, "another")
    assert "ended already" in refusal(order, "aborted", episode, order.station)
    assert "never issued" in refusal(None, "", episode, order.station)
    ledger.close()


def test_pictures_that_no_station_writes_end_the_order_as_invalid(tmp_path: Path) -> None:
    from enpire.steps.check_episode import sound

    came = delivered(an_order(), "success", 5, "")
    keep(tmp_path / "good", [{"top": np.zeros((4, 4, 3), np.uint8)}])
    assert sound(replace(came, pictures=tmp_path / "good")).pictures == tmp_path / "good"
    with zipfile.ZipFile(tmp_path / "bad", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../top_00000.png", b"0" * 10**6)
    spoilt = sound(replace(came, pictures=tmp_path / "bad"))
    assert (spoilt.episode.outcome, spoilt.episode.sha256, spoilt.arrays_file, spoilt.pictures) == (
        "invalid", "", b"", None
    )  # fmt: skip
    assert spoilt.episode.cause.startswith("its files cannot be used: ")


def lab_seat():
    from enpire.scheduling.scheduler import FreeStation

    return FreeStation("one", 1, 4)


def test_what_was_taken_back_before_it_began_is_given_again_and_counts_for_nobody(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    fleet = FakeFleet(home.versions)
    lab = lab_of(home, ledger, fleet=fleet)
    taken = [0]

    def finish(order: Order) -> Delivered:
        if order.purpose in {"base", "gate", "confirm"} and taken[0] < 60 and order.start.index % 3 == 0:
            taken[0] += 1
            return delivered(order, "aborted", 0, "released: the station left")
        return FakeFleet.finish(fleet, order)

    fleet.ending = finish
    assert run(lab).reached
    assert taken[0] == 60
    assert next(iter(ledger.events(kinds=("base measured",)))).body["n"] == 20
    assert list(ledger.events(kinds=("confirmed",)))[-1].body["n"] == 30
    assert [check for check in recompute(ledger) if not check.equal] == []
    ledger.close()


def test_what_a_decided_gate_no_longer_needs_is_given_back_before_it_begins(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger, replace(CAMPAIGN, goal=Goal(success=1.0, confirm_starts=5000), budget=Budget(rounds=2)))
    run(lab)
    decided: set[str] = set()
    given_out: dict[str, Order] = {}
    back: list[Order] = []
    for event in ledger.events():
        if event.kind == "order issued":
            orders = [read_order(item, FileProblem) for item in cast("list[dict[str, object]]", event.body["orders"])]
            assert not [order for order in orders if order.gate_id in decided], "a decided gate wants no more"
            given_out |= {order.order_id: order for order in orders}
        elif event.kind == "gate decided":
            decided.add(str(event.body["gate_id"]))
        elif event.kind == "orders ended":
            ends = cast("list[dict[str, object]]", event.body["episodes"])
            released = [given_out[str(end["order_id"])] for end in ends if end["cause"] == "released"]
            assert all(order.gate_id in decided for order in released)
            back += released
    assert decided
    assert len(back) > 10 * len(decided), "robots had been given more than the gate came to need"
    assert all(check.equal for check in recompute(ledger))
    ledger.close()


def test_a_learner_sees_demonstrations_and_the_last_rounds_of_its_window_alone(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    campaign = replace(
        CAMPAIGN, goal=Goal(success=1.0, confirm_starts=5000), budget=Budget(rounds=3),
        rounds=Rounds(episodes=20, train_starts=500, window=1),
    )  # fmt: skip
    lab = lab_of(home, ledger, campaign)
    run(lab)
    rows = {row.order_id: row for row in lab.state.data.rows}
    assert {row.round for row in rows.values()} >= {0, 1, 2}
    for event in ledger.events(kinds=("learner started",)):
        learned = [rows[order_id] for order_id in cast("list[str]", event.body["episodes"])]
        own = [row for row in learned if row.purpose != "demonstrate"]
        begun = cast("int", event.body["round"])
        assert len(own) == (20 if begun else 0), "the machine's speed gives a round no more rollouts"
        assert len({row.policy_id for row in own}) <= 1, "nothing of a version older than the window"
        assert len(learned) - len(own) == campaign.base.demonstrations
    ledger.close()


def test_a_champion_that_regresses_is_rolled_back_by_itself(home: Home) -> None:
    ledger = SqliteLedger(home.ledger)
    fleet = FakeFleet(home.versions)

    def ending(order: Order) -> Delivered:
        worn = len(fleet_champions()) > 1 and order.policy_id == fleet_champions()[1] and order.purpose == "collect"
        return delivered(order, "failure", 20, "") if worn else fleet.finish(order)

    def fleet_champions() -> list[str]:
        return lab.state.champions

    fleet.ending = ending
    lab = lab_of(home, ledger, LONG_ROUNDS, fleet)

    def tick() -> None:
        if "rolled back" in kinds(ledger):
            lab.end_reason = "seen"

    lab.tick = tick
    run(lab)
    assert "rolled back" in kinds(ledger), (lab.state.collected, lab.state.champions)
    back = next(iter(ledger.events(kinds=("rolled back",)))).body
    assert back["to"] == lab.state.champions[0]
    assert lab.state.champion == lab.state.champions[0]
    assert any(verb == "deploy" and version == back["to"] for _, verb, version in fleet.controls[-8:])
    ledger.close()


def test_the_end_names_the_goal_with_all_its_digits(home: Home) -> None:
    with open_lab(home) as lab:
        lab.campaign = replace(CAMPAIGN, goal=Goal(success=0.975, by="bound"))
        lab.state.champion, lab.state.confirmed = "a" * 64, {"a" * 64: True}
        end = ending(lab)
    assert end is not None
    assert end.reason == "the champion is confirmed above 97.5%"
