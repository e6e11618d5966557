"""The documents of a large fleet: only those of stations that changed are made again."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.archive import Archive
from web_ui.commands import CommandTracker
from web_ui.documents import plain
from web_ui.hub import Hub


def test_only_what_changed_is_made_again() -> None:
    lab = ScriptedLab()
    hub = Hub(lab, CommandTracker(lab), cast(Archive, None))
    shown = lab.snapshot()
    assert shown is not None
    lab.frozen = shown
    before = hub.fleet()
    first, *others = shown.stations
    lab.frozen = replace(shown, stations=(replace(first, alarm="the gripper does not close"), *others[1:]))
    after = hub.fleet()
    assert after.stations["sim-1"].alarm == "the gripper does not close"
    assert set(after.stations) == {"sim-1", "sim-3", "sim-4"}, "sim-2 has left"
    assert after.stations["sim-3"] is before.stations["sim-3"]


def test_the_document_says_whether_the_goal_is_one_of_the_bound() -> None:
    lab = ScriptedLab()
    hub, shown = Hub(lab, CommandTracker(lab), cast(Archive, None)), lab.snapshot()
    assert shown is not None
    for by in ("rate", "bound"):
        lab.frozen = replace(shown, goal_by=by)
        campaign = hub.fleet().campaign
        assert campaign is not None
        assert (campaign.goal, campaign.goal_by) == (0.97, by)


def test_an_operator_who_takes_over_changes_the_document() -> None:
    lab, holds = ScriptedLab(), [""]
    hub = Hub(lab, CommandTracker(lab), cast(Archive, None), operator_of=lambda station: holds[0])
    lab.frozen = lab.snapshot()
    assert hub.fleet().stations["sim-1"].operator == ""
    holds[0] = "ada"
    assert hub.fleet().stations["sim-1"].operator == "ada"


def test_a_document_has_no_none_and_no_infinity() -> None:
    lab = ScriptedLab()
    line = lab.snapshot()
    assert line is not None
    sensed = replace(line.stations[0], viability=None, jitter_ms=float("inf"), alarm="")
    body = plain(sensed)
    assert isinstance(body, dict)
    assert "viability" not in body
    assert "jitter_ms" not in body
    assert body["alarm"] == ""
    assert body["motions"] == ["reset", "home"]
