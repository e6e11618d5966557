"""From a proposal to a decision: the road of any candidate, with a real ledger, store and learner process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent_loop import tools
from agent_loop.lab_client import LabClient, RequestRefused
from enpire.campaign.agent_events import HypothesisProposed
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.events import Event
from enpire.errors import EnpireError
from enpire.home import Home, open_home
from enpire.lab import Lab
from enpire.queries import campaigns, texts
from enpire.queries.decision_audit import recompute
from enpire.report.report import write_report
from enpire.requests import agent_requests
from enpire.steps import evolve
from tests.agent_loop.pretend_lab import Running, with_skill

CLAIM = {
    "statement": "more skill helps", "falsifier": "the gate says no", "regime": "offline RL", "kind": "improve",
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def submit(client: LabClient, **changes: object) -> str:
    made = tools.call(client, "propose_hypothesis", CLAIM)
    sent = {"hypothesis_id": made["hypothesis_id"], "changes": changes}
    return str(tools.call(client, "submit_candidate", sent)["experiment_id"])


def test_a_better_recipe_is_kept(home: Home) -> None:
    with Running(home) as lab:
        better = lab.beside(lambda: submit(lab.client("good"), skill=0.9))
        experiment = lab.lab.state.proposals.experiments[better]
        lab.until(lambda lab: experiment.over)
        assert experiment.decision == "keep", experiment
        assert experiment.low > -0.1, "evidence and interval are two statistics that nearly agree"
        assert experiment.metrics == {"skill": 0.9}, "a metric that is not a number is left out of the ledger"
        assert lab.lab.state.champion == experiment.policy_id
        assert lab.lab.state.proposals.recipe_in_force(lab.lab.recipe).settings["skill"] == 0.9
        assert_recomputes(lab)
    with campaigns.open_records(home.root) as records:
        shown = texts.campaign(campaigns.campaign_view(records, "C1"))
    assert "more skill helps" in shown
    assert "keep (better)" in shown
    page = write_report(home.root).read_text()
    assert "Hypotheses of agents" in page
    assert "skill 0.9" in page


def test_a_worse_recipe_is_not_kept(home: Home) -> None:
    with Running(home, recipe=with_skill(0.8)) as lab:
        champion = lab.lab.state.champion
        worse = lab.beside(lambda: submit(lab.client("bad"), skill=0.05))
        experiment = lab.lab.state.proposals.experiments[worse]
        lab.until(lambda lab: experiment.over)
        assert experiment.decision in {"revert", "inconclusive"}
        assert lab.lab.state.champion == champion
        assert lab.lab.state.proposals.recipe_in_force(lab.lab.recipe) == lab.lab.recipe
        assert_recomputes(lab)


def assert_recomputes(lab: Running) -> None:
    checks = recompute(lab.ledger)
    assert [check for check in checks if not check.equal] == []
    assert sum(check.kind == "experiment decided" for check in checks) == 1
    assert rebuilt(lab.ledger, lab.lab.state.campaign_id).proposals == lab.lab.state.proposals


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"skill": 1.5}, "cannot be 1.5"),
        ({"skill": float("nan")}, ""),
        ({"secret": 1}, "not in the search space"),
        ({"colour": "blue"}, "one of 'red', 'green'"),
        ({"steps": 2.5}, "whole numbers"),
        ({"skill": True}, "cannot be True"),
        ({}, "at least one setting"),
        ({"skill": 0.3}, "as it is"),
    ],
)
def test_what_lies_outside_the_space_is_refused(home: Home, changes: dict[str, object], why: str) -> None:
    with Running(home, paused=True) as lab:
        if why:
            with pytest.raises(RequestRefused, match=why):
                lab.beside(lambda: submit(lab.client(), **changes))
            kinds = [event.kind for event in lab.ledger.events()]
            assert kinds.count("experiment refused") == 1
            assert next(iter(lab.lab.state.proposals.experiments.values())).phase == "invalid"
        else:
            with pytest.raises((EnpireError, ValueError)):
                lab.beside(lambda: submit(lab.client(), **changes))
        assert not lab.lab.state.proposals.queue()


def test_a_lane_has_one_undecided_experiment_and_no_recipe_is_asked_twice(home: Home) -> None:
    with Running(home, paused=True) as lab:
        first = lab.beside(lambda: submit(lab.client(), skill=0.5))
        with pytest.raises(RequestRefused, match="not decided yet; wait"):
            lab.beside(lambda: submit(lab.client(), skill=0.6))
        with pytest.raises(RequestRefused, match="exactly this recipe"):
            lab.beside(lambda: submit(lab.client("two"), skill=0.5))
        with pytest.raises(RequestRefused, match="belongs to the agent session"):
            lab.beside(lambda: tools.call(lab.client("two"), "give_up", {"reason": "tired", "about": first}))
        told = lab.beside(lambda: tools.call(lab.client(), "give_up", {"reason": "a typing error", "about": first}))
        assert told == {"noted": True, "scored": "neutral"}
        assert lab.lab.state.proposals.experiments[first].phase == "cancelled"


def test_adopting_and_findings_reach_the_peers(home: Home) -> None:
    with Running(home, paused=True) as lab:
        first = lab.beside(lambda: submit(lab.client(), skill=0.5))
        with pytest.raises(RequestRefused, match="your own"):
            lab.beside(lambda: tools.call(lab.client(), "adopt", {"experiment_id": first}))
        adopted = lab.beside(lambda: tools.call(lab.client("two"), "adopt", {"experiment_id": first}))
        assert adopted["changes"] == {"skill": 0.5}
        finding = {"text": "skill matters", "about": first}
        lab.beside(lambda: tools.call(lab.client(), "post_finding", finding))
        listed = lab.beside(lambda: tools.call(lab.client("two"), "list_experiments", {}))
        assert "skill matters" in str(listed["findings"])
        assert "('two',)" in str(lab.lab.state.proposals.experiments[first].adopted_by)
        shown = lab.beside(lambda: tools.call(lab.client("two"), "get_experiment", {"experiment_id": first}))
        assert shown["phase"] == "queued"
        with pytest.raises(RequestRefused, match="no hypothesis or experiment"):
            lab.beside(lambda: tools.call(lab.client(), "post_finding", {"text": "x", "about": "nothing"}))


def test_a_lane_that_finishes_or_gives_up_proposes_nothing_more(home: Home) -> None:
    with Running(home, paused=True) as lab:
        queued = lab.beside(lambda: submit(lab.client("one"), skill=0.5))
        with pytest.raises(RequestRefused, match="not decided yet; wait for it, or give it up"):
            lab.beside(lambda: tools.call(lab.client("one"), "finish", {"summary": "too early"}))
        lab.beside(lambda: tools.call(lab.client("one"), "give_up", {"reason": "no idea is left"}))
        assert lab.lab.state.proposals.experiments[queued].phase == "cancelled"
        told = lab.beside(lambda: tools.call(lab.client("two"), "finish", {"summary": "skill is what matters"}))
        assert told == {"noted": True, "over": True}
        for lane, why in (("one", r"'one' ended its work \(given up: no idea is left\)"), ("two", "skill is what")):
            with pytest.raises(RequestRefused, match=why):
                lab.beside(lambda lane=lane: submit(lab.client(lane), skill=0.6))
        brief = lab.beside(lambda: tools.call(lab.client("three"), "get_brief", {}))
        assert brief["lanes_that_finished"] == {"one": "given up: no idea is left", "two": "skill is what matters"}
    assert rebuilt_lanes(home) == {"one", "two"}


def rebuilt_lanes(home: Home) -> set[str]:
    with campaigns.open_records(home.root) as records:
        return set(rebuilt(records.ledger, "C1").proposals.finished)


def test_giving_up_a_hypothesis_cancels_its_own_experiment_only(home: Home) -> None:
    with Running(home, paused=True) as lab:
        first = lab.beside(lambda: submit(lab.client("one"), skill=0.5))
        other = lab.beside(lambda: submit(lab.client("two"), skill=0.6))
        proposals = lab.lab.state.proposals
        about = {"reason": "a slip of the pen", "about": proposals.experiments[first].hypothesis_id}
        lab.beside(lambda: tools.call(lab.client("two"), "give_up", about))
        assert proposals.experiments[first].phase == "queued", "only the lane itself gives up what it submitted"
        lab.beside(lambda: tools.call(lab.client("one"), "give_up", about))
        assert (proposals.experiments[first].phase, proposals.experiments[other].phase) == ("cancelled", "queued")
        assert not proposals.finished


def test_two_recipes_are_compared_setting_by_setting(home: Home) -> None:
    with Running(home, paused=True) as lab:
        one = lab.beside(lambda: submit(lab.client("one"), skill=0.5))
        two = lab.beside(lambda: submit(lab.client("two"), skill=0.6, steps=2))
        told = lab.beside(lambda: tools.call(lab.client(), "get_diff", {"experiment_id": two, "against": one}))
        assert told["settings"] == {"skill": {"from": 0.5, "to": 0.6}, "steps": {"from": 4, "to": 2}}
        told = lab.beside(lambda: tools.call(lab.client(), "get_diff", {"experiment_id": two}))
        assert told["against"] == "the campaign's recipe"
        with pytest.raises(EnpireError, match="no experiment 'x'"):
            tools.call(lab.client(), "get_diff", {"experiment_id": two, "against": "x"})


def test_spoilt_wishes_and_wishes_for_another_campaign_do_not_stop_the_loop(home: Home) -> None:
    folder = home.inbox / "agents"
    folder.mkdir()
    (folder / "a.json").write_bytes(b"[" * 9000)
    (folder / "b.json").write_text('{"wish_id": "other"}')
    (folder / "c.json").write_bytes(b"x" * 40_000)
    foreign = '{"wish_id": "d", "campaign_id": "other", "verb": "turn", "author": "x", "lane": "y", "said": {}}'
    (folder / "d.json").write_text(foreign)
    with Running(home, paused=True) as lab:
        lab.until(lambda lab: not list(folder.glob("*.json")))
        refused = [str(event.body["why"]) for event in lab.ledger.events(kinds=("wish refused",))]
        assert len(refused) == 4
        assert any("The request is for campaign" in why for why in refused)


def test_nothing_that_is_planted_among_the_wishes_is_followed_or_waited_for(home: Home, tmp_path: Path) -> None:
    folder, outside = home.inbox / "agents", tmp_path / "outside"
    (folder / "tree.json" / "full").mkdir(parents=True)
    outside.mkdir()
    for name in ("done", "bad"):
        (folder / name).symlink_to(outside)
    (folder / "link.json").symlink_to(home.root / "secret")
    os.mkfifo(folder / "pipe.json")
    (folder / "device.json").symlink_to("/dev/zero")
    with Running(home, paused=True) as lab:
        lab.until(lambda lab: not list(folder.glob("*.json")))
        told = [str(event.body["why"]) for event in lab.ledger.events(kinds=("wish refused",))]
        assert len(told) == 6, "the tree, the three links and pipes, and the two links that are no JSON files"
        lab.beside(lambda: tools.call(lab.client(), "propose_hypothesis", CLAIM))
    assert not list(outside.iterdir())


@pytest.mark.parametrize("skill", ["1" + "0" * 400, "1e400", "NaN", '"\\ud83d"', "9223372036854775808"])
def test_a_number_that_nobody_can_hold_is_set_aside_and_the_loop_goes_on(home: Home, skill: str) -> None:
    folder = home.inbox / "agents"
    folder.mkdir()
    said = f'{{"hypothesis_id": "x", "changes": {{"skill": {skill}}}}}'
    wish = f'{{"wish_id": "e", "campaign_id": "C1", "verb": "experiment", "author": "x", "lane": "y", "said": {said}}}'
    (folder / "e.json").write_text(wish)
    with Running(home, paused=True) as lab:
        lab.until(lambda lab: not list(folder.glob("*.json")))
        [kept] = home.inbox.glob("agents-bad/*.json")
        assert kept.read_text() == wish
        told = [str(event.body["why"]) for event in lab.ledger.events(kinds=("wish refused",))]
        assert ["The request e.json cannot be read" in why for why in told] == [True]


def test_a_wish_that_breaks_its_reader_is_refused_with_the_reason(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(recipe: object, changes: object, name: object) -> None:
        raise OverflowError("too large for this reader")

    monkeypatch.setattr("enpire.steps.experiment_checks.changed", broken)
    with Running(home, paused=True) as lab, pytest.raises(EnpireError, match="OverflowError.*too large for this"):
        lab.beside(lambda: submit(lab.client("one"), skill=0.5))


def test_a_wish_is_answered_once_when_the_loop_dies_before_it_puts_it_away(home: Home) -> None:
    with Running(home, paused=True) as lab:
        client = lab.client()
        request_id = agent_requests.leave(home.inbox, client.sender, "hypothesis", CLAIM)
        [file] = home.inbox.glob("lanes/*/*.json")
        kept = file.read_bytes()
        lab.until(lambda lab: request_id in lab.state.proposals.answered)
        assert not file.exists()
    file.write_bytes(kept)
    with Running(home, paused=True) as lab:
        lab.until(lambda lab: not file.exists())
        assert len(lab.lab.state.proposals.hypotheses) == 1


def test_an_answer_that_the_ledger_cannot_hold_is_a_refusal(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """No text of an agent ends the loop, also where a check before it forgot half a character."""
    written = evolve._ANSWERS["hypothesis"]  # pyright: ignore[reportPrivateUsage]

    def forgetful(lab: Lab, request: agent_requests.AgentRequest) -> list[Event]:
        proposed, *rest = written(lab, request)
        assert isinstance(proposed, HypothesisProposed)
        return [replace(proposed, hypothesis=replace(proposed.hypothesis, statement="\ud800")), *rest]

    monkeypatch.setitem(evolve._ANSWERS, "hypothesis", forgetful)  # pyright: ignore[reportPrivateUsage]
    with Running(home) as lab:
        with pytest.raises(RequestRefused, match="cannot be recorded"):
            lab.beside(lambda: tools.call(lab.client("one"), "propose_hypothesis", CLAIM))
        monkeypatch.undo()
        assert lab.beside(lambda: tools.call(lab.client("one"), "propose_hypothesis", CLAIM))["hypothesis_id"]
