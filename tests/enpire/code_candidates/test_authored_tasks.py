"""Tasks that agents wrote: kept, measured in a sandbox, approved by a person, and never judged by their author."""

from __future__ import annotations

import importlib.util
import py_compile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_loop import tools
from agent_loop.lab_client import RequestRefused
from enpire.campaign.campaign import AgentPlan
from enpire.cli import app
from enpire.code_candidates import authored_tasks, task_scoring
from enpire.code_candidates.authored_tasks import approve, find_task, propose, score_task
from enpire.code_candidates.rooms import CodeRoom
from enpire.code_candidates.task_scoring import evidence_in
from enpire.errors import EnpireError, UnknownName, UsageError
from enpire.field_reader import Fields
from enpire.files import plain
from enpire.home import open_home
from enpire.parts import TASKS
from enpire.processes.sandbox import bubblewrap
from enpire.requests.agent_requests import Sender
from enpire.steps.agent_process import require_agents
from enpire.store.ledger import SqliteLedger
from enpire.wire.rpc import Message
from tests.agent_loop.pretend_lab import CAMPAIGN, Running
from tests.agent_loop.test_proposal_lifecycle import CLAIM
from tests.enpire.code_candidates.authored_task import (
    BOUND,
    CHECKS,
    FILES,
    REACH,
    SPEC,
    AnsweringRoom,
    ScriptedRoom,
    episode,
    proposed,
    scored,
)

PEEKING = (
    REACH.replace("from sim.array_task import ArrayTask", "from sim.array_task import ArrayTask, ArrayVerifier")
    + """
    def verifier(self):
        return Peeking(self)


class Peeking(ArrayVerifier):
    def judge(self, evidence):
        import gc
        import sys
        from dataclasses import replace

        labels = [one.success for one in gc.get_objects() if getattr(one, "evidence", None) is evidence]
        frame = sys._getframe()
        while frame is not None:
            found = frame.f_locals.get("example")
            labels += [found.success] if hasattr(found, "success") else []
            frame = frame.f_back
        kind = "success" if all(labels) else "failure"
        return replace(super().judge(evidence), kind=kind)


def patch():
    from enpire.types import Interval
    from sim.verifiers import grading

    whole = Interval(successes=200, n=200, low=0.98, high=1.0)
    grading.grade = lambda judge, examples, sensors: grading.Grade(
        sensors=sensors, precision=whole, recall=whole, false_positives=Interval(successes=0, n=200, low=0.0, high=0.02)
    )


patch()
"""
)
"""Its verifier looks for the labels of the episodes, and its module replaces the comparison."""


Script = Callable[..., list[CodeRoom]]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Sets what the scene's sandbox sends, and where the verifier's notes; returns the sandboxes that were opened."""

    def script(*messages: Message, received: list[Fields] | None = None) -> list[CodeRoom]:
        opened = list[CodeRoom]()

        def open_room(wanted: CodeRoom) -> ScriptedRoom:
            opened.append(wanted)
            if wanted.module == "verifier_room":
                return AnsweringRoom([] if received is None else received)
            return ScriptedRoom(messages)

        monkeypatch.setattr(task_scoring, "OpenRoom", open_room)
        monkeypatch.setattr(authored_tasks, "require_sandbox", lambda *, unsandboxed: "bubblewrap")
        monkeypatch.setattr(task_scoring, "EPISODES", len(messages) - 2)
        return opened

    return script


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({**FILES, "conftest.py": "x = 1\n"}, "'conftest.py' is no file of a task; allowed are task.py, README.md"),
        ({**FILES, "../task.py": "x"}, "is no file of a task"),
        ({"README.md": "x"}, "A task needs task.py with the class Task"),
        ({"task.py": "x" * 401}, "task.py, line 1 has 401 characters"),
        ({"task.py": "x = 1  # \u202e\n"}, "holds the character U\\+202E, which is not shown to readers"),
        ({"task.py": "x = 1\n" * 30_000}, "at most 32 files with 131072 bytes"),
    ],
)
def test_files_that_are_no_task_are_refused(tmp_path: Path, files: dict[str, str], why: str) -> None:
    with pytest.raises(EnpireError, match=why):
        proposed(tmp_path, files)
    assert not (tmp_path / "tasks").exists()


def test_a_task_loads_only_with_an_approval_of_exactly_its_files(tmp_path: Path) -> None:
    made = proposed(tmp_path)
    assert proposed(tmp_path) == made, "the same files again are the same proposal"
    task = find_task(tmp_path, made.task_id[-6:])
    assert task.state == "proposed"
    with pytest.raises(UsageError, match="is not approved by a person; enpire task approve"):
        TASKS.make(task.name)
    with pytest.raises(UsageError, match="These files have no score; enpire task score"):
        approve(task, "ada")
    scored(tmp_path, made, "idleness fails")
    with pytest.raises(UsageError, match="breaks a rule that stations and gates rely on: idleness fails"):
        approve(find_task(tmp_path, made.task_id), "ada")
    scored(tmp_path, made)
    SqliteLedger(tmp_path / "ledger.db").close()
    arguments = [
        "task", "approve", made.task_id, "--by", "ada", "--reason", "It is a point.", "--home", str(tmp_path),
    ]  # fmt: skip
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    assert f"task: {task.name}" in ran.output.replace("\n", "")
    assert TASKS.make(task.name).spec.name == "reach"
    listed = CliRunner().invoke(app, ["task", "authored", "--home", str(tmp_path)]).output
    assert "approved" in listed
    assert "58 of 58" in listed
    (task.folder / "files" / "task.py").write_text(REACH.replace("0.03", "3.0"))
    with pytest.raises(UsageError, match="changed since a person approved it"):
        TASKS.make(task.name)
    with pytest.raises(UsageError, match="These files have no score"):
        approve(find_task(tmp_path, made.task_id), "ada")
    with pytest.raises(UnknownName, match="'nobody' names 0 tasks of agents"):
        find_task(tmp_path, "nobody")
    with pytest.raises(UnknownName, match="names 0 tasks of agents"):
        find_task(tmp_path, made.task_id[-5:])


def test_a_session_proposes_a_limited_number_of_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authored_tasks, "MOST_TASKS", 2)
    for number in range(2):
        proposed(tmp_path, {"task.py": f"x = {number}\n"})
    with pytest.raises(UsageError, match="'one' has proposed 2 tasks, the limit"):
        proposed(tmp_path, {"task.py": "x = 3\n"})
    proposed(tmp_path, {"task.py": "x = 3\n"}, lane="two")


def test_the_author_of_a_task_never_experiments_in_its_campaigns(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    task = find_task(home.root, proposed(home.root).task_id)
    campaign = replace(CAMPAIGN, task=task.name, agents=(AgentPlan(name="anthropic", options={"model": "m"}),))
    with pytest.raises(UsageError, match="The agent anthropic wrote the task .* never judges its own experiments"):
        require_agents(campaign)
    with Running(home, campaign=replace(campaign, agents=()), paused=True) as lab:
        client = lab.client()
        lab.beside(lambda: tools.call(client, "propose_hypothesis", CLAIM))
        client.sender = replace(client.sender, author="anthropic", lane="by hand")
        with pytest.raises(RequestRefused, match="The agent anthropic wrote this campaign's task, so it proposes"):
            lab.beside(lambda: tools.call(client, "propose_hypothesis", CLAIM))


def test_a_task_that_gives_no_score_has_failed_and_is_not_measured_again(
    tmp_path: Path, scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = scripted()
    monkeypatch.setattr(task_scoring, "SCORING_S", 0.0)
    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        first, again = (
            lab.beside(lambda: tools.call(lab.client(), "submit_task", {"files": FILES, "about": "It is small."}))
            for _ in range(2)
        )
    assert first == again
    assert len(opened) == 1
    score = find_task(tmp_path / "home", str(first["task_id"])).score
    assert score is not None
    assert score.failed == ("it gave no score within 0 s: No answer came in time.",)


@pytest.mark.parametrize(
    "messages",
    [
        [{"grade": 1}],
        [{"checks": {"passed": "all"}}],
        [CHECKS, {"spec": {"name": "reach"}}],
        [CHECKS, {"spec": SPEC}, {**episode(0.0, True), "success": 1}],
        [CHECKS, {"spec": {**SPEC, "state": [BOUND, BOUND]}}, episode(0.0, True)],
    ],
)
def test_a_score_that_cannot_be_read_is_a_failure(tmp_path: Path, scripted: Script, messages: list[Message]) -> None:
    task = find_task(tmp_path, proposed(tmp_path).task_id)
    opened = scripted(*messages)
    score = score_task(task, print)
    assert score.failed[0].startswith("it gave no score within 500 s: ")
    assert (score.precision, [room.module for room in opened]) == (None, ["task_room"])
    with pytest.raises(UsageError, match="breaks a rule that stations and gates rely on: it gave no score"):
        approve(find_task(tmp_path, task.proposal.task_id), "ada")


def test_the_verifier_is_sent_no_label_and_the_episodes_in_another_order(tmp_path: Path, scripted: Script) -> None:
    made, received = [episode(number / 100.0, number % 4 != 0) for number in range(40)], list[Fields]()
    opened = scripted(CHECKS, {"spec": SPEC}, *made, received=received)
    score = score_task(find_task(tmp_path, proposed(tmp_path).task_id), print)
    assert (score.precision, score.recall, score.failed) == (0.75, 1.0, ())
    assert [(room.module, room.first["files"], room.folders) for room in opened] == [
        ("task_room", FILES, {}), ("verifier_room", FILES, {}),
    ]  # fmt: skip
    assert len(received) == 5 * 40, "as built, three times disturbed, and for the time of a verdict"
    sent = [evidence_in(message.only(frozenset({"schema", "arrays", "images"}))) for message in received[:40]]
    order = [round(100 * float(one.arrays.state[0, 0])) for one in sent]
    assert sorted(order) == list(range(40))
    assert order != sorted(order)


def test_the_code_that_was_approved_is_the_code_that_runs(tmp_path: Path, scripted: Script) -> None:
    made = proposed(tmp_path)
    task = find_task(tmp_path, made.task_id)
    source, other = task.folder / "files" / "task.py", tmp_path / "other.py"
    other.write_text(REACH.replace('name="reach"', 'name="other"'))
    compiled = importlib.util.cache_from_source(str(source))
    py_compile.compile(str(other), cfile=compiled, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    opened = scripted(CHECKS, {"spec": SPEC}, episode(0.0, True), episode(0.5, False))
    score_task(task, print)
    for room in opened:
        assert room.first["files"] == FILES
        assert room.folders == {}, "it sees no folder with other code"
    approve(find_task(tmp_path, made.task_id), "ada")
    assert TASKS.make(task.name).spec.name == "reach"


def test_a_room_does_not_choose_the_files_that_its_score_is_of(tmp_path: Path, scripted: Script) -> None:
    made = proposed(tmp_path)
    scripted({"checks": {**CHECKS["checks"], "digest": "0" * 64}}, {"problem": "It ends."})
    assert score_task(find_task(tmp_path, made.task_id), print).digest == made.digest


def test_texts_of_an_agent_and_of_its_code_cannot_command_a_terminal(tmp_path: Path, scripted: Script) -> None:
    made = propose(tmp_path, FILES, "small\x1b[2J\nand\u202e good", Sender(campaign_id="C", author="a", lane="one"))
    assert made.about == "small�[2J and� good"
    scripted(
        {"checks": {"passed": 0, "applied": 1, "failed": ["x\x1b]0;\nIt passes"]}},
        {"problem": "precision\n\x1b[1A100%"},
    )
    score = score_task(find_task(tmp_path, made.task_id), print)
    assert score.failed == ("x�]0; It passes",)
    assert score.verifier == "There is no report: precision\n�[1A100%"
    assert find_task(tmp_path, made.task_id).score == score


@pytest.mark.slow
@pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or is not allowed here")
def test_a_task_is_measured_in_a_sandbox(tmp_path: Path) -> None:
    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        told = lab.beside(lambda: tools.call(lab.client(), "submit_task", {"files": FILES, "about": "It is small."}))
        [posted] = lab.lab.state.proposals.conclusions
    assert posted.text.endswith(": It is small.")
    made = find_task(tmp_path / "home", str(told["task_id"]))
    assert (made.state, made.proposal.author) == ("scored", "test")
    good = made.score
    assert good is not None
    assert told["score"] == plain(good)
    assert good.failed == ()
    assert good.passed == good.applied > 40
    assert good.precision is not None
    assert good.precision > 0.9, good.verifier
    hasty = {"task.py": REACH.replace("< 0.03", "< 2.0")}
    bad = score_task(find_task(tmp_path, proposed(tmp_path, hasty).task_id), print)
    assert any("nothing_is_finished_at_its_start" in line or "start" in line for line in bad.failed)
    broken = score_task(find_task(tmp_path, proposed(tmp_path, {"task.py": "import socket\n1 / 0\n"}).task_id), print)
    assert "ZeroDivisionError" in broken.failed[0]
    assert broken.verifier.startswith("There is no report")


@pytest.mark.slow
@pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or is not allowed here")
def test_a_verifier_that_looks_for_the_labels_or_replaces_the_comparison_gains_nothing(tmp_path: Path) -> None:
    """It calls a success what it finds no label for. In one process with the comparison, both gave it 100 %."""
    score = score_task(find_task(tmp_path, proposed(tmp_path, {"task.py": PEEKING}).task_id), print)
    assert score.recall == 1.0, score.verifier
    assert score.precision is not None
    assert score.precision < 0.95, score.verifier
