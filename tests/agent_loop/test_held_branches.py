"""A branch that a tripwire holds waits for a person; the robots do not wait with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from agent_loop import tools
from agent_loop.brief import make_brief
from agent_loop.lab_client import RequestRefused
from agent_loop.session import AgentSession, run_session
from enpire.campaign.branch import Branch
from enpire.campaign.experiments import MOST_HELD
from enpire.campaign.quarantine_events import ExperimentQuarantined, Tripwire
from enpire.home import Home, open_home
from enpire.requests import operator_commands
from enpire.steps.ending import ending
from enpire.steps.quarantine_commands import hold
from enpire.steps.take_snapshot import snapshot
from tests.agent_loop.pretend_lab import Running, with_skill
from tests.agent_loop.test_branches import BRANCHED, PLAN, REGIMES, assert_recomputes, opened, purposes
from tests.fakes.sample_events import append
from web_ui.alarms import Alarms

ROUNDS = replace(BRANCHED.rounds, episodes=20)
BUDGET = replace(BRANCHED.budget, rounds=4)
SHIPPED = replace(PLAN, recipes=("good",), robot_s=10_000.0, slots=1, hand_over_after=1)
"""As in configs/campaigns/pin_insertion.yaml: rounds first, then the branch of one session."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def running(home: Home) -> Running:
    campaign = replace(BRANCHED, rounds=ROUNDS, budget=BUDGET, branches=SHIPPED)
    return Running(home, campaign=campaign, recipe=with_skill(0.3), regimes={"good": REGIMES["good"]})


@contextmanager
def searching(lab: Running) -> Iterator[None]:
    """The agent session `search` works beside the loop."""
    session = AgentSession(home=lab.home.root, campaign_id="C1", lane="one", agent="search", work=lab.home.root, seed=5)
    thread = threading.Thread(target=run_session, args=(session, lambda said: None), daemon=True)
    thread.start()
    yield
    append(lab.ledger, [("campaign ended", {"campaign_id": "C1", "reached": False, "reason": "the test"})])
    lab.until(lambda _: not thread.is_alive())


def held(lab: Running, branch: Branch, tripwire: Tripwire = "critic") -> None:
    why = "3 of 4 successes are not believed"
    last = ExperimentQuarantined(
        experiment_id=branch.experiment_id, policy_id=branch.newest, tripwire=tripwire, why=why
    )  # fmt: skip
    hold(lab.lab, last)


def test_rounds_resume_while_the_only_branch_is_held(home: Home) -> None:
    with running(home) as lab:
        good = opened(lab, "one", "good")
        lab.until(lambda lab: good.robot_s)
        held(lab, good)
        began, before = lab.lab.state.round, purposes(lab)
        lab.until(lambda lab: lab.state.round == BUDGET.rounds > began and not lab.state.training)
        found = purposes(lab)
        assert found["search", good.experiment_id] == before["search", good.experiment_id]
        assert lab.lab.state.champion != good.newest
        assert ending(lab.lab) is None, "it waits for the person, up to its other budgets"


def test_the_session_of_a_held_branch_opens_another_one_and_the_held_one_resumes_when_it_is_cleared(home: Home) -> None:
    with running(home) as lab, searching(lab):
        branches = lab.lab.state.branches.by_experiment
        lab.until(lambda _: [one for one in branches.values() if one.robot_s])
        [first] = branches.values()
        held(lab, first)
        lab.until(lambda lab: lab.state.champion in lab.state.branches.versions)
        other = next(one for one in branches.values() if lab.lab.state.champion in one.versions)
        assert lab.lab.state.champion == other.newest != first.newest
        assert first.quarantined
        alarm = Alarms().update(snapshot(lab.lab), [])[f"quarantine-held-{first.experiment_id}"]
        assert "In quarantine (critic: 3 of 4 successes are not believed)" in alarm.text
        assert "other work continues" in alarm.default
        used = first.robot_s
        seen = lab.ledger.head.seq
        operator_commands.leave(
            lab.home.inbox, "experiment clear", first.experiment_id, operator="ada", reason="the pin is in", seen=seen
        )  # fmt: skip
        lab.until(lambda _: first.robot_s > used or first.phase == "over")
        assert_recomputes(lab)


def test_a_session_waits_after_two_held_branches_and_for_one_that_is_held_for_what_the_session_did(home: Home) -> None:
    with running(home) as lab:
        for _ in range(MOST_HELD):
            held(lab, opened(lab, "one", "good", changes={"steps": len(lab.lab.state.branches.by_experiment) + 1}))
        third = opened(lab, "one", "good", changes={"colour": "green"})
        with pytest.raises(RequestRefused, match=f"{third.experiment_id} is not decided yet"):
            opened(lab, "one", "good", changes={"skill": 0.5})
        held(lab, third)
        with pytest.raises(RequestRefused, match="is not decided yet"):
            opened(lab, "one", "good", changes={"skill": 0.5})
        brief = lab.beside(lambda: make_brief(lab.client("one")))
        shown = cast("list[dict[str, object]]", brief["experiments"])
        may = {one["experiment_id"]: one["may_be_built_on"] for one in shown}
        assert [may[one.experiment_id] for one in lab.lab.state.branches.by_experiment.values()] == [False] * 3
        assert brief["wait_for"] == third.experiment_id
        suspect = opened(lab, "two", "good", changes={"steps": 8})
        held(lab, suspect)
        held(lab, suspect, "flood")
        with pytest.raises(RequestRefused, match=f"{suspect.experiment_id} is not decided yet"):
            opened(lab, "two", "good", changes={"skill": 0.5})


def test_a_session_may_finish_while_a_person_decides_about_its_branch(home: Home) -> None:
    with running(home) as lab:
        good = opened(lab, "one", "good")
        finish = partial(tools.call, lab.client("one"), "finish", {"summary": "Nothing is left to try."})
        with pytest.raises(RequestRefused, match="is not decided yet"):
            lab.beside(finish)
        held(lab, good)
        lab.beside(finish)
        assert "one" in lab.lab.state.proposals.finished
        assert good.phase != "over"
