"""The agent `anthropic` when answers, the model gateway or its lease are lost: what it asks again, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_loop.agents import model
from agent_loop.agents.anthropic import MOST_LOST
from agent_loop.agents.gateway_budget import LeaseRefused, NoGateway
from agent_loop.agents.model import ModelProblem
from tests.agent_loop.recorded_model import SILENCE_S, Recording, served, tool_use, words
from tests.agent_loop.test_anthropic import BRIEF, agent


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    recording = Recording(answers=[])
    with served(recording) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        yield recording


@pytest.mark.parametrize("silent", [2, 3])
def test_a_gateway_that_starts_again_is_waited_for(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: int
) -> None:
    monkeypatch.setattr(model, "GATEWAY_DELAYS_S", (0.0, 0.0))
    recording.answers, recording.silent = [[words("at last")]], silent
    one = agent(tmp_path)
    if silent == 3:
        with pytest.raises(NoGateway, match="does not say which tokens are left"):
            one.turn({}, BRIEF)
    assert one.turn({}, BRIEF) == "at last"
    assert len(recording.asked) == 1


@pytest.mark.parametrize("fault", ["overloaded", "cut", "nonsense", "silent"])
def test_an_answer_that_breaks_off_is_asked_for_again(recording: Recording, tmp_path: Path, fault: str) -> None:
    recording.answers, recording.spoilt = [[tool_use("nothing")], [words("at last")]], {1: fault}
    assert agent(tmp_path, answer_s=SILENCE_S / 4).turn({}, BRIEF) == "at last"
    assert recording.asked[2] == recording.asked[1]
    keys = [headers["idempotency-key"] for headers in recording.headers[:3]]
    assert keys[0] != keys[1]
    assert keys[2] == keys[1], "the gateway gives the answer that it kept, or says that it is lost"


def test_only_an_answer_that_the_gateway_kept_malformed_is_asked_for_as_a_new_call(
    recording: Recording, tmp_path: Path
) -> None:
    recording.answers, recording.spoilt = [[words("at last")]], {0: "nonsense", 1: "nonsense"}
    assert agent(tmp_path).turn({}, BRIEF) == "at last"
    keys = [headers["idempotency-key"] for headers in recording.headers]
    assert keys[0] == keys[1] != keys[2]


def test_a_model_that_never_ends_an_answer_is_a_problem_of_the_turn(recording: Recording, tmp_path: Path) -> None:
    recording.spoilt = dict.fromkeys(range(9), "nonsense")
    with pytest.raises(ModelProblem, match="a-model gave no complete answer: "):
        agent(tmp_path).turn({}, BRIEF)
    assert len(recording.asked) == 4
    assert len({headers["idempotency-key"] for headers in recording.headers}) == 2, "two calls are paid for at most"


def test_a_call_of_unknown_outcome_is_named_to_the_model_and_the_conversation_goes_on(
    recording: Recording, tmp_path: Path
) -> None:
    recording.answers, recording.spoilt = [[words("So be it.")]], {0: "sent_before"}
    with pytest.raises(SystemExit):
        agent(tmp_path, killed_after=2).turn({}, BRIEF)
    assert agent(tmp_path).turn({}, BRIEF) == "So be it."
    first, second = (request["messages"] for request in recording.asked)
    assert [message["role"] for message in second] == ["user", "user"]
    assert second[1]["content"][0]["text"] == "[Your answer to this was lost. It was sent before.]"
    assert second[0]["content"][0]["text"] == first[0]["content"][0]["text"]
    keys = [headers["idempotency-key"] for headers in recording.headers]
    assert keys[0] != keys[1], "the gateway sends this question as another one"


def test_a_turn_ends_when_answer_after_answer_is_lost(recording: Recording, tmp_path: Path) -> None:
    recording.answers, recording.spoilt = [[words("yes")]], dict.fromkeys(range(MOST_LOST + 1), "sent_before")
    one = agent(tmp_path)
    assert one.turn({}, BRIEF) == f"the turn was ended after {MOST_LOST + 1} lost answers: It was sent before."
    assert len({headers["idempotency-key"] for headers in recording.headers}) == len(recording.asked) == MOST_LOST + 1
    assert one.turn({}, BRIEF) == "yes"


def test_two_turns_with_the_same_brief_are_two_conversations(recording: Recording, tmp_path: Path) -> None:
    recording.answers = [[tool_use("note")], [words("done")]] * 2
    one = agent(tmp_path)
    assert [one.turn({}, BRIEF), one.turn({}, BRIEF)] == ["done", "done"]
    keys = [headers["idempotency-key"] for headers in recording.headers]
    assert len(set(keys)) == 4, "no turn gets the kept answer of another one"


def test_a_refused_lease_is_reported_at_once(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "GATEWAY_DELAYS_S", (3600.0,))
    recording.lease_over = True
    with pytest.raises(LeaseRefused, match="^It is over.$"):
        agent(tmp_path).turn({}, BRIEF)
    recording.lease_over, recording.spoilt = False, {0: 401}
    with pytest.raises(LeaseRefused, match="^no such model$"):
        agent(tmp_path).turn({}, BRIEF)
    assert len(recording.asked) == 1
