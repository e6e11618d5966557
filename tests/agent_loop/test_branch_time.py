"""Robot time and parents of branches over a campaign: budgets, a stalled campaign, and branches behind the champion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agent_loop import tools
from enpire.campaign.branch_plan import BranchPlan
from enpire.gate.rule import GateRule
from enpire.home import Home, open_home
from enpire.scheduling.branch_shares import COLLECT, robot_time_shares
from tests.agent_loop.pretend_lab import Running, with_skill
from tests.agent_loop.test_branches import BRANCHED, PLAN, REGIMES, assert_recomputes, opened, purposes, running
from tests.agent_loop.test_sharing import parents

LONG = replace(PLAN, robot_s=10_000.0)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.mark.parametrize(
    ("sharing", "rebased"), [("adopt", True), pytest.param("isolated", False, marks=pytest.mark.slow)]
)
def test_a_branch_behind_a_champion_of_its_learner_trains_from_the_champion(
    home: Home, sharing: str, rebased: bool
) -> None:
    plan = replace(LONG, sharing=sharing)
    with running(home, plan) as lab:
        bad = opened(lab, "one", "bad")
        lab.until(lambda lab: bad.newest)
        good = opened(lab, "two", "good")
        lab.until(lambda lab: lab.state.champion == good.newest)
        before = bad.turn
        lab.until(lambda lab: bad.turn >= before + 2, turns=3000)
        later = parents(lab, bad.experiment_id)[before:]
        assert (lab.lab.state.champion in later) is rebased
        if rebased:
            assert lab.lab.state.branches.is_behind(bad, 100) or bad.newest != bad.versions[0]


@pytest.mark.slow
def test_a_stalled_campaign_hands_robot_time_to_branches_and_collects_again_after_a_promotion(home: Home) -> None:
    rounds = replace(BRANCHED.rounds, episodes=20)
    campaign = replace(BRANCHED, rounds=rounds, gate=GateRule(pairs=60), branches=replace(LONG, stalled_rounds=1))
    with Running(home, campaign=campaign, regimes=REGIMES) as lab:

        def collection() -> float:
            shares = robot_time_shares(lab.lab.state, campaign, 100, due=True)
            return shares[COLLECT] / sum(shares.values())

        bad = opened(lab, "one", "bad")
        lab.until(lambda lab: bad.newest and lab.state.rounds_since_promotion >= 1)
        assert collection() == pytest.approx(0.1, abs=0.01), "all rollouts of this laboratory take one second"
        good = opened(lab, "two", "good")
        lab.until(lambda lab: lab.state.champion == good.newest)
        assert lab.lab.state.rounds_since_promotion == 0
        assert collection() == pytest.approx(1 - campaign.branches.share, abs=0.01)


def test_the_budgets_of_a_branch_hold(home: Home) -> None:
    plan: BranchPlan = replace(PLAN, robot_s=60.0, least_starts=58)
    with running(home, plan) as lab:
        equal = opened(lab, "one", "good", changes={"skill": 0.3})
        highest = 0.0

        def over(_: object) -> bool:
            nonlocal highest
            flying = sum(order.branch == equal.experiment_id for order in lab.lab.state.branches.open.values())
            highest = max(highest, equal.robot_s + flying)
            return equal.phase in ("gate", "over")

        lab.until(over)
        room = len(lab.lab.fleet.names) * (4 + BRANCHED.stations.ahead)  # pyright: ignore[reportAttributeAccessIssue]
        assert equal.robot_s >= 58.0, equal
        assert highest < 60.0 + room, "the rollouts in flight when the budget was used up"
        assert equal.last_gain.n >= 40, "the last version has acted often enough to be compared"
        assert equal.turn == 1, "no robot time is left to compare another version"


def test_the_brief_shows_gain_time_and_turns_of_each_branch(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(home) as lab:
        good = opened(lab, "one", "good")
        lab.until(lambda lab: len(lab.state.branches.searched.get(good.newest, NONE).results) >= 15)
        before = good.phase
        with monkeypatch.context() as silent:
            silent.setattr(lab.lab.fleet, "poll", lambda timeout_s: ())
            brief = lab.beside(lambda: tools.call(lab.client("two"), "get_brief", {}))
        [entry] = json.loads(json.dumps(brief["experiments"]))
        assert (brief["sharing"], brief["experiments_of_this_lane"]) == ("adopt", 0)
        assert (entry["turn"], entry["is_over_champion"]) == (1, True)
        # Its results may suffice for a gate, which opens while the brief is read or after it.
        assert entry["branch_phase"] in {before, good.phase} <= {"search", "gate"}
        assert entry["robot_min"] == round(good.robot_s / 60, 2) > 0
        experiment = lab.lab.state.proposals.experiments[good.experiment_id]
        lab.until(lambda lab: experiment.over)
        brief = lab.beside(lambda: tools.call(lab.client("two"), "get_brief", {}))
        [entry] = json.loads(json.dumps(brief["experiments"]))
        assert entry["gain"] == round(good.last_gain.mean, 2) > 0.3
        assert (entry["gain_low"], entry["gain_starts"]) == (round(good.last_gain.low, 2), good.last_gain.n)
        assert entry["is_over_champion"] is False, "it is the champion now"
        assert [entry[f"gain_now{end}"] for end in ("", "_low", "_high")] == [0.0, 0.0, 0.0]
        low, mean, high = (entry["points_per_robot_h"][place] for place in (1, 0, 2))
        assert low < mean <= high, "the mean is the upper end where the champion succeeds in no pair"
        assert (entry["learns_from"], entry["gate_min"] > 0) == ("own", True)
        learned = entry["learned_from_episodes"]
        assert (set(learned), learned["others"]) == ({"demonstrations", "own", "ancestors", "others"}, 0)
        hours = (entry["robot_min"] + entry["gate_min"]) / 60
        assert mean * hours == pytest.approx(round(mean * hours), abs=0.6), "the difference is rounded to one point"


class NONE:
    """No rollouts yet."""

    results: Mapping[int, object] = {}


def kinds_in(lab: Running, *kinds: str) -> list[str]:
    return [entry.kind for entry in lab.ledger.events() if entry.kind in kinds]


@pytest.mark.parametrize("skill", [0.3, pytest.param(0.9, marks=pytest.mark.slow)])
def test_robots_act_for_a_branch_only_after_a_round_without_more_success(home: Home, skill: float) -> None:
    rounds = replace(BRANCHED.rounds, episodes=20)
    campaign = replace(BRANCHED, rounds=rounds, branches=replace(LONG, hand_over_after=1))
    with Running(home, campaign=campaign, regimes=REGIMES) as lab:
        lab.lab.recipe = with_skill(skill)
        lab.lab.campaign = replace(campaign, rounds=replace(rounds, episodes=10**6))
        good = opened(lab, "one", "good")
        lab.until(lambda lab: good.newest)  # its learner does not wait
        assert lab.lab.state.branches.hand_over.waits
        lab.lab.campaign = campaign
        lab.until(lambda lab: not lab.state.branches.hand_over.waits)
        assert purposes(lab)["search", good.experiment_id] == 0
        assert lab.lab.state.branches.hand_over.without_gain == 1
        lab.until(lambda lab: lab.state.proposals.experiments[good.experiment_id].over or lab.state.round > 12)
        if skill < 0.5:
            assert lab.lab.state.champion == good.newest
            order = ["rounds handed over", "branch entered gate"]
            assert kinds_in(lab, *order) == order
            assert_recomputes(lab)
        assert kinds_in(lab, "rounds handed over") == ["rounds handed over"], "it is decided once"


def test_rounds_hand_over_when_none_is_left(home: Home) -> None:
    budget, rounds = replace(BRANCHED.budget, rounds=1), replace(BRANCHED.rounds, episodes=20)
    campaign = replace(BRANCHED, budget=budget, rounds=rounds, branches=replace(LONG, hand_over_after=5))
    with Running(home, campaign=campaign, regimes=REGIMES) as lab:
        good = opened(lab, "one", "good")
        lab.until(lambda lab: lab.state.champion == good.newest)
        [event] = [entry.event for entry in lab.ledger.events() if entry.kind == "rounds handed over"]
        assert (event.reason, event.without_gain) == ("no round left", 0)  # pyright: ignore[reportAttributeAccessIssue]
        assert_recomputes(lab)
