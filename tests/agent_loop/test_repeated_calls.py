"""Calls that an agent makes again because its process was killed: each changes the lab once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_loop.agent_context import AgentContext
from agent_loop.agents.search import Search
from agent_loop.brief import make_brief
from agent_loop.lab_client import RequestRefused
from agent_loop.repeated_calls import RepeatableCalls
from agent_loop.tools import in_process
from enpire.errors import UsageError
from enpire.home import open_home
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.test_proposal_lifecycle import CLAIM


def recorder(problem: Exception | None = None) -> tuple[list[str], Mapping[str, Callable[..., object]]]:
    """The call ids that a tool received, and the tool."""
    ids: list[str] = []

    def post(call_id: str = "", **arguments: object) -> object:
        ids.append(call_id)
        if problem is not None:
            raise problem
        return arguments

    return ids, {"post_finding": post, "wait": post}


def test_the_same_calls_of_a_turn_have_the_same_ids_in_every_process() -> None:
    ids: list[list[str]] = []
    for _ in range(2):
        made, tools = recorder()
        calls = RepeatableCalls()
        for turn in ("1", "1", "2"):
            calls.of(tools, turn)["post_finding"](text="a")
        calls.of(tools, "1")["post_finding"](text="b")
        calls.of(tools, "1")["wait"](seconds=1)
        ids.append(made)
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 5, "a call that is meant twice is two calls, and so is one of another turn"
    assert ids[0][4] == "", "a tool that only reads needs no id"


def test_a_call_without_an_answer_is_made_again_with_its_id_and_a_refused_one_is_not() -> None:
    for problem, count in ((UsageError("The loop did not answer."), 1), (RequestRefused("No."), 2)):
        ids, tools = recorder(problem)
        calls = RepeatableCalls().of(tools, "1")
        for _ in range(2):
            with pytest.raises(type(problem)):
                calls["post_finding"](text="a")
        assert len(set(ids)) == count
    with pytest.raises(UsageError, match="post_finding has the unknown key 'call_id'"):
        RepeatableCalls().of(tools, "1")["post_finding"](call_id="mine", text="a")


@pytest.mark.parametrize("lost", ["propose_hypothesis", "submit_candidate"])
def test_search_that_was_killed_states_its_hypothesis_and_submits_once(tmp_path: Path, lost: str) -> None:
    """The process ends after the lab has answered; the next process reads a new brief and works on."""
    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        lab.until(lambda lab: lab.state.proposals.declared)

        def turn(tools: Mapping[str, Callable[..., Any]]) -> str:
            one = Search(AgentContext(seed=1, lane="one", work=tmp_path, spent=lambda said: None), {})
            with contextlib.suppress(SystemExit):
                return one.turn(tools, make_brief(lab.client()))
            return "killed"

        tools = dict(in_process(lab.client()))

        def cut_off(**sent: object) -> dict[str, object]:
            tools[lost](**sent)
            raise SystemExit(9)

        assert lab.beside(lambda: turn({**tools, lost: cut_off})) == "killed"
        proposals = lab.lab.state.proposals
        lab.beside(lambda: turn({**tools, "wait": lambda **sent: {}}))
        assert (len(proposals.hypotheses), len(proposals.experiments)) == (1, 1)


def test_a_claim_is_made_again_and_stays_one(tmp_path: Path) -> None:
    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        tools = in_process(lab.client())
        ids = [lab.beside(lambda: RepeatableCalls().of(tools, "turn")["propose_hypothesis"](**CLAIM)) for _ in range(2)]
        assert ids[0] == ids[1]
        assert len(lab.lab.state.proposals.hypotheses) == 1
