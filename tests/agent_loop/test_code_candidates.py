"""Code candidates: an agent writes a learner and a policy; they run in sandboxes, and the gate decides."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from agent_loop import tools
from agent_loop.agents.anthropic import Anthropic
from agent_loop.brief import make_brief
from agent_loop.lab_client import RequestRefused
from agent_loop.past_experiments import past_experiments
from enpire.campaign.agent_events import ExperimentRefused, ExperimentSubmitted
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.events import kinds_of
from enpire.campaign.training_events import LearnerKilled, VersionMade
from enpire.cli import app
from enpire.code_candidates.repository import CodeRepository, champion_ref, lane_ref
from enpire.home import Home, open_home
from enpire.processes.sandbox import bubblewrap
from enpire.queries.decision_audit import recompute
from enpire.queries.texts import campaign as campaign_text
from enpire.service import reading
from enpire.service.code import read_folder
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.recorded_model import Recording, served, tool_use, words
from tests.agent_loop.test_anthropic import agent
from tests.fakes.code_agent import CLAIM, CODED, FILES, REGIMES, descendants, opened, running, submit, with_robots

pytestmark = pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or is not allowed here")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def assert_recomputes(lab: Running) -> None:
    assert [check for check in recompute(lab.ledger) if not check.equal] == []
    assert rebuilt(lab.ledger, "C1") == lab.lab.state


def test_an_agent_writes_code_is_refused_once_and_its_candidate_is_promoted(home: Home, tmp_path: Path) -> None:
    lab, robots = running(home)
    with lab:
        with_robots(lab, robots)
        with pytest.raises(RequestRefused, match="'verifier.py' is outside the edit surface; allowed are learner.py"):
            opened(lab, {**FILES, "verifier.py": "def judge(): return True\n"})
        assert not CodeRepository(home.root).folder.exists(), "nothing of refused files is kept"
        branch = opened(lab, FILES)
        experiment = lab.lab.state.proposals.experiments[branch.experiment_id]
        lab.until(lambda lab: experiment.over)
        assert experiment.decision == "keep", experiment
        assert lab.lab.state.champion == branch.newest
        assert robots.acted > 40
        assert_recomputes(lab)
        refused = [entry.event for entry in lab.ledger.events(kinds=kinds_of(ExperimentRefused))]
        assert len(refused) == 1
        _assert_lineage(lab, home, experiment.experiment_id)
        _assert_adoptable(lab, home, experiment.commit)
        _assert_entry(lab, experiment.experiment_id)
        _assert_skill(lab, home, experiment.experiment_id, tmp_path)
        in_force = lab.lab.state.proposals.recipe_in_force(lab.lab.recipe)
        assert in_force == lab.lab.recipe, "rounds keep the campaign's own recipe"


@pytest.mark.slow
def test_a_model_writes_code_is_refused_once_mends_it_and_its_candidate_is_promoted(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process of the agent is killed after one message more, and no answer is paid for twice.

    The orchestrator ends between two processes of the agent, and again while the candidate is tried.
    """
    recording = Recording(answers=[])

    def work(lab: Running, one: Anthropic) -> str:
        """How a process of the agent ends its turn; empty if it was killed before."""

        def turn() -> str:
            with contextlib.suppress(SystemExit):
                return one.turn(tools.in_process(lab.client()), make_brief(lab.client()))
            return ""

        return lab.beside(turn)

    with served(recording) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        lab, robots = running(home)
        with lab:
            with_robots(lab, robots)
            made = lab.beside(lambda: tools.call(lab.client(), "propose_hypothesis", CLAIM))
            submit_it = tool_use("submit_code", hypothesis_id=made["hypothesis_id"])
            recording.answers = [
                [tool_use("write_file", path=path, text=text) for path, text in FILES.items()],
                [tool_use("write_file", path="verifier.py", text="def judge(): return True\n"), submit_it],
                [tool_use("delete_file", path="verifier.py"), submit_it],
                [words("It waits for its gate.")],
            ]
            assert not work(lab, agent(tmp_path, 2))
        lab, robots = running(home)
        with lab:
            with_robots(lab, robots)
            for _ in range(2):
                assert not work(lab, agent(tmp_path, 2))
            assert work(lab, agent(tmp_path)) == "It waits for its gate."
            [experiment] = [one for one in lab.lab.state.proposals.experiments.values() if one.commit]
            lab.until(lambda lab: experiment.policy_id, turns=20_000)
    assert len(recording.asked) == len(recording.answers)
    results = [block for request in recording.asked[1:] for block in request["messages"][-1]["content"]]
    refused = [block["content"] for block in results if block.get("is_error")]
    assert len(refused) == 1
    assert "'verifier.py' is outside the edit surface" in refused[0]
    lab, robots = running(home)
    with lab:
        with_robots(lab, robots)
        experiment = lab.lab.state.proposals.experiments[experiment.experiment_id]
        lab.until(lambda lab: experiment.over, turns=20_000)
        assert experiment.decision == "keep", experiment
        assert lab.lab.state.champion == experiment.policy_id
        assert CodeRepository(home.root).files(experiment.commit) == FILES
        assert_recomputes(lab)


def _assert_lineage(lab: Running, home: Home, experiment_id: str) -> None:
    """The commit is in the event, the ref, the event of the version and its manifest."""
    submitted = [entry.event for entry in lab.ledger.events(kinds=kinds_of(ExperimentSubmitted))][-1]
    made = [entry.event for entry in lab.ledger.events(kinds=kinds_of(VersionMade))][-1]
    assert isinstance(submitted, ExperimentSubmitted)
    assert isinstance(made, VersionMade)
    manifest = json.loads((home.versions / made.policy_id / "policy.json").read_text())
    repository = CodeRepository(home.root)
    assert submitted.commit == made.commit == manifest["commit"] == repository.commit_of(experiment_id) != ""
    assert (submitted.sandbox, made.policy_kind) == ("bubblewrap", "code")
    assert repository.files(made.commit) == FILES
    shown = tools.call(lab.client(), "get_code", {"experiment_id": experiment_id})
    assert shown["files"] == FILES
    assert not list((repository.folder / "refs" / "submitted").glob("*")), "answered submissions leave no ref"


def _assert_entry(lab: Running, experiment_id: str) -> None:
    """The entry of a code candidate shows which lines it changed, and what it cost."""
    [entry] = past_experiments(lab.client("two"), lab.client("two").proposals())
    assert (entry["experiment_id"], entry["decision"]) == (experiment_id, "keep")
    tried, diff, cost = entry["tried"], entry["diff"], entry["cost"]
    assert isinstance(tried, dict)
    assert isinstance(diff, list)
    assert isinstance(cost, dict)
    assert {"learner.py", "policy.py"} <= tried.keys()
    assert 'learner.py: +    rows = [one.arrays() for one in job.episodes if one.outcome == "success"]' in diff
    assert entry["search_gain"] is not None
    assert cost["robot_min"] is not None


def _assert_skill(lab: Running, home: Home, experiment_id: str, work: Path) -> None:
    """The skill of the promoted candidate is listed, and another session or a person takes it."""
    [listed] = cast("list[dict[str, Any]]", make_brief(lab.client("two"))["skills"])
    assert (listed["name"], listed["about"]) == ("fit", "Least squares through the origin.")
    assert (listed["experiment"], listed["uses"]) == (experiment_id, 0)
    taken = tools.call(lab.client("two"), "take_skill", {"skill": listed["skill"]})
    assert (taken["path"], taken["text"]) == ("skills/fit.py", FILES["skills/fit.py"])
    ran = CliRunner().invoke(app, ["agent", "skills", "--home", str(home.root)])
    assert "Least squares through the origin." in ran.output, ran.output
    take = ["agent", "take-skill", listed["skill"], str(work / "mine"), "--home", str(home.root)]
    ran = CliRunner().invoke(app, take)
    assert "mine is not a folder" in ran.output
    (work / "mine").mkdir()
    for _ in range(2):
        assert CliRunner().invoke(app, take).exit_code == 0
    assert read_folder(work / "mine") == {"skills/fit.py": FILES["skills/fit.py"]}
    (work / "mine" / "skills" / "fit.py").write_text("mine\n")
    assert "The folder has another skills/fit.py" in CliRunner().invoke(app, take).output


def _assert_adoptable(lab: Running, home: Home, commit: str) -> None:
    """The champion has a ref, and another session may start from its code."""
    repository = CodeRepository(home.root)
    lab.until(lambda lab: lab.named_champions == len(lab.state.crowned))
    assert repository.resolve(champion_ref("C1", len(lab.lab.state.crowned))).commit == commit
    adopted = lab.beside(lambda: tools.call(lab.client("two"), "adopt", {"experiment_id": "champion"}))
    assert (adopted["commit"], adopted["files"]) == (commit, FILES)
    assert repository.resolve(lane_ref("C1", "two")).commit == commit


def test_a_session_continues_the_code_of_another_and_goes_back_to_earlier_code(home: Home, tmp_path: Path) -> None:
    lab = Running(home, campaign=CODED, regimes=REGIMES, paused=True)
    repository = CodeRepository(home.root)
    with lab:
        theirs = lab.beside(lambda: submit(lab.client("one"), FILES))
        proposals = lab.lab.state.proposals

        def call(name: str, **arguments: str) -> dict[str, object]:
            return lab.beside(lambda: tools.call(lab.client("two"), name, arguments))

        with pytest.raises(RequestRefused, match="'two' has submitted and adopted no code"):
            call("revert_code")
        with pytest.raises(RequestRefused, match="champion was made by a recipe of the lab"):
            call("adopt", experiment_id="champion")
        assert call("adopt", experiment_id=theirs)["files"] == FILES
        begun = call("get_code")
        assert (begun["files"], begun["commit"]) == (FILES, proposals.experiments[theirs].commit)
        ids: list[str] = []
        for ridge in ("0.1", "0.2"):
            changed = {**FILES, "recipe.yaml": FILES["recipe.yaml"].replace("0.001", ridge)}
            ids.append(lab.beside(lambda changed=changed: submit(lab.client("two"), changed)))
            call("give_up", about=ids[-1], reason="the test goes on")
        first, second = (proposals.experiments[one] for one in ids)
        assert first.continues == repository.parent(first.commit) == proposals.experiments[theirs].commit
        assert second.continues == repository.parent(second.commit) == first.commit
        back = call("revert_code")
        assert (back["commit"], back["left"]) == (first.commit, second.commit)
        assert "0.1" in str(back["files"])
        assert call("revert_code", to=second.commit[:9])["commit"] == second.commit
        arguments = ["revert-code", str(tmp_path / "back"), "--to", ids[0], "--lane", "two", "--home", str(home.root)]
        ran = lab.beside(lambda: CliRunner().invoke(app, ["agent", *arguments]))
        assert ran.exit_code == 0, ran.output
        assert read_folder(tmp_path / "back") == repository.files(first.commit)
        assert repository.resolve(lane_ref("C1", "two")).commit == first.commit
        assert call("revert_code")["commit"] == proposals.experiments[theirs].commit, "what the first one continues"
        with pytest.raises(RequestRefused, match="'two' continues no earlier code; name another commit"):
            call("revert_code")
        assert call("revert_code", to=first.commit)["commit"] == first.commit
        with pytest.raises(RequestRefused, match=r"'abcdef0' names 0 commits of the agent session 'two'; its newest"):
            call("revert_code", to="abcdef0")
        with pytest.raises(RequestRefused, match=r"names 0 commits"):
            call("revert_code", to=second.commit[:6])
        assert call("get_code")["commit"] == first.commit
        assert rebuilt(lab.ledger, "C1") == lab.lab.state
        with reading.open_records(home.root) as records:
            shown = campaign_text(reading.campaign_view(records, "C1"))
        assert f"code {second.commit[:12]} after {first.commit[:12]}" in shown


def _next_learner(lab: Running, after: int) -> int:
    """The process of the learner that follows another one."""

    def present() -> list[int]:
        pids = [one.process.pid for one in lab.lab.branch_learners.values()]
        return [pid for pid in pids if pid != after]

    lab.until(lambda _: present())
    return present()[0]


def _learner_rooms(learner: int) -> list[int]:
    """The processes in which the learner's code runs, inside its sandbox.

    Without those of bubblewrap: one that is killed while it starts may leave a child that runs to its end.
    """
    found: list[int] = []
    for pid in descendants(learner):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"python" in command[0] and b"enpire.code_candidates.learner_room" in command:
                found.append(pid)
    return found


def test_kill_9_of_the_learner_and_of_its_sandbox_begins_the_training_again(home: Home) -> None:
    slow = {**FILES, "learner.py": f"import time\ntime.sleep(5)\n{FILES['learner.py']}"}  # it is killed meanwhile
    lab, robots = running(home)
    with lab:
        with_robots(lab, robots)
        branch = opened(lab, slow)
        learner = _next_learner(lab, after=0)
        rooms: list[int] = []
        lab.until(lambda _: rooms.extend(_learner_rooms(learner)) or rooms)
        os.kill(rooms[0], 9)
        lab.until(lambda lab: len(list(lab.ledger.events(kinds=kinds_of(LearnerKilled)))) == 1)
        os.kill(_next_learner(lab, after=learner), 9)
        lab.until(lambda lab: len(list(lab.ledger.events(kinds=kinds_of(LearnerKilled)))) == 2)
        lab.until(lambda lab: branch.newest)
        assert rebuilt(lab.ledger, "C1") == lab.lab.state


def test_kill_9_of_the_policy_and_of_the_orchestrator_loses_nothing(home: Home) -> None:
    lab, robots = running(home)
    with lab:
        with_robots(lab, robots)
        branch = opened(lab, FILES)
        robots.kill_at = 5
        lab.until(lambda lab: robots.acted > 10)
        failed = robots.failed
    lab, robots = running(home)
    with lab:
        with_robots(lab, robots)
        experiment = lab.lab.state.proposals.experiments[branch.experiment_id]
        robots.kill_at = 5
        lab.until(lambda lab: experiment.over)
        assert experiment.decision == "keep", experiment
        assert failed == robots.failed == [], "the killed policy continued its episode"
        assert_recomputes(lab)


def test_the_same_code_is_not_tried_twice_against_the_same_champion(home: Home) -> None:
    bad = {**FILES, "policy.py": FILES["policy.py"].replace("self.gain *", "-self.gain *")}
    lab, robots = running(home)
    with lab:
        with_robots(lab, robots)
        experiment = lab.lab.state.proposals.experiments[opened(lab, bad).experiment_id]
        lab.until(lambda lab: experiment.over)
        assert experiment.decision == "revert", experiment
        with pytest.raises(RequestRefused, match="tried exactly this code [(]revert[)]"):
            lab.beside(lambda: submit(lab.client("two"), bad))
        reworded = {**bad, "learner.py": bad["learner.py"].replace("rows", "episodes_of_use"), "README.md": "New!"}
        with pytest.raises(RequestRefused, match="apart from comments, layout and names"):
            lab.beside(lambda: submit(lab.client("three"), reworded))


def test_code_is_refused_where_the_campaign_does_not_allow_it(home: Home) -> None:
    lab, _ = running(home, replace(CODED, code=replace(CODED.code, allowed=False)))
    with lab, pytest.raises(RequestRefused, match="allows no code candidates"):
        opened(lab, FILES)
