"""What people leave for the loop: what is carried out, what is refused with a reason, what is set aside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Campaign
from enpire.campaign.events import Event
from enpire.campaign.order_events import OrdersIssued
from enpire.campaign.quarantine_events import ExperimentCleared
from enpire.files import parse, plain
from enpire.home import open_home
from enpire.lab import Lab
from enpire.loop import turn
from enpire.monitor.event_lines import line_of
from enpire.requests import operator_commands
from enpire.steps import record
from enpire.steps.begin import begin_or_resume
from enpire.steps.ending import shut_down
from enpire.steps.handle_commands import handle_stops, record_effects
from enpire.steps.station_commands import waited_for
from enpire.steps.take_snapshot import snapshot
from enpire.store.ledger import SqliteLedger
from enpire.wire.arrivals import Joined
from tests.enpire.test_loop import CAMPAIGN, lab_of, open_lab
from tests.fakes.fake_fleet import FakeFleet, delivered
from tests.fakes.lab_inbox import handled, refusals
from tests.fakes.sample_events import write


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with open_lab(open_home(tmp_path / "home")) as lab:
        yield lab


@pytest.mark.parametrize("content", [
    b"", b"half a {", b"[" * 9000, b"x" * 40_000, b"\xff\xfe", b"[]", b'{"command_id": "other", "verb": "stop"}',
    b'{"command_id": "A1", "verb": "stop", "by": "\\ud83d"}',
])  # fmt: skip
def test_a_file_that_is_no_command_is_set_aside_in_a_sentence_and_the_next_is_carried_out(
    lab: Lab, content: bytes
) -> None:
    (lab.home.inbox / "A1.json").write_bytes(content)
    (lab.home.inbox / "nowhere.json").symlink_to(lab.home.inbox / "nothing")
    (lab.home.inbox / os.fsdecode(b"half \xff.json")).write_bytes(b"{}")
    operator_commands.leave(lab.home.inbox, "pause campaign", operator="anna")
    handled(lab)
    assert (lab.home.inbox / "bad" / "A1.json").read_bytes() == content
    assert not list(lab.home.inbox.glob("*.json"))
    (why,) = (why for why in refusals(lab) if "A1" in why)
    assert len(refusals(lab)) == 3
    assert "The command A1.json" in why
    assert "set aside" in why
    assert lab.state.paused
    assert len(list(lab.ledger.events(kinds=("command requested",)))) == 1


def test_a_command_for_another_campaign_is_refused_and_one_for_this_is_carried_out(lab: Lab) -> None:
    operator_commands.leave(lab.home.inbox, "end campaign", operator="anna", campaign_id="another")
    operator_commands.leave(lab.home.inbox, "pause campaign", operator="anna", campaign_id=lab.state.campaign_id)
    handled(lab)
    assert not lab.end_reason
    assert lab.state.paused
    (why,) = refusals(lab)
    assert "it was for campaign another" in why


def test_what_was_left_before_a_campaign_began_is_refused_and_after_an_interruption_it_is_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "enpire.steps.begin._verifier", lambda campaign: SimpleNamespace(digest="")
    )  # the coin has none
    monkeypatch.setattr("enpire.steps.begin._limit_ticks", lambda campaign: 100)
    home = open_home(tmp_path / "home")
    operator_commands.leave(home.inbox, "end campaign", operator="anna")
    (home.inbox / "spoilt.json").write_text("{")
    ledger = SqliteLedger(home.ledger)
    campaign = parse(Campaign, plain(CAMPAIGN), "the campaign")
    began = begin_or_resume(ledger, campaign, home)
    assert [event.kind for event in ledger.events()] == [
        "campaign started", "command requested", "command refused", "command refused"
    ]  # fmt: skip
    refused = [event.body for event in ledger.events(kinds=("command refused",))]
    assert {str(body["campaign_id"]) for body in refused} == {began.campaign_id}
    assert any("left before this campaign began" in str(body["why"]) for body in refused)
    lab = lab_of(home, ledger)
    handled(lab)
    assert not lab.end_reason
    operator_commands.leave(home.inbox, "end campaign", operator="anna", campaign_id=began.campaign_id)
    assert begin_or_resume(ledger, campaign, home).campaign_id == began.campaign_id
    lab = lab_of(home, ledger)
    handled(lab)
    assert lab.ends_campaign
    ledger.close()


def test_a_stop_during_the_wind_up_goes_to_the_stations_and_nothing_else_does(lab: Lab) -> None:
    fleet = cast("FakeFleet", lab.fleet)
    fleet.ending = lambda order: delivered(order, "aborted", 0, "released")
    turn(lab)
    turn(lab)
    assert lab.state.open
    operator_commands.leave(lab.home.inbox, "stop", "two", "anna")
    operator_commands.leave(lab.home.inbox, "pause", "one", "anna")
    shut_down(lab)
    assert ("two", "stop", "anna") in fleet.controls
    assert ("one", "pause", "anna") not in fleet.controls
    assert [event.body["verb"] for event in lab.ledger.events(kinds=("command effective",))] == ["stop"]


def test_a_stop_before_any_station_has_joined_holds_whichever_joins(lab: Lab) -> None:
    operator_commands.leave(lab.home.inbox, "resume", operator="anna")
    handled(lab)
    (why,) = refusals(lab)
    assert "no station has joined" in why
    stop = operator_commands.leave(lab.home.inbox, "stop", operator="anna")
    handled(lab)
    handled(lab)
    assert "no station has joined" in waited_for(lab)[stop]
    assert not list(lab.ledger.events(kinds=("command effective",)))
    turn(lab)
    assert {station for station, verb, _ in cast("FakeFleet", lab.fleet).controls if verb == "stop"} == {*lab.stations}
    turn(lab)
    assert not lab.state.open  # nobody is given anything that would wait there


def test_only_a_version_of_this_campaign_can_be_promoted(lab: Lab) -> None:
    foreign, made, base = (character * 64 for character in "abc")
    for policy_id in (foreign, made, base):
        (lab.home.versions / policy_id).mkdir()
        (lab.home.versions / policy_id / "policy.json").write_text('{"kind": "chance", "chance": 1}')
    lab.campaign = replace(lab.campaign, base=replace(lab.campaign.base, policy=base))
    write(lab, ("version made", {"policy_id": made, "round": 1}))
    empty = "d" * 64
    (lab.home.versions / empty).mkdir()
    for target in (".", "..", "a", "A" * 64, empty, "e" * 64, foreign):
        operator_commands.leave(lab.home.inbox, "promote", target, "anna")
        handled(lab)
    told = refusals(lab)
    assert [why.split(" ")[0] for why in told] == ["a"] * 4 + ["there"] * 2 + ["the"]
    assert not lab.state.champion
    for target in (base, made):
        operator_commands.leave(lab.home.inbox, "promote", target, "anna", reason="it is gentler")
        handled(lab)
        assert lab.state.champion == target


class Dropping(FakeFleet):
    """Words to a station that is away are lost, as on a real wire."""

    away: str = ""

    def control(self, station: str, control: str, argument: str = "", stop_ids: Sequence[str] = ()) -> None:
        if station != self.away:
            super().control(station, control, argument, stop_ids)


def test_what_is_asked_of_a_station_that_is_away_is_asked_again_when_it_is_back(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    ledger, fleet = SqliteLedger(home.ledger), Dropping(home.versions)
    lab = lab_of(home, ledger, fleet=fleet)
    turn(lab)
    now_s, lab.clock = lab.clock(), lambda: now_s

    def asked(verb: str, target: str = "") -> str:
        return operator_commands.leave(home.inbox, verb, target, "anna", seen=lab.state.newest_event)

    def comes_back(station: str) -> list[str]:
        fleet.away = ""
        fleet.controls.clear()
        record._joined(lab, Joined(station=station, lanes=4, lease=9, running=(), spooled=()))
        return [verb for name, verb, _ in fleet.controls if name == station and verb != "deploy"]

    fleet.away = "two"
    lab.stations["two"].away_since_s = now_s
    stop = asked("stop")
    handled(lab)
    record_effects(lab)
    assert stop in lab.pending_commands
    now_s += 2.0
    assert "two" in waited_for(lab)[stop]
    assert "not connected: two" in waited_for(lab)[stop]
    assert comes_back("two") == ["stop"]
    assert comes_back("three") == ["stop"]  # another process of its name, say: the stop still holds
    assert rebuilt(ledger, "C1").holds.at("four") == {"stop": "anna"}  # and after a crash of the orchestrator
    fleet.away = "two"
    asked("resume")
    handled(lab)
    assert comes_back("two") == ["resume"]
    for verb, station, back in (
        ("pause", "one", ["pause"]), ("stop", "", ["pause", "stop"]), ("resume", "one", ["resume"]),
    ):  # fmt: skip
        fleet.away = "one"
        asked(verb, station)
        handled(lab)
        assert comes_back("one") == back
    assert lab.state.holds.at("one") == {}
    assert lab.state.holds.at("two") == {"stop": "anna"}
    ledger.close()


def test_a_stop_holds_in_the_next_campaign_too_until_somebody_resumes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "enpire.steps.begin._verifier", lambda campaign: SimpleNamespace(digest="")
    )  # the coin has none
    monkeypatch.setattr("enpire.steps.begin._limit_ticks", lambda campaign: 100)
    turn(lab)
    for verb, station in (("stop", "two"), ("pause", "three"), ("stop", "four"), ("resume", "four")):
        operator_commands.leave(lab.home.inbox, verb, station, "anna", seen=lab.state.newest_event)
        handled(lab)
    write(lab, ("campaign ended", {"reached": False, "reason": "spent"}))
    shut_down(lab)
    fleet = FakeFleet(lab.home.versions, lease=9)
    begun = begin_or_resume(lab.ledger, replace(CAMPAIGN, name="next"), lab.home)
    later = replace(lab, state=begun, fleet=fleet, stations={}, last_done_s={}, pending_commands={})
    given: list[str] = []
    later.event_observers = [lambda event: given.extend(stations_of(event))]
    turn(later)
    turn(later)
    assert set(given) == {"one", "four"}
    said = [word for word in fleet.controls if word[1] != "deploy"]
    assert said == [("two", "stop", "anna"), ("three", "pause", "anna")]
    operator_commands.leave(lab.home.inbox, "resume", "two", "berta", seen=later.state.newest_event)
    handled(later)
    turn(later)
    turn(later)
    assert set(given) == {"one", "two", "four"}
    assert rebuilt(lab.ledger, begun.campaign_id) == later.state
    shut_down(later)


def test_a_stop_that_a_station_was_told_itself_holds_like_one_of_a_person(lab: Lab) -> None:
    turn(lab)
    fleet, ledger = cast("FakeFleet", lab.fleet), lab.ledger
    by = "a node on ROS 2 at the station"

    def hears(stop_id: str) -> None:
        [known] = [station.last_heartbeat for station in lab.stations.values() if station.name == "two"]
        assert known is not None
        record._beat(lab, replace(known, stopped=bool(stop_id), stop_id=stop_id, stop_by="a node on ROS 2"))
        handle_stops(lab)

    for _ in range(3):
        hears("S1")
    assert lab.state.holds.at("two") == rebuilt(ledger, "C1").holds.at("two") == {"stop": by}
    assert fleet.controls.count(("two", "stop", by)) == 1
    record._joined(lab, Joined(station="two", lanes=4, lease=9, running=(), spooled=()))  # its process began anew
    assert fleet.controls.count(("two", "stop", by)) == 2
    operator_commands.leave(lab.home.inbox, "resume", "two", "anna", seen=lab.state.newest_event)
    handled(lab)
    record._beat(lab, replace(FakeFleet._beat(fleet, "two", 0), lease=9))
    hears("S1")  # said before it heard of that
    assert lab.state.holds.at("two") == {}
    hears("S2")
    assert lab.state.holds.at("two") == {"stop": by}
    asked = [event.body["verb"] for event in ledger.events(kinds=("command accepted",))]
    assert asked == ["stop", "resume", "stop"]


def stations_of(event: Event) -> list[str]:
    return [order.station for order in event.orders] if isinstance(event, OrdersIssued) else []


def deployed(lab: Lab, *versions: str) -> None:
    for version in versions:
        write(lab, ("deployed", {"policy_id": version, "previous": lab.state.champion, "reason": "", "round": 1}))


def test_going_back_twice_goes_back_two_steps(lab: Lab) -> None:
    deployed(lab, "a", "b", "c")
    for wanted in ("b", "a", "a"):
        operator_commands.leave(lab.home.inbox, "rollback", operator="anna", reason="it shakes")
        handled(lab)
        assert lab.state.champion == wanted
    assert "no earlier champion" in refusals(lab)[-1]


def test_a_person_who_promotes_is_not_overruled_by_the_gate_that_was_open(lab: Lab) -> None:
    deployed(lab, "a")
    sides = {"champion": "a", "candidate": "b", "round": 1, "promoted": 0, "alpha": 0.02}
    write(lab, ("gate opened", {"gate_id": "G1", "k": 1, **sides}))
    deployed(lab, "c")
    assert not lab.state.gates
    assert lab.state.candidates == [("b", 1)]  # to be judged anew, against what the person chose
    write(lab, ("gate opened", {"gate_id": "G2", "k": 2, **sides, "champion": "c"}))
    deployed(lab, "b")
    assert (lab.state.gates, lab.state.candidates) == ({}, [])


def test_a_person_holds_a_version_and_clears_it_and_neither_without_a_reason(lab: Lab) -> None:
    deployed(lab, "a", "b")
    sides = {"champion": "b", "candidate": "n", "round": 1, "promoted": 0, "alpha": 0.02}
    write(lab, ("gate opened", {"gate_id": "G1", "k": 1, **sides}))

    def command(kind: str, target: str, reason: str = "it looks too good") -> None:
        seen = lab.state.newest_event
        operator_commands.leave(lab.home.inbox, kind, target, operator="ada", reason=reason, seen=seen)
        handled(lab)

    command("experiment quarantine", "n", reason=" ")
    assert "needs a reason" in refusals(lab)[-1]
    command("experiment quarantine", "unheard")
    assert "no experiment and no candidate" in refusals(lab)[-1]
    command("experiment quarantine", "n")
    assert lab.state.gates == {}
    assert lab.state.free_candidates == []
    command("experiment quarantine", "a")
    command("rollback", "")
    assert "not in quarantine" in refusals(lab)[-1]
    command("experiment clear", "b")
    assert "in it are: n, a" in refusals(lab)[-1]
    command("experiment clear", "n")
    assert lab.state.free_candidates == [("n", 1)]
    [cleared] = [entry.event for entry in lab.ledger.events(kinds=("experiment cleared",))]
    assert (cleared.by, cleared.reason) == ("ada", "it looks too good")  # type: ignore[union-attr]


def held(policy_id: str, tripwire: str) -> tuple[str, dict[str, object]]:
    return "experiment quarantined", {"experiment_id": "", "policy_id": policy_id, "tripwire": tripwire, "why": "why."}


def test_what_a_tripwire_holds_is_not_offered_for_an_approval(lab: Lab) -> None:
    deployed(lab, "a")
    lab.state.candidates.append(("n", 1))
    write(lab, held("n", "critic"))
    write(lab, held("n", "promotion approval"))
    assert snapshot(lab).quarantined["n"] == "critic: why.; promotion approval: why."


def test_who_clears_ends_what_they_saw_and_what_trips_later_stays(lab: Lab) -> None:
    deployed(lab, "a")
    lab.state.candidates.append(("n", 1))
    write(lab, held("n", "promotion approval"))
    looked = lab.state.newest_event
    write(lab, held("n", "critic"))

    def clear(seen: int) -> None:
        operator_commands.leave(lab.home.inbox, "experiment clear", "n", operator="ada", reason="fine", seen=seen)
        handled(lab)

    clear(looked)
    assert [event.tripwire for event in lab.state.quarantine.held["n"]] == ["critic"]
    assert lab.state.free_candidates == []
    [cleared] = [entry.event for entry in lab.ledger.events(kinds=("experiment cleared",))]
    assert isinstance(cleared, ExperimentCleared)
    assert (cleared.tripwires, cleared.still) == (("promotion approval",), ("critic",))
    assert line_of(cleared).endswith("fine; it stays in quarantine (critic), which came later")
    assert snapshot(lab).quarantined["n"] == (
        "critic: why.; it tripped after ada had looked, who cleared only: promotion approval"
    )
    clear(looked)
    assert "(critic) is newer than event" in refusals(lab)[-1]
    clear(lab.state.newest_event + 9)
    assert "the ledger ends with event" in refusals(lab)[-1]
    clear(lab.state.newest_event)
    assert lab.state.free_candidates == [("n", 1)]
    assert not lab.state.quarantine.held
    assert not lab.state.quarantine.may_trip("n", "critic")


def test_an_earlier_clearance_of_everything_still_ends_everything(lab: Lab) -> None:
    write(lab, held("n", "critic"), held("n", "speed"))
    cleared = {"experiment_id": "", "policy_id": "n", "by": "ada", "reason": "fine", "tripwires": ["critic", "speed"]}
    write(lab, ("experiment cleared", cleared))
    assert not lab.state.quarantine.held


def test_a_waiting_candidate_that_a_rollback_drops_leaves_the_inbox(lab: Lab) -> None:
    deployed(lab, "a", "b")
    lab.state.candidates.append(("n", 1))
    write(lab, held("n", "promotion approval"))
    assert "n" in snapshot(lab).quarantined
    operator_commands.leave(lab.home.inbox, "rollback", operator="ada", reason="it grips too hard")
    handled(lab)
    assert lab.state.champion == "a"
    assert snapshot(lab).quarantined == {}
    assert lab.state.quarantine.holds("n"), "and nothing promotes it unseen"
