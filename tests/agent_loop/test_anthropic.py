"""The language model behind the tools, with a recorded conversation: no key, no network beyond the loopback."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agent_loop.agent_context import AgentContext
from agent_loop.agents.anthropic import Anthropic
from agent_loop.agents.model import ModelProblem
from agent_loop.lab_client import LabClient, RequestRefused
from agent_loop.tools import TOOLS, in_process
from enpire.campaign.campaign import AgentPlan, read_campaign
from enpire.errors import EnpireError, FileProblem, UsageError
from enpire.home import Home, open_home
from enpire.requests.agent_requests import Sender
from enpire.service.conversations import MOST_BYTES, KeptConversation
from enpire.steps.agent_process import AgentProcess, require_agents
from tests.agent_loop.pretend_lab import CAMPAIGN, Running
from tests.agent_loop.recorded_model import READ, SAID, Recording, served, tool_use, words
from tests.agent_loop.test_proposal_lifecycle import CLAIM

BRIEF: Mapping[str, object] = {"goal": 0.97}


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    recording = Recording(answers=[])
    with served(recording) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "not a key")
        yield recording


def agent(folder: Path, killed_after: int = 99, killed_before: int = 99, **options: object) -> Anthropic:
    """An agent in a process that is killed after it kept, or before it can keep, the message of a number."""
    kept, lines = KeptConversation(folder / "kept.jsonl"), itertools.count(1)

    def keep(line: str, anew: bool) -> bool:
        number = next(lines)
        if number == killed_before:
            raise SystemExit(9)
        done = kept.add(line, anew=anew)
        if number == killed_after:
            raise SystemExit(9)
        return done

    def log(line: str) -> None:
        with (folder / "conversation.jsonl").open("a") as lines:
            lines.write(line + "\n")

    place = AgentContext(
        seed=0, lane="anthropic-1", work=folder, spent=lambda tokens: None, log=log,
        models=os.environ["ANTHROPIC_BASE_URL"], lease="not a key", kept=kept.lines(), keep=keep,
    )  # fmt: skip
    return Anthropic(place, {"model": "a-model", **options})


def test_a_conversation_proposes_and_submits(recording: Recording, tmp_path: Path) -> None:
    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        made = lab.beside(lambda: in_process(lab.client())["propose_hypothesis"](**CLAIM))
        recording.answers = [
            [words("I read first."), tool_use("get_brief")],
            [tool_use("submit_candidate", hypothesis_id=made["hypothesis_id"], changes={"skill": 7})],
            [tool_use("submit_candidate", hypothesis_id=made["hypothesis_id"], changes={"skill": 0.9})],
            [tool_use("fly_away")],
            [words("It waits for its gate.")],
        ]
        said = lab.beside(lambda: agent(tmp_path).turn(in_process(lab.client()), BRIEF))
        assert said == "It waits for its gate."
        assert [one.phase for one in lab.lab.state.proposals.experiments.values()] == ["invalid", "queued"]
    results = [request["messages"][-1]["content"][0] for request in recording.asked[1:]]
    assert [bool(result.get("is_error")) for result in results] == [False, True, False, True]
    assert "numbers from 0.05 to 0.95" in results[1]["content"]
    assert (tmp_path / "conversation.jsonl").read_text().count("\n") == 10


def test_tools_and_conversation_are_marked_for_the_cache(recording: Recording, tmp_path: Path) -> None:
    recording.answers = [[tool_use("nothing")], [words("done")]]
    agent(tmp_path).turn({}, BRIEF)
    for request in recording.asked:
        assert request["stream"] is True
        assert [tool["name"] for tool in request["tools"]] == [tool.name for tool in TOOLS]
        assert request["system"][0]["cache_control"] == {"type": "ephemeral"}
        marks = [block for message in request["messages"] for block in message["content"] if "cache_control" in block]
        assert marks == [request["messages"][-1]["content"][-1]]
    assert "not a key" in str(recording.headers[0])


def test_no_call_begins_that_could_exceed_the_budget(recording: Recording, tmp_path: Path) -> None:
    recording.answers, recording.tokens = [[tool_use("nothing")]] * 99, 5000
    one = agent(tmp_path)
    assert one.turn({}, BRIEF) == "The call is not sent: 600 are left."
    assert recording.spent == len(recording.asked) * (READ + SAID) == 4400
    for before, request in enumerate(recording.asked):
        assert before * (READ + SAID) + READ + request["max_tokens"] <= 5000
    assert one.turn({}, BRIEF) == "done: The call is not sent: 600 are left."
    assert len(recording.asked) == 8


def test_an_answer_that_broke_off_is_not_asked_for_again_beyond_the_budget(
    recording: Recording, tmp_path: Path
) -> None:
    recording.answers, recording.spoilt, recording.tokens = [[words("at last")]], {0: "cut"}, 1250
    assert agent(tmp_path).turn({}, BRIEF) == "done: The call is not sent: 700 are left."
    assert len(recording.asked) == 1


def test_a_turn_has_so_many_calls_at_most(recording: Recording, tmp_path: Path) -> None:
    recording.answers = [[tool_use("nothing")]] * 9
    assert "3 calls" in agent(tmp_path, steps=3).turn({}, BRIEF)
    assert len(recording.asked) == 3


@pytest.mark.parametrize("status", [429, 500, 529])
def test_too_many_requests_and_faults_of_the_server_are_tried_again(
    recording: Recording, tmp_path: Path, status: int
) -> None:
    recording.answers, recording.spoilt = [[words("at last")]], {0: status, 1: status}
    assert agent(tmp_path).turn({}, BRIEF) == "at last"
    assert len(recording.asked) == 3


def test_answers_that_make_no_sense_go_back_to_the_model(recording: Recording, tmp_path: Path) -> None:
    wrong = tool_use("get_brief", tool_name="x")
    listed: dict[str, object] = {"type": "tool_use", "id": "toolu_l", "name": "get_brief", "input": ["a", "list"]}
    recording.answers = [[words(""), wrong], [listed], [words("")]]
    (tmp_path / "home").mkdir()
    tools = in_process(LabClient(tmp_path / "home", Sender(campaign_id="C", author="a", lane="a")))
    assert agent(tmp_path).turn(tools, BRIEF) == "the model ended its turn without text"
    second, third = recording.asked[1]["messages"], recording.asked[2]["messages"]
    assert second[1]["content"] == [wrong], "the API takes no empty words back"
    assert "unknown key 'tool_name'" in second[2]["content"][0]["content"]
    assert third == second, "arguments without names are no answer, so it was asked for again"


def test_an_answer_may_not_be_longer_than_what_is_left(recording: Recording, tmp_path: Path) -> None:
    recording.answers, recording.tokens = [[tool_use("nothing")], [words("done")]], 1600
    agent(tmp_path, answer_tokens=600).turn({}, BRIEF)
    assert [request["max_tokens"] for request in recording.asked] == [600, 1600 - READ - SAID - 525]


@pytest.mark.parametrize("killed_after", [1, 2, 3])
def test_a_session_that_was_killed_pays_for_no_answer_again(
    recording: Recording, tmp_path: Path, killed_after: int
) -> None:
    recording.answers = [[tool_use("look", at="e1")], [words("done")]]
    tools = {"look": lambda at: {"seen": at}}
    with pytest.raises(SystemExit):
        agent(tmp_path, killed_after).turn(tools, BRIEF)
    other_brief = {**BRIEF, "goal": 0.5}
    assert agent(tmp_path).turn(tools, other_brief) == "done"
    first, second = (request["messages"] for request in recording.asked)
    assert first[0]["content"][0]["text"] == second[0]["content"][0]["text"], "the conversation continued"
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert agent(tmp_path).turn(tools, other_brief) == "nothing more"
    assert "0.5" in recording.asked[2]["messages"][0]["content"][0]["text"], "an ended conversation does not continue"


def test_an_answer_that_a_killed_session_did_not_keep_is_asked_for_as_the_same_call(
    recording: Recording, tmp_path: Path
) -> None:
    """The model gateway answers the same call from what it kept (tests/agent_loop/model_gateway/test_repeats.py)."""
    recording.answers = [[tool_use("look")], [tool_use("look")], [words("done")]]
    image = {"name": "front_00001.png", "media_type": "image/png", "base64": "AAAA"}
    tools: dict[str, Callable[..., object]] = {"look": dict}
    with pytest.raises(SystemExit):
        agent(tmp_path, killed_before=2).turn(tools, {**BRIEF, "pictures": [image]})
    assert agent(tmp_path).turn(tools, BRIEF) == "done"
    first, again, other = (headers["idempotency-key"] for headers in recording.headers)
    assert first == again != other
    assert recording.asked[0]["messages"] != recording.asked[1]["messages"], "the image was not kept"


def test_a_call_whose_answer_was_lost_changes_the_lab_once(recording: Recording, tmp_path: Path) -> None:
    """The process ends after the lab has answered and before the answer is kept; the next process calls again."""
    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        recording.answers = [[tool_use("propose_hypothesis", **CLAIM)] * 2, [words("Two claims are stated.")]]
        tools = dict(in_process(lab.client()))

        def cut_off(**sent: object) -> dict[str, object]:
            tools["propose_hypothesis"](**sent)
            raise SystemExit(9)

        def work(one: Anthropic, propose: Callable[..., dict[str, object]]) -> str:
            with contextlib.suppress(SystemExit):
                return one.turn({**tools, "propose_hypothesis": propose}, BRIEF)
            return ""

        assert lab.beside(lambda: work(agent(tmp_path), cut_off)) == ""
        assert len(lab.lab.state.proposals.hypotheses) == 1
        said = lab.beside(lambda: work(agent(tmp_path), tools["propose_hypothesis"]))
        assert said == "Two claims are stated."
        assert len(lab.lab.state.proposals.hypotheses) == 2, "the two calls of one message are two"
        answers = [json.loads(one["content"][0]["text"]) for one in recording.asked[1]["messages"][-1]["content"]]
        assert [one["hypothesis_id"] for one in answers] == list(lab.lab.state.proposals.hypotheses)


def test_a_submission_made_again_is_answered_as_before(tmp_path: Path) -> None:
    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        made = lab.beside(lambda: in_process(lab.client())["propose_hypothesis"](**CLAIM))
        sent = {"hypothesis_id": made["hypothesis_id"], "changes": {"skill": 0.9}, "call_id": "turn 1"}
        first = lab.beside(lambda: in_process(lab.client())["submit_candidate"](**sent))
        again = lab.beside(lambda: in_process(lab.client())["submit_candidate"](**sent))
        assert first == again
        assert len(lab.lab.state.proposals.experiments) == 1
        with pytest.raises(RequestRefused, match="is not decided yet"):
            lab.beside(lambda: in_process(lab.client())["submit_candidate"](**{**sent, "call_id": "turn 2"}))


def test_files_outlive_the_process_and_images_are_not_kept(recording: Recording, tmp_path: Path) -> None:
    recording.answers = [
        [tool_use("write_file", path="README.md", text="why"), tool_use("look")],
        [tool_use("read_file", path="README.md")],
    ]
    image = {"name": "front_00001.png", "media_type": "image/png", "base64": "AAAA"}
    tools = {"look": lambda: {"pictures": [dict(image)]}, "submit_code": dict}
    brief = {**BRIEF, "code": {}, "pictures": [image]}
    with pytest.raises(SystemExit):
        agent(tmp_path, 3).turn(tools, brief)
    assert "AAAA" not in (tmp_path / "kept.jsonl").read_text()
    assert recording.asked[0]["messages"][0]["content"][1]["source"]["data"] == "AAAA"
    assert "AAAA" not in (tmp_path / "conversation.jsonl").read_text()
    agent(tmp_path).turn(tools, brief)
    written, seen = recording.asked[1]["messages"][2]["content"]
    assert not written.get("is_error")
    assert seen["content"][1]["text"].startswith("[An image was here")
    assert '"text": "why"' in recording.asked[2]["messages"][4]["content"][0]["content"][0]["text"]
    assert {"write_file", "submit_code"} < {tool["name"] for tool in recording.asked[2]["tools"]}


def test_a_conversation_that_cannot_be_kept_ends_and_the_next_turn_begins_anew(
    recording: Recording, tmp_path: Path
) -> None:
    recording.answers = [[tool_use("look")], [words("short enough")]]
    one = agent(tmp_path)
    with pytest.raises(EnpireError, match="as much as can be kept"):
        one.turn({"look": lambda: {"text": "x" * MOST_BYTES}}, BRIEF)
    assert one.turn({}, BRIEF) == "short enough"
    assert len(recording.asked[1]["messages"]) == 1


def test_a_conversation_that_the_model_cannot_answer_twice_is_given_up(recording: Recording, tmp_path: Path) -> None:
    recording.answers = [[tool_use("look")], [words("at last")]]
    recording.spoilt = {1: 400, 2: 400}
    one, tools = agent(tmp_path), {"look": dict}
    for _ in range(2):
        with pytest.raises(ModelProblem):
            one.turn(tools, BRIEF)
    assert one.turn(tools, BRIEF) == "at last"
    assert [len(request["messages"]) for request in recording.asked] == [1, 3, 3, 1]


def test_a_model_that_refuses_is_a_problem_of_the_turn(recording: Recording, tmp_path: Path) -> None:
    recording.refuse = 400
    with pytest.raises(ModelProblem, match="no such model"):
        agent(tmp_path).turn({}, BRIEF)


def test_a_key_the_gateway_and_a_model_are_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    plan = AgentPlan(name="anthropic", options={"model": "a-model"})
    with pytest.raises(UsageError, match="needs a key of the provider anthropic: set ANTHROPIC_API_KEY"):
        require_agents(replace(read_campaign("search_alone"), agents=(plan,)))
    with pytest.raises(UsageError, match="needs the model gateway"):
        Anthropic(AgentContext(seed=0, lane="a", work=tmp_path, spent=lambda said: None), {"model": "a-model"})
    with pytest.raises(FileProblem, match="lacks the key 'model'"):
        Anthropic(AgentContext(seed=0, lane="a", work=tmp_path, spent=lambda said: None), {})


def test_the_agent_reaches_its_model_from_its_room_and_its_conversation_is_kept(
    recording: Recording, tmp_path: Path
) -> None:
    recording.answers = [[tool_use("get_brief")], [words("I read the brief.")]]
    plan = AgentPlan(name="anthropic", options={"model": "a-model"})
    home = open_home(tmp_path / "home")
    with Running(home, campaign=replace(CAMPAIGN, agents=(plan,)), paused=True) as lab:
        lab.until(lambda lab: list(lab.ledger.events(kinds=("agent turned",))), turns=20_000)
        [turned, *_] = lab.ledger.events(kinds=("agent turned",))
        assert turned.body["text"] == "I read the brief.", recording.asked
        lab.until(lambda lab: len(list(lab.ledger.events(kinds=("model called",)))) >= 2, turns=20_000)
        spent = list(lab.ledger.events(kinds=("model called",)))[:2]
        counts = ("lane", "fresh", "cache_write", "cache_read", "output", "outcome", "money")
        told = [tuple(event.body[key] for key in counts) for event in spent]
        assert told == [("anthropic-1", 20, 80, 400, SAID, "answered", None)] * 2
        assert {header["x-api-key"] for header in recording.headers} == {"not a key"}, "the gateway's, not the room's"
    [log] = home.root.glob("agents/*/*/work/conversation.jsonl")
    assert "I read the brief." in log.read_text().splitlines()[3]


@pytest.mark.slow
def test_kill_9_of_a_session_repeats_no_call_of_the_model(recording: Recording, tmp_path: Path) -> None:
    recording.answers = [[tool_use("wait", seconds=10.0)], [words("The conversation continued.")]]
    plan = AgentPlan(name="anthropic", options={"model": "a-model"})
    home = open_home(tmp_path / "home")
    with Running(home, campaign=replace(CAMPAIGN, agents=(plan,)), paused=True) as lab:
        lab.until(lambda lab: _kept(home) == 2, turns=20_000)
        session = lab.lab.agent_sessions[0]
        assert isinstance(session, AgentProcess)
        assert session.process is not None
        session.process.kill()
        lab.until(lambda lab: list(lab.ledger.events(kinds=("agent turned",))), turns=20_000)
        [turned, *_] = lab.ledger.events(kinds=("agent turned",))
        assert turned.body["text"] == "The conversation continued.", recording.asked
        assert len(list(lab.ledger.events(kinds=("agent ended",)))) == 1, "the session was killed"
    paid = [request for request in recording.asked if len(request["messages"]) > 1 or request is recording.asked[0]]
    assert [len(request["messages"]) for request in paid[:2]] == [1, 3]


@pytest.mark.slow
def test_kill_9_of_a_session_while_the_model_answers_repeats_no_call(recording: Recording, tmp_path: Path) -> None:
    recording.answers = [[tool_use("wait", seconds=1.0)], [words("The conversation continued.")]]
    recording.gate.clear()
    plan = AgentPlan(name="anthropic", options={"model": "a-model"})
    with Running(open_home(tmp_path / "home"), campaign=replace(CAMPAIGN, agents=(plan,)), paused=True) as lab:
        lab.until(lambda lab: recording.asked, turns=20_000)
        session = lab.lab.agent_sessions[0]
        assert isinstance(session, AgentProcess)
        assert session.process is not None
        session.process.kill()
        lab.until(lambda lab: len(list(lab.ledger.events(kinds=("agent started",)))) == 2, turns=20_000)
        recording.gate.set()
        lab.until(lambda lab: list(lab.ledger.events(kinds=("agent turned",))), turns=20_000)
        [turned, *_] = lab.ledger.events(kinds=("agent turned",))
        assert turned.body["text"] == "The conversation continued.", recording.asked
        lab.until(lambda lab: len(list(lab.ledger.events(kinds=("model called",)))) >= 2, turns=20_000)
        called = list(lab.ledger.events(kinds=("model called",)))[:2]
        assert [event.body["outcome"] for event in called] == ["answered"] * 2
    assert [len(request["messages"]) for request in recording.asked[:2]] == [1, 3]


def _kept(home: Home) -> int:
    """Messages that the session has kept."""
    return sum(len(path.read_text().splitlines()) for path in home.root.glob("agents/*/*/work/kept.jsonl"))
