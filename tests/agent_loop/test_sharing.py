"""What agent sessions know of each other: nothing, results, everything; and a control arm inside a campaign."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from agent_loop import tools
from agent_loop.lab_client import RequestRefused
from enpire.campaign.branch import Branch
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.campaign import AgentPlan, Campaign
from enpire.campaign.events import kinds_of
from enpire.campaign.training_events import LearnerStarted
from enpire.errors import EnpireError
from enpire.home import Home, open_home
from enpire.store.reading import Page
from tests.agent_loop.pretend_lab import CAMPAIGN, Running
from tests.agent_loop.test_branches import CLAIM, PLAN, opened, running

SECRET = "0.9375"
"""The value of a changed setting of session `one`, and part of its texts."""
ISOLATED, LEADERBOARD = replace(PLAN, sharing="isolated"), replace(PLAN, sharing="leaderboard")
ARM = replace(PLAN, isolated=("two",))
"""Everything is shared, except with session `two`."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def ask(lab: Running, lane: str, name: str, **arguments: object) -> dict[str, object]:
    return lab.beside(lambda: tools.call(lab.client(lane), name, arguments))


def told(lab: Running, lane: str, experiment: str) -> Mapping[str, str]:
    """Everything that the reading tools answer one session, by tool; a refusal counts as its text."""
    asked: Mapping[str, Mapping[str, object]] = {
        "get_brief": {}, "list_experiments": {}, "query_findings": {}, "wait": {"seconds": 0.0},
        "get_experiment": {"experiment_id": experiment}, "get_diff": {"experiment_id": experiment},
    }  # fmt: skip

    def answer(name: str) -> str:
        try:
            return json.dumps(tools.call(lab.client(lane), name, asked[name]))
        except EnpireError as problem:
            return str(problem)

    return lab.beside(lambda: {name: answer(name) for name in asked})


def worked(lab: Running) -> Branch:
    """A decided branch of session `one`, with conclusions and texts that name its setting."""
    branch = opened(lab, "one", "good", changes={"skill": float(SECRET)})
    lab.until(lambda lab: lab.state.proposals.experiments[branch.experiment_id].over)
    ask(lab, "one", "post_finding", text=f"skill {SECRET} is good", about=branch.experiment_id)
    ask(lab, "one", "finish", summary=f"skill {SECRET}")
    return branch


@pytest.mark.parametrize("plan", [ISOLATED, ARM])
def test_an_isolated_session_learns_of_no_other(home: Home, plan: BranchPlan) -> None:
    with running(home, plan) as lab:
        branch = worked(lab)
        kept = lab.lab.state.proposals.experiments[branch.experiment_id]
        assert kept.decision == "keep", kept
        answers = told(lab, "two", branch.experiment_id)
        for name, answer in answers.items():
            assert SECRET not in answer, name
            assert name in ("get_experiment", "get_diff") or branch.experiment_id not in answer, name
            assert kept.hypothesis_id not in answer, name
        brief = json.loads(answers["get_brief"])
        assert brief["sharing"] == "isolated"
        assert brief["champion"] is not None, "every session sees the champion's rate"
        assert (brief["experiments"], brief["lanes_that_finished"], brief["rounds"]) == ([], {}, [])
        assert brief["recipe"]["settings"]["skill"] == 0.3, "the recipe that the other session made is not known"
        assert brief["cost_of_kept_points"] == []
        own = json.loads(told(lab, "one", branch.experiment_id)["get_brief"])
        assert SECRET in json.dumps(own)
        assert [row["lane"] for row in own["cost_of_kept_points"]] == ["one", "the whole campaign"]
        assert own["cost_of_kept_points"][0]["points"] == round(100 * kept.delta)


def test_others_learn_nothing_of_a_control_arm_but_everything_of_each_other(home: Home) -> None:
    with running(home, replace(PLAN, isolated=("one",))) as lab:
        branch = worked(lab)
        assert all(SECRET not in answer for answer in told(lab, "two", branch.experiment_id).values())
    with running(open_home(home.root / "shared")) as lab:
        branch = worked(lab)
        answers = told(lab, "two", branch.experiment_id)
        assert [name for name, answer in answers.items() if SECRET not in answer] == ["wait"], "it shows the own ones"
        costs = json.loads(answers["get_brief"])["cost_of_kept_points"]
        assert [(row["lane"], row["kept"]) for row in costs] == [("one", 1), ("the whole campaign", 1)]


def test_a_leaderboard_shows_results_without_settings(home: Home) -> None:
    with running(home, LEADERBOARD) as lab:
        branch = worked(lab)
        answers = told(lab, "two", branch.experiment_id)
        assert all(SECRET not in answer for answer in answers.values())
        [seen] = json.loads(answers["get_brief"])["experiments"]
        assert (seen["lane"], seen["regime"], seen["decision"]) == ("one", "good", "keep")
        assert seen["delta"] > 0
        assert (seen["changes"], seen["settings"]) == ({}, {})
        assert json.loads(answers["get_experiment"])["decision"] == "keep"
        assert "shares results only" in answers["get_diff"]


@pytest.mark.parametrize(("plan", "level"), [(ISOLATED, "isolated"), (ARM, "isolated"), (LEADERBOARD, "leaderboard")])
def test_adopting_and_continuing_need_a_campaign_that_shares_everything(
    home: Home, plan: BranchPlan, level: str
) -> None:
    with running(home, replace(plan, least_starts=400)) as lab:
        branch = opened(lab, "one", "good")
        lab.until(lambda lab: branch.newest)
        with pytest.raises(RequestRefused, match=f"sharing: {level}, and `adopt` is needed"):
            ask(lab, "two", "adopt", experiment_id=branch.experiment_id)
        with pytest.raises(RequestRefused, match=f"sharing: {level}"):
            opened(lab, "two", "good", parent_experiment=branch.experiment_id)
        proposal = lab.lab.state.proposals.experiments[branch.experiment_id].hypothesis_id
        with pytest.raises(RequestRefused, match="no hypothesis"):
            ask(lab, "two", "propose_hypothesis", **CLAIM, parents=[proposal])
        if level == "leaderboard":
            ask(lab, "two", "post_finding", text="x", about=branch.experiment_id)  # its result is shown
        else:
            with pytest.raises(RequestRefused, match="no hypothesis or experiment"):
                ask(lab, "two", "post_finding", text="x", about=branch.experiment_id)
        assert lab.lab.state.proposals.experiments[branch.experiment_id].adopted_by == ()


@pytest.mark.parametrize(("plan", "hidden"), [(ISOLATED, True), (LEADERBOARD, True), (PLAN, False)])
def test_search_rollouts_of_others_are_shown_only_where_everything_is_shared(
    home: Home, plan: BranchPlan, hidden: bool
) -> None:
    with running(home, replace(plan, least_starts=400)) as lab:
        branch = opened(lab, "one", "good")
        lab.until(lambda lab: len(lab.state.branches.searched.get(branch.newest, NONE).results) > 3)
        ended = lab.lab.records.episodes(Page(campaign_id="C1", policy_id=branch.newest, purpose="search"))
        episode = next(row.order.order_id for row in ended if row.episode)
        assert ask(lab, "one", "get_episode", episode_id=episode)["purpose"] == "search"
        if hidden:
            with pytest.raises(EnpireError, match="of another agent session"):
                ask(lab, "two", "get_episode", episode_id=episode)
        else:
            assert ask(lab, "two", "get_episode", episode_id=episode)["purpose"] == "search"


def parents(lab: Running, experiment: str) -> list[str]:
    events = [cast("LearnerStarted", entry.event) for entry in lab.ledger.events(kinds=kinds_of(LearnerStarted))]
    return [event.parent for event in events if event.experiment_id == experiment]


@pytest.mark.parametrize(("plan", "from_base"), [(ARM, True), (PLAN, False)])
def test_an_isolated_session_starts_from_no_champion_of_another(home: Home, plan: BranchPlan, from_base: bool) -> None:
    with running(home, plan) as lab:
        base = lab.lab.state.champion
        branch = worked(lab)
        champion = lab.lab.state.champion
        assert champion == branch.newest
        other = opened(lab, "two", "bad")
        lab.until(lambda lab: other.turn)
        assert parents(lab, other.experiment_id) == [base if from_base else champion]


def test_an_isolated_session_may_try_what_another_one_tried(home: Home) -> None:
    with running(home, replace(ARM, least_starts=400, robot_s=100_000.0)) as lab:  # no gate before the end of the test
        first = opened(lab, "one", "good")
        lab.until(lambda lab: first.newest)
        with pytest.raises(RequestRefused, match="exactly this recipe"):
            opened(lab, "three", "good")
        again = opened(lab, "two", "good")
        lab.until(lambda lab: len(lab.state.branches.searched.get(again.newest, NONE).results) > 40)
        assert again.phase == "search", "it acts like the branch of another session, which does not end it"


def test_a_control_arm_that_no_session_has_is_refused() -> None:
    branched: Callable[..., Campaign] = lambda *lanes: replace(  # noqa: E731
        CAMPAIGN, agents=(AgentPlan(name="search", lanes=2),), branches=replace(PLAN, isolated=lanes)
    )
    branched("search-2")
    with pytest.raises(ValueError, match="'search-3', which is no agent session.*search-1, search-2"):
        branched("search-3")
    with pytest.raises(ValueError, match="isolated has a name twice"):
        branched("search-1", "search-1")


class NONE:
    """No rollouts yet."""

    results: Mapping[int, object] = {}
