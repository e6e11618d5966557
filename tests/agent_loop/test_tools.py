"""The registry: what it shows, what it refuses, and what no tool can do."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from agent_loop import tools
from agent_loop.brief import LARGEST, digest, shortened
from agent_loop.lab_client import Answer, LabClient
from agent_loop.tool_documents import open_client
from enpire.errors import EnpireError, FileProblem, UnknownName, UsageError
from enpire.home import open_home
from enpire.requests.agent_requests import RequestKind
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.test_proposal_lifecycle import CLAIM
from tests.fakes.sample_campaign import keep_files, record_campaign

NAMES = {
    "get_brief", "list_experiments", "get_experiment", "get_diff", "get_episode", "query_findings", "search_notes",
    "propose_hypothesis", "submit_candidate", "adopt", "post_finding", "give_up", "finish", "wait", "get_code",
    "submit_code", "revert_code", "take_skill", "submit_task",
}  # fmt: skip


@pytest.fixture
def client(tmp_path: Path) -> LabClient:
    record = record_campaign(tmp_path)
    record.flush()
    return open_client(tmp_path)


def test_the_tools_are_these_and_their_schemas_are_json() -> None:
    assert set(tools.BY_NAME) == NAMES
    for schema in tools.anthropic_schemas():
        assert json.loads(json.dumps(schema)) == schema
        assert isinstance(schema["input_schema"], dict)
        assert schema["input_schema"]["type"] == "object"
    candidate = tools.BY_NAME["submit_candidate"].schema()
    assert candidate["required"] == ["hypothesis_id"], "a regime may be tried as it is"
    told = str(tools.anthropic_schemas()).lower()
    assert not [word for word in ("'verdict'", "'seed'", "'budget'", "'score'") if word in told]


WRITING = {
    "propose_hypothesis",
    "submit_candidate",
    "submit_code",
    "submit_task",
    "adopt",
    "revert_code",
    "post_finding",
    "give_up",
    "finish",
}
"""Tools that change the campaign. All others only read; `get_brief` also notes that it was read."""
SAMPLE: dict[str, dict[str, object]] = {
    "get_experiment": {"experiment_id": "x"}, "get_diff": {"experiment_id": "x"}, "get_episode": {"episode_id": "x"},
    "query_findings": {"words": "grip"}, "search_notes": {"words": "grip"}, "wait": {"seconds": 0.0},
    "propose_hypothesis": dict(CLAIM),
    "submit_candidate": {"hypothesis_id": "x", "changes": {"skill": 0.5}}, "adopt": {"experiment_id": "x"},
    "get_code": {}, "revert_code": {}, "submit_code": {"hypothesis_id": "x", "files": {"learner.py": "x"}},
    "take_skill": {"skill": "abcdef"}, "submit_task": {"files": {"task.py": "x"}, "about": "x"},
    "post_finding": {"text": "x"}, "give_up": {"reason": "x"}, "finish": {"summary": "x"},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_tool_that_says_that_it_only_reads_leaves_no_request(client: LabClient, name: str) -> None:
    asked: list[str] = []

    class Refusing(LabClient):
        def request(self, kind: RequestKind, content: Mapping[str, object]) -> Answer:
            asked.append(kind)
            raise UsageError("no loop runs in this test")

        def send(self, kind: RequestKind, content: Mapping[str, object]) -> bool:
            asked.append(kind)
            return False

    with contextlib.suppress(EnpireError):
        tools.call(Refusing(client.home, client.sender), name, SAMPLE.get(name, {}))
    assert tools.BY_NAME[name].writes == (name in WRITING)
    assert bool(asked) == (name in WRITING) or (name, asked) == ("get_brief", ["brief"])


def test_wrong_arguments_are_refused_in_a_sentence(client: LabClient) -> None:
    with pytest.raises(UnknownName, match="There is no tool 'fly'"):
        tools.call(client, "fly", {})
    with pytest.raises(FileProblem, match="unknown key 'seed'"):
        tools.call(client, "submit_candidate", {"hypothesis_id": "x", "changes": {}, "seed": 3})
    with pytest.raises(FileProblem, match="The call of get_episode lacks the key"):
        tools.call(client, "get_episode", {})
    with pytest.raises(UnknownName, match="no experiment 'x'"):
        tools.call(client, "get_experiment", {"experiment_id": "x"})


def test_numbers_without_bound_are_refused_in_a_sentence(client: LabClient) -> None:
    huge = 10**400
    for after in (2**62, -1):
        with pytest.raises(UsageError, match="the `after` of an earlier answer of wait, from 0 to"):
            tools.call(client, "wait", {"seconds": 0.0, "after": after})
    for after in (10**30, huge):
        with pytest.raises(FileProblem, match="key 'after' must be a whole number of at most 64 bits"):
            tools.call(client, "wait", {"seconds": 0.0, "after": after})
    with pytest.raises(FileProblem, match="must be a finite number, not a whole number of 1329 bits"):
        tools.call(client, "wait", {"seconds": huge})


def test_half_a_character_cannot_reach_the_records_and_spoil_every_brief(client: LabClient) -> None:
    with pytest.raises(FileProblem, match="whole Unicode characters"):
        tools.call(client, "post_finding", {"text": "half \ud83d of it"})
    with pytest.raises(FileProblem, match="the name of a key must be whole Unicode"):
        tools.call(client, "submit_candidate", {"hypothesis_id": "x", "changes": {"\ud83d": 1}})


def test_hidden_starts_are_not_shown(client: LabClient) -> None:
    for number in (1, 2, 50, 60):
        order_id = f"01J{number:023}"
        keep_files_of(client, order_id, number)
        told = tools.call(client, "get_episode", {"episode_id": order_id})
        assert told["purpose"] in {"demonstrate", "collect"}
        assert len(told["state"]) == 3  # pyright: ignore[reportArgumentType]
        assert "start" not in told
    for number in (5, 44, 80):
        with pytest.raises(UsageError, match="hidden start"):
            tools.call(client, "get_episode", {"episode_id": f"01J{number:023}"})
    with pytest.raises(UnknownName):
        tools.call(client, "get_episode", {"episode_id": "nothing"})


def keep_files_of(client: LabClient, order_id: str, number: int) -> None:
    from tests.fakes.sample_campaign import CAMPAIGN, CampaignWriter

    keep_files(CampaignWriter(client.home, campaign_id=CAMPAIGN, name="x"), order_id, number)


def test_without_a_running_campaign_nothing_is_left_lying(client: LabClient) -> None:
    with pytest.raises(UsageError, match="No campaign runs"):
        tools.call(client, "post_finding", {"text": "hello"})
    assert not list((client.home / "inbox").rglob("*.json"))


def test_a_brief_is_small_recorded_and_says_the_space(tmp_path: Path) -> None:
    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        lab.until(lambda lab: lab.state.proposals.declared)
        told = lab.beside(lambda: tools.call(lab.client(), "get_brief", {}))
        assert told["recorded"] is True
        lab.until(lambda lab: any(event.kind == "brief read" for event in lab.ledger.events()))
        recorded = next(iter(lab.ledger.events(kinds=("brief read",)))).body
        assert recorded["sha256"] == told["sha256"]
        body = {name: value for name, value in told.items() if name not in ("sha256", "recorded")}
        assert digest(body) == (told["sha256"], recorded["size"])
        assert cast("dict[str, object]", told["campaign"])["state"] == "paused"
        assert set(told["space"]) == {"skill", "colour", "steps"}  # pyright: ignore[reportArgumentType]
        assert "secret" not in str(told)


def test_a_brief_that_is_too_long_loses_its_oldest_cards() -> None:
    long: dict[str, object] = {
        "experiments": [{"n": n, "x": "y" * 900} for n in range(200)],
        "findings": [],
        "rounds": [],
    }
    short = shortened(long)
    assert digest(short)[1] <= LARGEST
    assert short["experiments"][-1]["n"] == 199  # pyright: ignore[reportIndexIssue]


def test_in_process_tools_take_keywords(client: LabClient) -> None:
    by_name = tools.in_process(client)
    assert set(by_name) == NAMES
    assert by_name["list_experiments"]()["experiments"] == []
    with pytest.raises(EnpireError):
        by_name["get_episode"](episode_id="nothing")
