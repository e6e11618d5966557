"""A stop is handed over in memory and then written: once in the ledger, whatever the disk and the process do."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from enpire.campaign.campaign import Campaign
from enpire.errors import EnpireError
from enpire.files import parse, plain
from enpire.home import Home
from enpire.lab import Lab
from enpire.loop import turn
from enpire.requests.operator_commands import CommandInbox, OperatorCommand, leave_command
from enpire.steps.begin import begin_or_resume
from enpire.store import durable
from enpire.store.ledger import SqliteLedger
from tests.enpire.test_loop import CAMPAIGN
from tests.fakes.fake_fleet import FakeFleet
from tests.fakes.sample_events import append

STOP = OperatorCommand(command_id="S1", kind="stop", operator="anna")
RESUME = OperatorCommand(command_id="R1", kind="resume", operator="anna")


def refuse_writes(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """The disk refuses every file of the inbox."""

    def refused(path: Path, data: bytes) -> None:
        error = OSError(code, "refused")
        raise durable.refusal(error, path) from error

    monkeypatch.setattr("enpire.requests.file_queue.durable.write", refused)


def accepted(ledger: SqliteLedger) -> list[object]:
    return [event.body["command_id"] for event in ledger.events(kinds=("command accepted",))]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_stop_that_the_disk_refuses_reaches_the_stations_and_says_that_it_is_not_recorded(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    with monkeypatch.context() as patched:
        refuse_writes(patched, code)
        assert lab.inbox.leave(STOP) == "S1"
        with pytest.raises(EnpireError, match="refused"):
            lab.inbox.leave(RESUME)
    assert set(lab.inbox.unrecorded()) == {"S1"}
    assert "refused" in lab.inbox.unrecorded()["S1"]
    turn(lab)
    fleet = cast("FakeFleet", lab.fleet)
    assert {station for station, control, _ in fleet.controls if control == "stop"} == set(lab.stations)
    assert not lab.inbox.unrecorded()
    assert accepted(cast("SqliteLedger", lab.ledger)) == ["S1"]
    assert CommandInbox(lab.home.inbox).leave(STOP) == "S1"  # the same click, answered by a later process
    assert not list(CommandInbox(lab.home.inbox).waiting())


def test_a_stop_left_many_times_in_memory_and_on_disk_is_one_command(lab: Lab) -> None:
    for _ in range(3):
        lab.inbox.leave(STOP)
        leave_command(lab.home.inbox, STOP)
    assert list(lab.inbox.waiting()) == [STOP]
    for _ in range(3):
        turn(lab)
        lab.inbox.leave(STOP)
        leave_command(lab.home.inbox, STOP)
    turn(lab)
    assert accepted(cast("SqliteLedger", lab.ledger)) == ["S1"]


def test_a_stop_whose_file_appears_after_the_ledger_has_it_is_not_carried_out_again(lab: Lab) -> None:
    lab.inbox.leave(STOP)
    file = lab.home.inbox / "operator" / "stations" / "S1.json"
    data = file.read_bytes()
    turn(lab)
    (lab.home.inbox / "done" / "S1.json").unlink()
    file.write_bytes(data)  # the page's thread was slower than the loop
    turn(lab)
    assert accepted(cast("SqliteLedger", lab.ledger)) == ["S1"]
    assert not file.exists()


def test_a_process_killed_between_the_ledger_and_the_file_does_not_record_a_stop_twice(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enpire.steps.begin._verifier", lambda campaign: SimpleNamespace(digest=""))
    monkeypatch.setattr("enpire.steps.begin._limit_ticks", lambda campaign: 100)
    ledger = SqliteLedger(home.ledger)
    campaign = parse(Campaign, plain(CAMPAIGN), "the campaign")
    campaign_id = begin_or_resume(ledger, campaign, home).campaign_id
    said = {"campaign_id": campaign_id, "command_id": "S1", "verb": "stop", "station": "", "by": "anna"}
    append(ledger, [("command requested", said), ("command accepted", said)])
    leave_command(home.inbox, STOP)
    leave_command(home.inbox, RESUME)
    state = begin_or_resume(ledger, campaign, home)
    assert state.holds.at("one") == {"stop": "anna"}
    assert list(CommandInbox(home.inbox).waiting()) == [RESUME]
    ledger.close()


def test_a_stop_asked_while_the_campaign_begins_is_meant(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enpire.steps.begin._verifier", lambda campaign: SimpleNamespace(digest=""))
    monkeypatch.setattr("enpire.steps.begin._limit_ticks", lambda campaign: 100)
    ledger, inbox = SqliteLedger(home.ledger), CommandInbox(home.inbox)
    inbox.leave(STOP)
    begin_or_resume(ledger, parse(Campaign, plain(CAMPAIGN), "the campaign"), home, inbox)
    assert list(inbox.waiting()) == [STOP]
    ledger.close()


def test_a_stop_of_a_station_that_joins_again_later_is_accepted_and_a_resume_is_not(lab: Lab) -> None:
    lab.stations.clear()
    lab.inbox.leave(OperatorCommand(command_id="S2", kind="stop", target="two", operator="anna"))
    lab.inbox.leave(OperatorCommand(command_id="S3", kind="stop", target="nobody", operator="anna"))
    lab.inbox.leave(OperatorCommand(command_id="R2", kind="resume", target="two", operator="anna"))
    lab.last_done_s["inbox"] = -1e9
    turn(lab)
    assert accepted(cast("SqliteLedger", lab.ledger)) == ["S2"]
    assert lab.state.holds.at("two") == {"stop": "anna"}
