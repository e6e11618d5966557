"""Alarms: grouped by cause, acknowledged for the stations that they had, and open again when they come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from enpire.monitor.lab_snapshot import LabSnapshot, StationLine
from tests.web_ui.conftest import Site
from web_ui.alarms import Alarms
from web_ui.documents import CommandDocument

QUIET = LabSnapshot(campaign_id="one", campaign_name="night", stations=())


def lab(*stations: StationLine, paused_why: str = "") -> LabSnapshot:
    return replace(QUIET, stations=stations, paused=bool(paused_why), paused_why=paused_why)


def seen(key: str, at_ms: int, by: str = "ada") -> CommandDocument:
    return CommandDocument(
        id=f"{key}{at_ms}", verb="acknowledge", target=key, by=by, reason="", state="effective", requested_ms=at_ms
    )


def offline(*names: str) -> Sequence[StationLine]:
    return [StationLine(name=name, phase="offline") for name in names]


def test_one_cause_of_many_stations_is_one_alarm_with_its_responses() -> None:
    lines = [
        StationLine(name="s1", phase="rollout", alarm="camera 2 has sent no image for 14 s"),
        StationLine(name="s2", phase="rollout", alarm="camera 2 has sent no image for 9 s"),
        StationLine(name="s3", phase="stopped", stopped=True),
        StationLine(name="s4", phase="wait-order", paused=True),
        StationLine(name="s5", phase="rollout"),
        *offline("s6", "s7"),
    ]  # fmt: skip
    found = Alarms().update(lab(*lines, paused_why="too many wrong verdicts"), ())
    by_text = {alarm.text: (alarm.names, alarm.responses) for alarm in found.values()}
    assert by_text == {
        "Paused: too many wrong verdicts": (("night",), ("continue campaign",)),
        "camera 2 has sent no image for 14 s": (("s1", "s2"), ("pause", "stop")),
        "Stopped until resumed": (("s3",), ("resume",)),
        "Paused: no new orders": (("s4",), ("resume", "stop")),
        "Offline": (("s6", "s7"), ()),
    }
    assert all(alarm.default for alarm in found.values())


def test_what_waits_for_an_approval_can_be_approved_and_rejected_and_says_what_else_happens() -> None:
    held = {"E1": "approval: an experiment of an agent", "V1": "promotion approval: a candidate", "E2": "speed: fast"}
    found = Alarms().update(replace(QUIET, quarantined=held), ())
    shown = {one.names[0]: (one.text, one.responses) for one in found.values()}
    both = ("experiment clear", "experiment quarantine")
    assert shown == {
        "E1": ("Waits for an approval: an experiment of an agent", both),
        "V1": ("Waits for an approval: a candidate", both),
        "E2": ("In quarantine (speed: fast)", ("experiment clear",)),
    }
    assert "until the campaign ends" in found["quarantine-E1"].default


def test_who_has_seen_what_waits_has_not_seen_what_is_suspected_later() -> None:
    alarms = Alarms()
    alarms.update(replace(QUIET, quarantined={"E1": "approval: an experiment of an agent"}), (), 0)
    given = [seen("quarantine-E1", 1000)]
    waiting = alarms.update(replace(QUIET, quarantined={"E1": "approval: an experiment of an agent"}), given, 2000)
    assert [one.acknowledged_by for one in waiting.values()] == ["ada"]
    suspected = alarms.update(replace(QUIET, quarantined={"E1": "canary: it read the word"}), given, 3000)
    assert [one.acknowledged_by for one in suspected.values()] == [""]


def test_an_acknowledgement_covers_the_stations_that_the_alarm_had() -> None:
    alarms = Alarms()
    alarms.update(QUIET, (), 0)
    assert alarms.update(lab(*offline("s1")), (), 1000)["offline"].acknowledged_by == ""
    given = [seen("offline", 2000)]
    assert alarms.update(lab(*offline("s1")), given, 3000)["offline"].acknowledged_by == "ada"
    grown = alarms.update(lab(*offline("s1", "s2")), given, 4000)["offline"]
    assert (grown.acknowledged_by, grown.since_ms, grown.newest_ms) == ("", 1000, 4000)
    given.append(seen("offline", 5000, "bob"))
    assert alarms.update(lab(*offline("s1", "s2")), given, 6000)["offline"].acknowledged_by == "bob"


def test_a_cause_that_ended_needs_a_new_acknowledgement() -> None:
    alarms = Alarms()
    alarms.update(QUIET, (), 0)
    alarms.update(lab(*offline("s1")), (), 1000)
    given = [seen("offline", 2000)]
    assert alarms.update(QUIET, given, 3000) == {}
    assert alarms.update(lab(*offline("s1")), given, 4000)["offline"].acknowledged_by == ""


def test_a_server_that_starts_again_reads_the_acknowledgements_of_the_ledger() -> None:
    assert Alarms().update(lab(*offline("s1")), [seen("offline", 2000)], 9000)["offline"].acknowledged_by == "ada"
    refused = replace(seen("offline", 2000), state="refused")
    assert Alarms().update(lab(*offline("s1")), [refused], 9000)["offline"].acknowledged_by == ""


def test_the_fleet_document_says_who_acknowledged(site: Site) -> None:
    client = site.enter("operator")
    site.lab.alarms["sim-2"] = "the gripper does not close"
    (alarm,) = client.get("/api/v1/fleet").json()["alarms"].values()
    assert (alarm["text"], alarm["names"], alarm["acknowledged_by"]) == ("the gripper does not close", ["sim-2"], "")
    body = {"verb": "acknowledge", "target": alarm["key"], "reason": alarm["text"]}
    answer = client.post("/api/v1/commands", json=body, headers={"Idempotency-Key": "seen-it-0001"})
    assert answer.status_code == 202
    tracker = site.app.state.commands
    while tracker.get(answer.json()["id"]).state != "effective":
        tracker.refresh()
    (alarm,) = client.get("/api/v1/fleet").json()["alarms"].values()
    assert alarm["acknowledged_by"] == "operator-0"


def test_an_acknowledgement_is_taken_back() -> None:
    alarms, away = Alarms(), lab(*offline("s1"))
    given = [seen("offline", 20), replace(seen("offline", 30), verb="acknowledge undo")]
    assert alarms.update(away, given[:1], 40)["offline"].acknowledged_by == "ada"
    assert alarms.update(away, given, 50)["offline"].acknowledged_by == ""
    assert alarms.update(away, [*given, seen("offline", 60, "bob")], 70)["offline"].acknowledged_by == "bob"


def test_a_robot_that_waits_for_a_demonstration_says_so() -> None:
    waits = StationLine(name="s1", phase="wait-person", moved_by="people")
    found = Alarms().update(lab(waits, StationLine(name="s2", phase="wait-person")), ())
    assert {alarm.text: alarm.names for alarm in found.values()} == {
        "Waiting for a person to demonstrate the task": ("s1",), "Waiting for an operator": ("s2",),
    }  # fmt: skip
