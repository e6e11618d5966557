"""What came of decided experiments: in the brief of the same campaign, and of the next one in the home."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_loop import tools
from agent_loop.brief import make_brief
from agent_loop.lab_client import LabClient
from agent_loop.past_experiments import LARGEST, LONGEST_TEXT, past_experiments
from enpire.files import canonical
from enpire.home import open_home
from enpire.service.asking import Sender
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.test_proposal_lifecycle import submit
from tests.fakes.sample_events import append

TASK = {"task": "coin", "goal": {"success": 0.99, "confirm_starts": 30}, "campaign": {}}
CALLED = {
    "author": "test", "lane": "good", "provider": "anthropic", "endpoint": "messages", "model": "m", "status": 200,
    "outcome": "answered", "fresh": 100, "cache_read": 20, "cache_write": 3, "output": 7, "bound": 500,
    "campaign_id": "C1", "call_id": "1", "money": 0.25, "currency": "USD",
}  # fmt: skip


def test_a_decided_experiment_is_told_to_the_next_campaign_too(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    with Running(home) as lab:
        append(lab.ledger, [("model called", CALLED)])
        better = lab.beside(lambda: submit(lab.client("good"), skill=0.9))
        experiment = lab.lab.state.proposals.experiments[better]
        lab.until(lambda lab: experiment.over)
        said = "Skill is what counts. " * 40
        lab.beside(lambda: tools.call(lab.client("good"), "post_finding", {"text": said, "about": better}))
        lab.beside(lambda: tools.call(lab.client("other"), "post_finding", {"text": "No!", "about": better}))
        [entry] = past_experiments(lab.client("other"), lab.client("other").proposals())
        assert make_brief(lab.client("other"))["past_experiments"] == [entry]
        entry.pop("failures", None)  # `test_failure_evidence.py`
        append(lab.ledger, [("campaign started", {"campaign_id": "C2", "name": "again", **TASK})])
        append(lab.ledger, [("campaign started", {"campaign_id": "C3", "name": "other", **TASK, "task": "push_t"})])
    for campaign_id, kept in (("C2", [entry]), ("C3", [])):
        client = LabClient(home.root, Sender(campaign_id=campaign_id, author="test", lane="one"))
        found = past_experiments(client, client.proposals())
        assert [{key: value for key, value in one.items() if key != "failures"} for one in found] == kept
        assert past_experiments(client, client.proposals()) == found, "what is read once is not counted twice"
    assert experiment.gate is not None
    gain = [round(value, 2) for value in (experiment.delta, experiment.low, experiment.high)]
    assert entry == {
        "campaign": "C1",
        "experiment_id": better,
        "lane": "good",
        "claim": "more skill helps",
        "tried": {"skill": 0.9},
        "search_gain": None,
        "gate_gain": gain,
        "pairs": experiment.gate.pairs,
        "decision": "keep",
        "why": experiment.why,
        "cost": {"tokens": 130, "money": {"USD": 0.25}, "robot_min": None},
        "agents_words": said[:LONGEST_TEXT],
    }


def test_the_newest_entries_are_kept_within_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = open_home(tmp_path / "home")
    with Running(home, paused=True) as lab:
        first = lab.beside(lambda: submit(lab.client("a"), skill=0.9))
        second = lab.beside(lambda: submit(lab.client("b"), skill=0.8))
        client = lab.client("a")
        seen = client.proposals()
    for experiment in seen.experiments.values():
        experiment.phase, experiment.decision = "decided", "revert"
    assert [one["experiment_id"] for one in past_experiments(client, seen)] == [first, second]
    seen.experiments[second].changes = {f"setting {number}": "\u00e4" * LONGEST_TEXT for number in range(30)}
    assert past_experiments(client, seen)[1]["tried"] == "30 settings, too long to be shown here"
    seen.experiments[second].changes = {"skill": 0.8}
    seen.experiments[second].why = "hopeless"
    assert past_experiments(client, seen)[1]["why"] == "futility"
    seen.experiments[second].why = ""
    seen.experiments[first].why = "x" * LARGEST
    assert [len(str(one["why"])) for one in past_experiments(client, seen)] == [LONGEST_TEXT, 0]
    monkeypatch.setattr("agent_loop.past_experiments.LARGEST", len(canonical(past_experiments(client, seen)[1])) + 10)
    assert [one["experiment_id"] for one in past_experiments(client, seen)] == [second]
