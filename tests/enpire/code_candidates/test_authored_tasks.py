"""Tasks that agents wrote: kept, measured in a sandbox, approved by a person, and never judged by their author."""

from __future__ import annotations

import importlib.util
import py_compile
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_loop import tools
from agent_loop.lab_client import RequestRefused
from enpire.campaign.campaign import AgentPlan
from enpire.cli import app
from enpire.code_candidates import authored_tasks
from enpire.code_candidates.authored_tasks import TaskProposal, TaskScore, approve, find_task, propose, score_task
from enpire.code_candidates.frames import Frames
from enpire.code_candidates.rooms import CodeRoom
from enpire.errors import EnpireError, UnknownName, UsageError
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

REACH = """
import numpy as np
from enpire.types import Bounds, TaskSpec
from sim.array_task import ArrayTask


class Task(ArrayTask):
    spec = TaskSpec(
        name="reach",
        instruction="Move the point to the middle.",
        state=(Bounds(name="x", low=-1.0, high=1.0, unit="m"), Bounds(name="y", low=-1.0, high=1.0, unit="m")),
        action=(Bounds(name="vx", low=-0.3, high=0.3, unit="m/s"), Bounds(name="vy", low=-0.3, high=0.3, unit="m/s")),
        cameras=(),
        rate_hz=20.0,
        limit_ticks=120,
        start_names=("x_m", "y_m"),
    )
    ranges = ((-0.8, 0.8), (0.2, 0.8))
    goal = (0.0, 0.0)
    tolerance = (0.02, 0.02)

    def advance(self, world, command):
        return world + command * self.spec.period_s

    def steer(self, state, goal):
        return np.clip(4.0 * (goal - state), -0.3, 0.3)

    def success(self, state):
        return np.hypot(state[:, 0], state[:, 1]) < 0.03
"""
FILES = {"task.py": REACH, "README.md": "A point on a table.\n"}
SCORE = {"passed": 1, "applied": 1, "failed": [], "verifier": "", "precision": 1.0, "recall": 1.0}


def proposed(home: Path, files: dict[str, str] = FILES, lane: str = "one") -> TaskProposal:
    return propose(home, files, "It is small.", Sender(campaign_id="C1", author="anthropic", lane=lane))


def scored(home: Path, made: TaskProposal, *failed: str) -> None:
    """As if the sandbox had measured it."""
    score = TaskScore(
        digest=made.digest, passed=58 - len(failed), applied=58, failed=failed, verifier="", precision=1.0, recall=0.9
    )
    authored_tasks._write(find_task(home, made.task_id).folder / "score.json", score)


class ScriptedRoom:
    """In place of a sandbox: it sends one message and runs no code."""

    excess = ""

    def __init__(self, message: Message) -> None:
        ours, self._theirs = socket.socketpair()
        self.frames = Frames(ours)
        self._ours = ours
        if message:
            Frames(self._theirs).send(message)

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Message], list[CodeRoom]]:
    """Sets the message of all rooms, {} for none; returns the rooms that were opened."""

    def script(message: Message) -> list[CodeRoom]:
        opened = list[CodeRoom]()

        def open_room(wanted: CodeRoom) -> ScriptedRoom:
            opened.append(wanted)
            return ScriptedRoom(message)

        monkeypatch.setattr(authored_tasks, "OpenRoom", open_room)
        monkeypatch.setattr(authored_tasks, "require_sandbox", lambda *, unsandboxed: "bubblewrap")
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
    arguments = ["task", "approve", made.task_id, "--by", "ada", "--home", str(tmp_path)]
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
    tmp_path: Path, scripted: Callable[[Message], list[CodeRoom]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = scripted({})
    monkeypatch.setattr(authored_tasks, "SCORING_S", 0.0)
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


def test_a_score_that_cannot_be_read_is_a_failure(
    tmp_path: Path, scripted: Callable[[Message], list[CodeRoom]]
) -> None:
    task = find_task(tmp_path, proposed(tmp_path).task_id)
    for name, content in (("grade", 1), ("score", {"passed": "all"})):
        scripted({name: content})
        assert score_task(task, print).failed[0].startswith("it gave no score within 500 s: ")
    with pytest.raises(UsageError, match="breaks a rule that stations and gates rely on: it gave no score"):
        approve(find_task(tmp_path, task.proposal.task_id), "ada")


def test_the_code_that_was_approved_is_the_code_that_runs(
    tmp_path: Path, scripted: Callable[[Message], list[CodeRoom]]
) -> None:
    made = proposed(tmp_path)
    task = find_task(tmp_path, made.task_id)
    source, other = task.folder / "files" / "task.py", tmp_path / "other.py"
    other.write_text(REACH.replace('name="reach"', 'name="other"'))
    compiled = importlib.util.cache_from_source(str(source))
    py_compile.compile(str(other), cfile=compiled, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    opened = scripted({"score": SCORE})
    score_task(task, print)
    assert opened[0].first["files"] == FILES
    assert opened[0].folders == {}, "it sees no folder with other code"
    approve(find_task(tmp_path, made.task_id), "ada")
    assert TASKS.make(task.name).spec.name == "reach"


def test_a_room_does_not_choose_the_files_that_its_score_is_of(
    tmp_path: Path, scripted: Callable[[Message], list[CodeRoom]]
) -> None:
    made = proposed(tmp_path)
    scripted({"score": {**SCORE, "digest": "0" * 64}})
    assert score_task(find_task(tmp_path, made.task_id), print).digest == made.digest


def test_texts_of_an_agent_and_of_its_code_cannot_command_a_terminal(
    tmp_path: Path, scripted: Callable[[Message], list[CodeRoom]]
) -> None:
    made = propose(tmp_path, FILES, "small\x1b[2J\nand\u202e good", Sender(campaign_id="C", author="a", lane="one"))
    assert made.about == "small�[2J and� good"
    scripted({"score": {**SCORE, "failed": ["x\x1b]0;\nIt passes"], "verifier": "precision\n\x1b[1A100%"}})
    score = score_task(find_task(tmp_path, made.task_id), print)
    assert score.failed == ("x�]0; It passes",)
    assert score.verifier == "precision\n�[1A100%"
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
