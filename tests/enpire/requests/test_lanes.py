"""Lanes of the inbox: the folder says who asks, each lane has its own rate, and no flood hides a request or a stop."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import cast

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.errors import UsageError
from enpire.home import Home
from enpire.ids import mint
from enpire.lab import Lab
from enpire.loop import turn
from enpire.requests import agent_requests, operator_commands
from enpire.requests.agent_requests import FLOOD, AgentInbox, AgentRequest, Flood, ForgedRequest, RequestKind, Sender
from enpire.requests.file_queue import SCANNED, Unreadable
from enpire.requests.operator_commands import OperatorCommand
from tests.agent_loop.pretend_lab import Running
from tests.fakes.fake_fleet import FakeFleet
from tests.fakes.lab_inbox import refusals

CLAIM: dict[str, object] = {
    "statement": "more skill helps",
    "falsifier": "the gate says no",
    "regime": "offline RL",
    "kind": "improve",
}
ONE, TWO = (Sender(campaign_id="C1", author="search", lane=lane) for lane in ("one", "two"))


def forged(request_id: str = "", **claimed: str) -> str:
    """A request that claims to be of another session."""
    claims = {"campaign_id": "C1", "author": "human", "lane": "operator", **claimed}
    return json.dumps({"wish_id": request_id or mint(), "verb": "hypothesis", "said": CLAIM, **claims})


def flood(folder: Path, count: int, content: str = "", **claimed: str) -> None:
    """Many small valid requests, written without a sync, as an attacker would write them."""
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(count):
        request_id = mint()
        (folder / f"{request_id}.json").write_text(content or forged(request_id, **claimed))


def everything(inbox: AgentInbox) -> list[AgentRequest | Unreadable]:
    """What the loop takes in one look; every answered request is removed."""
    found = list(inbox.waiting())
    for item in found:
        if isinstance(item, AgentRequest):
            inbox.remove(item)
    return found


@pytest.mark.parametrize("lane", ["one", "a lane/with ../ signs", "..", "münchen=2"])
def test_author_and_lane_come_from_the_folder(home: Home, lane: str) -> None:
    folder = agent_requests.folder_of(home.inbox, "tests.mine:Agent", lane)
    assert folder.parent == home.inbox / "lanes"
    flood(folder, 1)
    [request] = everything(AgentInbox(home.inbox))
    assert (request.author, request.lane) == ("tests.mine:Agent", lane)
    assert not list(folder.iterdir())


def test_a_request_that_names_another_session_is_forged(home: Home) -> None:
    folder = agent_requests.folder_of(home.inbox, "search", "one")
    for claims in ({"lane": "two"}, {"author": "human"}, {"author": "one", "lane": "search"}):
        flood(folder, 1, forged("R1", **{"author": "search", "lane": "one", **claims}))
        next(folder.iterdir()).rename(folder / "R1.json")
        [found] = everything(AgentInbox(home.inbox))
        assert isinstance(found, ForgedRequest), claims
        assert (found.author, found.lane) == ("search", "one")
    for claims in ({"author": "search", "lane": "one"}, {"author": "", "lane": ""}):
        flood(folder, 1, forged("R1", **claims))
        next(folder.iterdir()).rename(folder / "R1.json")
        [found] = everything(AgentInbox(home.inbox))
        assert type(found) is AgentRequest, claims


def test_a_flood_is_seen_and_what_the_tools_leave_is_none(home: Home) -> None:
    for _ in range(agent_requests.MOST_WAITING):
        agent_requests.leave(home.inbox, TWO, "turn", {"text": "x"})
    flood(agent_requests.folder_of(home.inbox, "search", "one"), FLOOD)
    inbox = AgentInbox(home.inbox, lambda: 0.0)
    assert list(inbox.floods()) == [], "nothing was looked at yet"
    next(inbox.waiting())
    assert list(inbox.floods()) == [Flood(author="search", lane="one")]


def test_an_unreadable_file_names_its_lane(home: Home) -> None:
    flood(agent_requests.folder_of(home.inbox, "search", "one"), 1, "{")
    [refused] = everything(AgentInbox(home.inbox))
    assert isinstance(refused, Unreadable)
    assert (refused.author, refused.lane) == ("search", "one")


def test_requests_in_the_folder_of_earlier_versions_are_read_and_claim_no_lane(home: Home) -> None:
    flood(home.inbox / "agents", 1)
    inbox = AgentInbox(home.inbox)
    [request] = everything(inbox)
    assert isinstance(request, AgentRequest)
    assert (request.author, request.lane, request.content) == ("earlier", "earlier", CLAIM)
    assert not everything(inbox)


def test_commands_that_earlier_versions_left_are_carried_out_once(lab: Lab) -> None:
    command = {"command_id": "A1", "verb": "pause campaign", "by": "anna"}
    (lab.home.inbox / "A1.json").write_text(json.dumps(command))
    lab.last_done_s["inbox"] = -1e9
    turn(lab)
    assert lab.state.paused
    operator_commands.leave(lab.home.inbox, "pause campaign", operator="anna", command_id="A1")
    assert not list(operator_commands.waiting(lab.home.inbox))


def test_each_lane_has_its_own_rate(home: Home) -> None:
    now = [0.0]
    inbox = AgentInbox(home.inbox, lambda: now[0])
    flood(agent_requests.folder_of(home.inbox, "search", "one"), 400)
    taken = sum(len(everything(inbox)) for _ in range(200))
    assert taken == agent_requests.A_MINUTE
    agent_requests.leave(home.inbox, TWO, "hypothesis", CLAIM)
    assert [item.lane for item in everything(inbox)] == ["two"], "a lane that is flooded delays no other"
    now[0] += 30
    assert sum(len(everything(inbox)) for _ in range(200)) == agent_requests.A_MINUTE // 2


def test_garbage_is_taken_at_the_rate_of_its_lane(home: Home) -> None:
    inbox = AgentInbox(home.inbox, lambda: 0.0)
    flood(agent_requests.folder_of(home.inbox, "search", "one"), 400, "no request")
    assert sum(len(everything(inbox)) for _ in range(200)) == agent_requests.A_MINUTE, "each is an event of the ledger"


def test_a_session_that_waits_too_long_is_told_so(home: Home) -> None:
    for _ in range(agent_requests.MOST_WAITING):
        agent_requests.leave(home.inbox, ONE, "turn", {"text": "x"})
    with pytest.raises(UsageError, match="64 requests of the agent session 'one' wait for the loop"):
        agent_requests.leave(home.inbox, ONE, "turn", {"text": "x"})
    agent_requests.leave(home.inbox, TWO, "turn", {"text": "x"})


def test_no_kind_of_file_hides_a_request_or_holds_up_the_reader(home: Home) -> None:
    folder = agent_requests.folder_of(home.inbox, "search", "one")
    flood(folder, 1)
    (folder / "locked.json" / "full").mkdir(parents=True)
    (folder / "locked.json").chmod(0o500)
    (folder / "no suffix").write_text("x")
    (folder / "huge.json").touch()
    os.truncate(folder / "huge.json", 2**40)
    (folder / os.fsdecode(b"\xff\xfe.json")).write_bytes(b"{}")
    (folder / ("n" * 250 + ".json")).write_text("{}")
    os.mkfifo(folder / "pipe.json")
    (folder / "link.json").symlink_to(home.root / "secret")
    (folder / "device.json").symlink_to("/dev/zero")
    (home.inbox / "lanes" / "a=linked").symlink_to(home.root)
    (home.inbox / "lanes" / "search=file").write_text("not a folder")
    inbox = AgentInbox(home.inbox)
    began_s = time.process_time()
    found = [item for _ in range(10) for item in everything(inbox)]
    assert time.process_time() - began_s < 2.0
    assert sum(isinstance(item, AgentRequest) for item in found) == 1
    assert len(found) == 9
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["{}.json", "{}", ".staged-{}"])
def test_a_look_takes_a_bounded_time_among_many_files(home: Home, name: str) -> None:
    folder = agent_requests.folder_of(home.inbox, "search", "one")
    folder.mkdir(parents=True)
    for number in range(20_000):
        os.close(os.open(folder / name.format(number), os.O_CREAT | os.O_WRONLY))
    inbox = AgentInbox(home.inbox)
    opened: list[int] = []
    for _ in range(20):
        began_s = time.process_time()
        everything(inbox)
        opened.append(round(1000 * (time.process_time() - began_s)))
    assert sorted(opened)[10] < 50, "milliseconds of a look; reading all names takes some hundred"


def test_the_oldest_request_of_those_scanned_comes_first(home: Home) -> None:
    folder = agent_requests.folder_of(home.inbox, "search", "one")
    flood(folder, SCANNED - 1)
    oldest = sorted(folder.iterdir())[200]
    os.utime(oldest, (1, 1))
    first = next(AgentInbox(home.inbox).waiting())
    assert isinstance(first, AgentRequest)
    assert first.request_id == oldest.stem


def test_a_stop_is_carried_out_at_once_among_other_commands_and_requests(lab: Lab) -> None:
    for _ in range(200):
        operator_commands.leave(lab.home.inbox, "judge failure", "no such episode", "anna")
    for number in range(4):
        flood(agent_requests.folder_of(lab.home.inbox, "search", str(number)), 1000)
    operator_commands.leave(lab.home.inbox, "stop", operator="anna", command_id="S1")
    lab.last_done_s["inbox"] = -1e9
    turn(lab)
    accepted = [event.body["command_id"] for event in lab.ledger.events(kinds=("command accepted",))]
    assert accepted == ["S1"]
    handled = len(list(lab.ledger.events(kinds=("command refused", "wish refused"))))
    assert handled <= operator_commands.MOST + 4 * agent_requests.PER_LOOK, "one turn does a bounded part of the rest"


@pytest.mark.parametrize("from_page", [True, False])
def test_a_stop_reaches_every_station_within_two_turns_of_a_loop_whose_agents_flood_it(
    lab: Lab, from_page: bool
) -> None:
    fleet, inbox = cast("FakeFleet", lab.fleet), lab.home.inbox
    lanes = {str(number): agent_requests.folder_of(inbox, "search", str(number)) for number in range(2)}
    now_s = [lab.clock()]
    lab.clock = lambda: now_s[0]

    def flooded_turn() -> int:
        """One turn of the loop in which the agents' requests are due; how many of them it answered."""
        before = len(lab.state.proposals.answered)
        lab.last_done_s["agents"] = -1e9
        turn(lab)
        now_s[0] += 0.02  # as long as a turn takes at least
        return len(lab.state.proposals.answered) - before

    def commanded(command: str) -> set[str]:
        return {station for station, control, _ in fleet.controls if control == command}

    for name, folder in lanes.items():
        flood(folder, FLOOD + 40, author="search", lane=name)
    assert min(flooded_turn() for _ in range(3)) > 0, "the loop answers the flood"
    seen, turns = lab.state.newest_event, list[int]()
    lab.last_done_s["inbox"] = now_s[0] - 0.02  # files of commands were looked at in the last turn
    if from_page:
        lab.inbox.leave(OperatorCommand(command_id="S1", kind="stop", operator="ann", seen=seen))
    else:
        operator_commands.leave(inbox, "stop", operator="ann", command_id="S1", seen=seen)
    while commanded("stop") != set(fleet.names) and len(turns) < 10:
        turns.append(flooded_turn())
    assert len(turns) <= (1 if from_page else 2), "files of commands are looked at every 30 ms"
    assert max(turns) <= len(lanes) * agent_requests.PER_LOOK, "so no turn is long"
    operator_commands.leave(inbox, "resume", operator="bob", seen=seen)
    for _ in range(4):
        flooded_turn()
    assert [event.body["command_id"] for event in lab.ledger.events(kinds=("command effective",))] == ["S1"]
    assert ["the stop of ann" in why for why in refusals(lab)] == [True], "a resume that was sent before the stop"
    assert not commanded("resume")
    assert min(len(list(folder.iterdir())) for folder in lanes.values()) >= FLOOD, "the flood has not ended"


def answered(lab: Running, sender: Sender, kind: RequestKind, content: dict[str, object]) -> str:
    """Why the loop refused a request; empty if it did not."""
    request_id = agent_requests.leave(lab.home.inbox, sender, kind, content)
    lab.until(lambda lab: request_id in lab.state.proposals.answered)
    refusals = [event.body for event in lab.ledger.events(kinds=("wish refused", "experiment refused"))]
    return next((str(body["why"]) for body in refusals if body["wish_id"] == request_id), "")


def test_hypotheses_experiments_and_bytes_of_a_lane_are_limited(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enpire.steps.evolve.MAX_HYPOTHESES", 2)
    monkeypatch.setattr("enpire.steps.evolve.MAX_EXPERIMENTS", 1)
    with Running(home, paused=True) as lab:
        assert [answered(lab, ONE, "hypothesis", CLAIM) for _ in range(2)] == ["", ""]
        hypothesis_id = next(iter(lab.lab.state.proposals.hypotheses))
        assert not answered(lab, ONE, "experiment", {"hypothesis_id": hypothesis_id, "changes": {"skill": 0.5}})
    with Running(home, paused=True) as lab:  # the counts come from the ledger
        assert "proposed 2 hypotheses, which is the limit" in answered(lab, ONE, "hypothesis", CLAIM)
        sent = {"hypothesis_id": hypothesis_id, "changes": {"skill": 0.6}}
        assert "submitted 1 experiments, which is the limit" in answered(lab, ONE, "experiment", sent)
        assert not answered(lab, TWO, "hypothesis", CLAIM), "another lane has its own quota"
        used = lab.lab.state.proposals.recorded["one"]
        assert used > len(json.dumps(CLAIM)) * 2
        monkeypatch.setattr("enpire.steps.evolve.MAX_RECORDED_BYTES", used - 1)
        assert "MiB of the ledger, the limit" in answered(lab, ONE, "finding", {"text": "x"})
        assert not answered(lab, ONE, "give up", {"text": "x"})


@pytest.mark.parametrize(("tripwire", "files"), [("forged lane", 9), ("flood", 2 * FLOOD)])
def test_a_session_that_forges_or_floods_has_its_experiments_held_until_a_person_clears_one(
    home: Home, tripwire: str, files: int
) -> None:
    with Running(home, paused=True) as lab:
        experiments, held = lab.lab.state.proposals.experiments, lab.lab.state.quarantine.held
        for number, sender in enumerate((ONE, TWO)):
            assert not answered(lab, sender, "hypothesis", CLAIM)
            hypothesis_id = list(lab.lab.state.proposals.hypotheses)[-1]
            skill = {"hypothesis_id": hypothesis_id, "changes": {"skill": 0.5 + number / 10}}
            assert not answered(lab, sender, "experiment", skill)
        mine, other = experiments
        claim_id = experiments[mine].hypothesis_id
        claims = {"lane": "two"} if tripwire == "forged lane" else {}
        folder = agent_requests.folder_of(home.inbox, "search", "one")
        for _ in range(files):
            request_id = mint()
            (folder / f"{request_id}.json").write_text(forged(request_id, author="search", **{"lane": "one", **claims}))
        lab.until(lambda lab: mine in held)
        assert [event.tripwire for event in held[mine]] == [tripwire]
        assert other not in held
        assert [one.experiment_id for one in lab.lab.state.proposals.queue()] == [other]
        lab.until(lambda lab: len(list(folder.iterdir())) <= max(0, files - 20))
        assert len(list(lab.ledger.events(kinds=("lane suspected",)))) == 1, "once, until a person clears it"
        if tripwire == "flood":
            return
        assert not answered(lab, ONE, "give up", {"text": "x", "about": mine})
        assert not answered(lab, ONE, "experiment", {"hypothesis_id": claim_id, "changes": {"skill": 0.7}})
        after = list(experiments)[-1]
        assert after in held, "the next experiment of the session is held, too"
        operator_commands.leave(
            home.inbox, "experiment clear", after, "ada", reason="a bug of its client", seen=lab.ledger.head.seq
        )
        lab.until(lambda lab: after not in held)
        assert not lab.lab.state.quarantine.suspects
        assert rebuilt(lab.ledger, lab.lab.state.campaign_id) == lab.lab.state
