"""A station that needs service takes no orders until it is cleared; idle robots move on an operator's command."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.lab import Lab
from enpire.requests import operator_commands
from enpire.steps import record
from enpire.steps.dispatch import takes_orders
from enpire.steps.handle_commands import record_effects
from enpire.steps.take_snapshot import snapshot
from enpire.wire.arrivals import Joined
from tests.fakes.fake_fleet import FakeFleet
from tests.fakes.lab_inbox import handled, refusals

WHY = "the gripper slips"


def left(lab: Lab, kind: str, target: str = "", by: str = "bob", reason: str = "") -> str:
    """A command that is handled at once; its id."""
    seen = snapshot(lab).newest_event
    command_id = operator_commands.leave(lab.home.inbox, kind, target, by, reason=reason, seen=seen)
    handled(lab)
    return command_id


def sent(lab: Lab, station: str) -> list[str]:
    return [control for name, control, _ in cast("FakeFleet", lab.fleet).controls if name == station]


def effective(lab: Lab) -> list[str]:
    """The commands that are effective after the stations' next heartbeats."""
    record.record(lab)
    record_effects(lab)
    return [str(event.body["verb"]) for event in lab.ledger.events(kinds=("command effective",))]


def test_a_station_in_service_finishes_holds_and_takes_no_orders_until_cleared(lab: Lab) -> None:
    left(lab, "service", "two", reason=WHY)
    assert sent(lab, "two") == ["pause"]
    assert lab.state.holds.at("two") == {"service": "bob"}
    assert effective(lab) == ["service"]
    assert not takes_orders(lab, lab.stations["two"])
    [line] = [one for one in snapshot(lab).stations if one.name == "two"]
    assert (line.service_by, line.service_why) == ("bob", WHY)
    left(lab, "resume", "two")
    assert "station two needs service, says bob (the gripper slips)" in refusals(lab)[0]
    left(lab, "service done", "two", by="ann")
    assert sent(lab, "two") == ["pause", "resume"]
    assert lab.state.holds.at("two") == {}
    assert effective(lab) == ["service", "service done"]
    assert takes_orders(lab, lab.stations["two"])


def test_a_resume_of_all_stations_ends_the_stop_of_one_in_service_and_leaves_it_in_service(lab: Lab) -> None:
    left(lab, "service", "two", reason=WHY)
    left(lab, "stop")
    assert lab.state.holds.at("two") == {"stop": "bob", "service": "bob"}
    left(lab, "resume")
    assert sent(lab, "two") == ["pause", "stop", "resume", "pause"]
    assert sent(lab, "one") == ["stop", "resume"]
    assert lab.state.holds.at("two") == {"service": "bob"}
    assert effective(lab)[-1] == "resume"


def test_the_end_of_service_leaves_a_pause_and_a_stop_in_force(lab: Lab) -> None:
    for hold in ("pause", "stop"):
        left(lab, "service", "two", reason=WHY)
        left(lab, hold, "two")
        before = sent(lab, "two")
        left(lab, "service done", "two")
        assert sent(lab, "two") == before
        assert lab.state.holds.at("two") == {hold: "bob"}
        left(lab, "resume", "two")
    assert refusals(lab) == []


def test_service_holds_after_a_restart_and_when_the_station_joins_again(lab: Lab) -> None:
    left(lab, "service", "two", reason=WHY)
    again = rebuilt(lab.ledger, lab.state.campaign_id)
    assert again.holds.service["two"].reason == WHY
    before = len(sent(lab, "two"))
    record._joined(lab, Joined(station="two", lanes=4, lease=9, running=(), spooled=()))
    assert sent(lab, "two")[before:] == ["pause"]
    [held] = lab.ledger.events(kinds=("station held",))
    assert (held.body["verb"], held.body["by"]) == ("service", "bob")


def test_only_a_marked_station_is_cleared_and_only_one_is_named(lab: Lab) -> None:
    left(lab, "service done", "two")
    left(lab, "service")
    left(lab, "service", "nowhere")
    assert refusals(lab)[:2] == [
        "station two is not marked as needing service",
        "'service' needs one station as its target",
    ]
    assert "there is no station 'nowhere'" in refusals(lab)[2]


@pytest.mark.parametrize("kind", ["reset", "home"])
@pytest.mark.parametrize("hold", ["pause", "service"])
def test_the_operator_who_holds_an_idle_robot_moves_it(lab: Lab, kind: str, hold: str) -> None:
    left(lab, hold, "two", reason=WHY)
    assert effective(lab) == [hold]
    left(lab, kind, "two")
    assert sent(lab, "two") == ["pause", kind]
    assert effective(lab) == [hold, kind]
    assert refusals(lab) == []


def test_a_motion_is_refused_while_the_robot_may_begin_an_order_or_another_operator_holds_it(lab: Lab) -> None:
    left(lab, "reset", "two")
    left(lab, "pause", "two")
    left(lab, "reset", "two")
    effective(lab)
    left(lab, "reset", "two", by="ann")
    left(lab, "stop", "two")
    left(lab, "reset", "two")
    why = refusals(lab)
    assert why[0].startswith("station two takes orders: pause it first")
    assert why[1].startswith("station two still finishes an episode")
    assert why[2].startswith("bob holds station two: pause it yourself")
    assert why[3].startswith("the robot of station two is stopped")
    assert sent(lab, "two") == ["pause", "stop"]


def test_a_motion_that_the_station_does_not_offer_or_that_runs_is_refused(lab: Lab) -> None:
    left(lab, "pause", "two")
    effective(lab)
    station = lab.stations["two"]
    station.facts = {"motions": "reset"}
    left(lab, "home", "two")
    station.facts = {}
    left(lab, "reset", "two")
    station.facts = {"motions": "reset home"}
    left(lab, "reset", "two")
    left(lab, "home", "two")
    why = refusals(lab)
    assert why[:2] == ["the task of station two has no home position", "station two cannot do it"]
    assert why[2:] == ["the robot of station two already moves on an earlier command"]


def test_a_motion_that_ends_early_is_refused_with_the_reason(lab: Lab) -> None:
    left(lab, "pause", "two")
    effective(lab)
    cast("FakeFleet", lab.fleet).motion_problem = "stopped by ann"
    left(lab, "home", "two")
    assert effective(lab) == ["pause"]
    assert refusals(lab) == ["stopped by ann"]
    assert not lab.pending_commands


def test_a_motion_of_a_station_that_joins_again_is_refused(lab: Lab) -> None:
    left(lab, "pause", "two")
    effective(lab)
    left(lab, "home", "two")
    record._joined(lab, Joined(station="two", lanes=4, lease=9, running=(), spooled=()))
    assert refusals(lab) == ["its station left before the robot was there: look at the robot"]
    assert "home" not in [one.command.kind for one in lab.pending_commands.values()]


def test_a_motion_of_a_station_that_is_away_is_refused(lab: Lab) -> None:
    left(lab, "pause", "two")
    effective(lab)
    lab.stations["two"].away_since_s = lab.clock()
    left(lab, "home", "two")
    assert refusals(lab) == ["station two is not connected"]


def test_own_stop_of_a_robot_in_service_can_be_resumed(lab: Lab) -> None:
    left(lab, "service", "two", reason=WHY)
    beat = lab.stations["two"].last_heartbeat
    assert beat is not None
    record._beat(lab, replace(beat, stopped=True, own_stop_id="B1", alarm="The robot holds a stop."))
    left(lab, "resume", "two")
    assert refusals(lab) == []
    assert sent(lab, "two")[-2:] == ["resume", "pause"]
