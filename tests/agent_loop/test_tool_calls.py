"""What each tool asks of the loop and answers, with proposals and answers that the test gives: no campaign runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from agent_loop import mcp_server, tools
from agent_loop.arguments import WAIT_S
from agent_loop.lab_client import Answer, LabClient
from enpire.campaign.agent_events import (
    CodeReverted,
    ConclusionPosted,
    ExperimentAdopted,
    ExperimentSubmitted,
    GivenUp,
    HypothesisProposed,
    LaneFinished,
    OfRequest,
)
from enpire.campaign.proposed import Experiment, ProposedHypothesis
from enpire.campaign.recipe import Recipe
from enpire.code_candidates.authored_tasks import AuthoredTask, TaskProposal, TaskScore
from enpire.errors import EnpireError, UnknownName, UsageError
from enpire.requests.agent_requests import Sender
from enpire.service import code
from enpire.service.asking import Proposals, RequestKind
from enpire.types import Hypothesis

SIGNED: dict[str, Any] = {"request_id": "r", "author": "search", "lane": "one"}
HYPOTHESIS = Hypothesis(
    hypothesis_id="h", statement="s", falsifier="f", regime="bc", kind="improve", author="search", lane="one"
)
DECLARED = Recipe(name="r", learner="l", settings={"passes": 4, "rate": 0.1, "depth": 1})


def experiment(name: str, lane: str = "one", **known: Any) -> Experiment:
    settings = {"passes": 8, "rate": 0.1, "depth": 2}
    given: dict[str, Any] = {
        "experiment_id": name, "hypothesis_id": "h", "author": "search", "lane": lane, "changes": {"passes": 8},
        "recipe": Recipe(name=name, learner="l", settings=settings), "recipe_hash": "x", "champion": "",
    }  # fmt: skip
    return Experiment(**given | known)


@dataclass(slots=True)
class Scripted(LabClient):
    """A client that answers from what the test gives, and keeps what was asked."""

    known: Proposals = field(default_factory=Proposals)
    answer: Answer | None = None
    asked: list[tuple[str, Mapping[str, object]]] = field(default_factory=list[tuple[str, Mapping[str, object]]])
    waited: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])

    def proposals(self) -> Proposals:
        return self.known

    def request(self, kind: RequestKind, content: Mapping[str, object]) -> Answer:
        self.asked.append((kind, content))
        assert self.answer is not None
        return self.answer

    def submit_code(self, files: Mapping[str, str], hypothesis_id: str, parent_experiment: str = "") -> Answer:
        return self.request("code", {"files": files, "hypothesis_id": hypothesis_id, "parent": parent_experiment})

    def newest(self) -> int:
        return 9

    def wait(self, after: int, timeout_s: float) -> int:
        self.waited.append((after, timeout_s))
        return max(after, 7)

    def is_over(self) -> bool:
        return False


@pytest.fixture
def client(tmp_path: Path) -> Scripted:
    known = Proposals(declared=DECLARED)
    known.hypotheses["h"] = ProposedHypothesis(hypothesis=HYPOTHESIS)
    made = [experiment(f"e{number}") for number in range(5)]
    others = [
        experiment("theirs", lane="two"),
        experiment("refused", lane="two", recipe=None, phase="invalid", why="no such setting"),
        experiment("hidden", lane="two", recipe=None, commit="c0ffee"),
        experiment("code", commit="c0de"),
        experiment("no code", lane="two"),
    ]
    known.experiments = {item.experiment_id: item for item in [*others, *made]}
    known.conclusions = [
        ConclusionPosted(**SIGNED, conclusion_id=about, text="t", about=about) for about in ("e1", "h", "e2")
    ]
    return Scripted(tmp_path, Sender(campaign_id="C1", author="search", lane="one"), known=known)


def test_an_experiment_is_shown_with_its_recipe_and_the_conclusions_about_it(client: Scripted) -> None:
    told = tools.call(client, "get_experiment", {"experiment_id": "e1"})
    assert told["recipe"] == client.known.experiments["e1"].recipe.mapping()  # pyright: ignore[reportOptionalMemberAccess]
    assert [item["finding_id"] for item in told["findings"]] == ["e1", "h"]  # pyright: ignore[reportGeneralTypeIssues]
    assert told["hypothesis"]["hypothesis"]["hypothesis_id"] == "h"  # pyright: ignore[reportIndexIssue]
    assert tools.call(client, "get_experiment", {"experiment_id": "refused"})["recipe"] == {}
    with pytest.raises(UnknownName, match="no experiment 'e9'"):
        tools.call(client, "get_experiment", {"experiment_id": "e9"})


@pytest.mark.parametrize(
    ("against", "named", "changed"),
    [
        ("", "the campaign's recipe", {"passes": {"from": 4, "to": 8}, "depth": {"from": 1, "to": 2}}),
        ("in_force", "in_force", {"passes": {"from": 4, "to": 8}, "depth": {"from": 1, "to": 2}}),
        ("e2", "e2", {}),
    ],
)
def test_a_difference_names_what_changed_and_against_what(
    client: Scripted, against: str, named: str, changed: object
) -> None:
    told = tools.call(client, "get_diff", {"experiment_id": "e1", "against": against})
    assert told == {"experiment_id": "e1", "against": named, "settings": changed}


def test_a_difference_without_a_recipe_says_why(client: Scripted) -> None:
    for name, why in (("refused", "it was refused: no such setting"), ("hidden", "shares results only")):
        with pytest.raises(UsageError, match=why):
            tools.call(client, "get_diff", {"experiment_id": name})
    with pytest.raises(UnknownName, match="no experiment 'e9'"):
        tools.call(client, "get_diff", {"experiment_id": "e9"})
    client.known.declared = None
    told = tools.call(client, "get_diff", {"experiment_id": "e1"})
    assert told["settings"]["passes"] == {"from": None, "to": 8}  # pyright: ignore[reportIndexIssue]


SUBMITTED = ExperimentSubmitted(
    **SIGNED, experiment_id="e7", hypothesis_id="h", changes={}, champion="", recipe_hash="abc", commit="c0de"
)


@pytest.mark.parametrize(
    ("name", "arguments", "answer", "asked", "told"),
    [
        (
            "propose_hypothesis", {"statement": "s", "falsifier": "f", "regime": "bc", "kind": "improve"},
            HypothesisProposed(**SIGNED, hypothesis=HYPOTHESIS, effect="", edges=()), "hypothesis",
            {"hypothesis_id": "h"},
        ),
        (
            "submit_candidate", {"hypothesis_id": "h", "changes": {"passes": 8}}, SUBMITTED, "experiment",
            {"experiment_id": "e7", "recipe_hash": "abc", "phase": "queued"},
        ),
        (
            "submit_code", {"hypothesis_id": "h", "files": {"learner.py": "x"}}, SUBMITTED, "code",
            {"experiment_id": "e7", "commit": "c0de", "phase": "queued"},
        ),
        (
            "post_finding", {"text": "t"}, ConclusionPosted(**SIGNED, conclusion_id="c", text="t", about=""), "finding",
            {"finding_id": "c"},
        ),
        (
            "finish", {"summary": "all"}, LaneFinished(**SIGNED, text="all"), "finish", {"noted": True, "over": True},
        ),
        (
            "give_up", {"reason": "tired"}, GivenUp(**SIGNED, about="", reason="tired"), "give up",
            {"noted": True, "scored": "neutral"},
        ),
        (
            "adopt", {"experiment_id": "e1"}, ExperimentAdopted(**SIGNED, experiment_id="e1", hypothesis_id="h"),
            "adopt", {"hypothesis_id": "h", "changes": {"passes": 8}},
        ),
    ],
)  # fmt: skip
def test_a_tool_that_writes_asks_once_and_answers_with_the_event(
    client: Scripted, name: str, arguments: dict[str, object], answer: OfRequest, asked: str, told: dict[str, object]
) -> None:
    client.answer = answer
    assert tools.call(client, name, arguments) == told
    [(kind, content)] = client.asked
    assert kind == asked
    assert set(map(str, arguments.values())) <= set(map(str, content.values()))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("propose_hypothesis", {"statement": "s", "falsifier": "f", "regime": "bc", "kind": "improve"}),
        ("submit_candidate", {"hypothesis_id": "h"}),
        ("submit_code", {"hypothesis_id": "h", "files": {}}),
        ("post_finding", {"text": "t"}),
        ("adopt", {"experiment_id": "e1"}),
        ("revert_code", {}),
    ],
)
def test_an_answer_of_another_version_is_a_sentence(client: Scripted, name: str, arguments: dict[str, object]) -> None:
    client.answer = LaneFinished(**SIGNED, text="")
    with pytest.raises(UsageError, match="answered with 'lane finished'; run the same version"):
        tools.call(client, name, arguments)


def test_code_is_read_from_the_template_the_own_base_or_a_visible_candidate(
    client: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "code_of", lambda home, commit: {"learner.py": f"{commit} in {home.name}"})
    kept = lambda commit: {"learner.py": f"{commit} in {client.home.name}"}  # noqa: E731
    told = tools.call(client, "get_code", {})
    assert told == {"files": code.template(), "commit": "", "limits": code.limits()}
    client.known.code_base["one"] = "ba5e"
    told = tools.call(client, "get_code", {})
    assert (told["files"], told["commit"]) == (kept("ba5e"), "ba5e")
    assert tools.call(client, "get_code", {"experiment_id": "code"}) == {"files": kept("c0de"), "commit": "c0de"}
    for name in ("hidden", "no code", "e9"):
        with pytest.raises(UnknownName, match=f"'{name}' is no code candidate"):
            tools.call(client, "get_code", {"experiment_id": name})
    client.answer = ExperimentAdopted(**SIGNED, experiment_id="code", hypothesis_id="h", commit="c0de")
    told = tools.call(client, "adopt", {"experiment_id": "code"})
    assert (told["files"], told["commit"]) == (kept("c0de"), "c0de")
    client.answer = CodeReverted(**SIGNED, commit="01d", left="c0de")
    told = tools.call(client, "revert_code", {})
    assert told == {"commit": "01d", "left": "c0de", "files": kept("01d")}


def test_a_task_is_announced_kept_and_measured_once(client: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    score = TaskScore(digest="d" * 64, passed=3, applied=4, failed=(), verifier="v", precision=1.0, recall=None)
    proposal = TaskProposal(task_id="t1", author="search", lane="one", campaign_id="C1", about="a", digest="d" * 64)
    measured: list[AuthoredTask] = []
    known: list[TaskScore | None] = [None, score]

    def find(home: Path, task_id: str) -> AuthoredTask:
        return AuthoredTask(folder=home / task_id, proposal=proposal, score=known.pop(0), approvals=())

    def measure(task: AuthoredTask, show: object) -> TaskScore:
        measured.append(task)
        return score

    abouts: list[str] = []
    monkeypatch.setattr(tools, "propose", lambda home, files, about, sender: abouts.append(about) or proposal)
    monkeypatch.setattr(tools, "find_task", find)
    monkeypatch.setattr(tools, "score_task", measure)
    client.answer = ConclusionPosted(**SIGNED, conclusion_id="c", text="t", about="")
    files = {"task.py": "class Task: ..."}
    for measurements in (1, 1):
        told = tools.call(client, "submit_task", {"files": files, "about": "x" * 1200})
        assert told["task_id"] == "t1"
        assert told["score"]["passed"] == 3  # pyright: ignore[reportIndexIssue]
        assert len(measured) == measurements, "a score that is known is not measured again"
    digest = tools.digest_of(files)[:12]
    assert client.asked[0] == ("finding", {"text": f"I wrote a task, files {digest}: {'x' * 1000}"})
    assert abouts[0] == "x" * 1000
    with pytest.raises(EnpireError, match="A task needs task.py"):
        tools.call(client, "submit_task", {"files": {}, "about": ""})
    assert len(client.asked) == 2, "files that break a rule are not announced"


def test_wait_begins_where_the_last_answer_ended_and_shows_the_last_three_own_experiments(client: Scripted) -> None:
    told = tools.call(client, "wait", {"seconds": 5.0})
    assert (told["something_happened"], told["after"], told["over"]) == (False, 9, False)
    assert [item["experiment_id"] for item in told["your_experiments"]] == ["e2", "e3", "e4"]  # pyright: ignore[reportGeneralTypeIssues]
    told = tools.call(client, "wait", {"seconds": 10_000.0, "after": 6})
    assert (told["something_happened"], told["after"]) == (True, 7)
    assert tools.call(client, "wait", {"seconds": -3.0, "after": 9})["something_happened"] is False
    tools.call(client, "wait", {"after": 1, "seconds": 0.5})
    assert client.waited == [(9, 5.0), (6, WAIT_S), (9, 0.0), (1, 0.5)]
    for after in (-1, 10):
        with pytest.raises(UsageError, match="from 0 to 9"):
            tools.call(client, "wait", {"after": after})


def test_a_server_over_http_listens_where_it_is_told_behind_the_token(
    client: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[object, dict[str, object]]] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **how: runs.append((app, how)))
    monkeypatch.setattr(mcp_server, "http_app", lambda client, token: (client, token))
    mcp_server.serve_http(client, "127.0.0.1", 8123, "t")
    [(app, how)] = runs
    assert app == (client, "t")
    assert (how["host"], how["port"], how["ws"]) == ("127.0.0.1", 8123, "none")
