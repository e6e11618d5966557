"""A resume ends the stops that its operator saw, and no newer one."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import cast

import pytest

from enpire.lab import Lab
from enpire.loop import turn
from enpire.requests import operator_commands
from enpire.requests.operator_commands import CommandInbox, OperatorCommand
from enpire.steps import record
from enpire.steps.take_snapshot import snapshot
from tests.fakes.fake_fleet import FakeFleet
from tests.fakes.lab_inbox import handled, refusals


def left(lab: Lab, kind: str, target: str = "", seen: int | None = None) -> str:
    """A command of an operator in another process, who sees the page as it is now."""
    shown = snapshot(lab).newest_event if seen is None else seen
    return operator_commands.leave(lab.home.inbox, kind, target, "bob", seen=shown)


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("stopped", ["", "two"])
@pytest.mark.parametrize("resumed", ["", "two"])
def test_a_stop_holds_although_an_older_resume_waits_in_the_inbox(
    lab: Lab, in_memory: bool, stopped: str, resumed: str
) -> None:
    left(lab, "resume", resumed)
    stop = OperatorCommand(command_id="S1", kind="stop", target=stopped, operator="ann")
    CommandInbox(lab.home.inbox).leave(stop) if not in_memory else lab.inbox.leave(stop)
    for path in lab.home.inbox.rglob("*.json"):  # file times say nothing: the resume seems to be newer
        os.utime(path, (0, 0) if path.stem == "S1" else (2e9, 2e9))
    handled(lab)
    assert lab.state.holds.at("two") == {"stop": "ann"}
    assert [control for _, control, _ in cast("FakeFleet", lab.fleet).controls if control == "resume"] == []
    [why] = refusals(lab)
    assert "the stop of ann for" in why
    assert "check the robot and resume again" in why
    left(lab, "resume", resumed)
    handled(lab)
    assert lab.state.holds.at("two") == {}


def test_a_resume_of_another_station_does_not_wait_for_a_newer_stop(lab: Lab) -> None:
    left(lab, "stop", "three")
    handled(lab)
    left(lab, "resume", "three")
    left(lab, "stop", "two")
    handled(lab)
    assert (lab.state.holds.at("two"), lab.state.holds.at("three")) == ({"stop": "bob"}, {})


def test_a_pause_and_a_pause_of_the_campaign_hold_against_an_older_release(lab: Lab) -> None:
    seen = snapshot(lab).newest_event
    left(lab, "pause", "two")
    left(lab, "pause campaign")
    left(lab, "resume", "two", seen)
    left(lab, "continue campaign", "", seen)
    handled(lab)
    assert lab.state.holds.at("two") == {"pause": "bob"}
    assert lab.state.paused
    assert "the pause of bob for station two is newer" in refusals(lab)[0]
    assert "the campaign was paused after this command" in refusals(lab)[1]


def test_a_command_of_an_earlier_version_and_one_of_the_future_end_no_stop(lab: Lab) -> None:
    left(lab, "stop")
    handled(lab)
    for seen in (0, 10**6):
        left(lab, "resume", "", seen)
        handled(lab)
    assert lab.state.holds.at("two") == {"stop": "bob"}
    assert "after event 0" in refusals(lab)[0]
    assert "it names event 1000000, but the ledger ends with event" in refusals(lab)[1]


def test_an_accepted_resume_that_a_stop_overtakes_is_refused_and_not_sent_to_a_station_that_joins(lab: Lab) -> None:
    left(lab, "stop", "two")
    turn(lab)
    turn(lab)
    resume = left(lab, "resume", "two")
    handled(lab)
    assert resume in lab.pending_commands
    lab.inbox.leave(OperatorCommand(command_id="S2", kind="stop", target="", operator="ann"))
    handled(lab)
    assert resume not in lab.pending_commands
    assert "ann sent a stop before it was effective" in refusals(lab)[0]


def test_the_stop_button_of_a_robot_holds_against_a_resume_that_was_sent_before(lab: Lab) -> None:
    left(lab, "pause", "two")
    handled(lab)
    seen = snapshot(lab).newest_event
    [known] = [station.last_heartbeat for station in lab.stations.values() if station.name == "two"]
    assert known is not None
    record._beat(lab, replace(known, stopped=True, own_stop_id="B1", alarm="The robot holds a stop."))
    left(lab, "resume", "two", seen)
    handled(lab)
    assert "the robot of station two was stopped at the robot after this command" in refusals(lab)[0]
    left(lab, "resume", "two")
    handled(lab)
    *_, pending = lab.pending_commands.values()
    assert pending.ends["two"] == ["B1"]
