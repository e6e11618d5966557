"""Branches: experiments train and act in turns with robot time of their own, and survive a kill in every phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from agent_loop import tools
from agent_loop.lab_client import LabClient, RequestRefused
from enpire.campaign import branch_time
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.branch import Branch
from enpire.campaign.branch_events import BranchEnded, BranchEnteredGate
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.campaign import Campaign
from enpire.campaign.events import kinds_of
from enpire.campaign.order_events import OrdersIssued
from enpire.campaign.training_events import LearnerStarted
from enpire.home import Home, open_home
from enpire.loop import turn
from enpire.queries.decision_audit import recompute
from enpire.scheduling import load_backoff
from enpire.scheduling.scheduler import WHILE_LOADING
from tests.agent_loop.pretend_lab import CAMPAIGN, POOR, Running, with_skill
from tests.fakes.fake_fleet import FakeFleet, delivered

REGIMES = {
    "good": replace(with_skill(0.95), name="good", turn_rollouts=5),
    "bad": replace(with_skill(0.05), name="bad", turn_rollouts=5),
    "same": replace(with_skill(0.95), name="same", settings={**POOR.settings, "skill": 0.95, "colour": "green"}),
}
PLAN = BranchPlan(recipes=tuple(REGIMES), robot_s=80.0, learner_s=1000.0, least_starts=20)
BRANCHED: Campaign = replace(CAMPAIGN, branches=PLAN, rounds=replace(CAMPAIGN.rounds, episodes=3000, train_starts=500))
UNLIMITED = replace(PLAN, robot_s=1e9, least_starts=400)
"""Branches search on, however many turns the loop makes while a request waits."""
CLAIM = {"statement": "another regime helps", "falsifier": "no gain", "regime": "offline RL", "kind": "draft"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def running(home: Home, plan: BranchPlan = PLAN) -> Running:
    return Running(home, campaign=replace(BRANCHED, branches=plan), regimes=REGIMES)


def submit(client: LabClient, regime: str, **more: object) -> str:
    made = tools.call(client, "propose_hypothesis", CLAIM)
    sent = {"hypothesis_id": made["hypothesis_id"], "regime": regime, **more}
    return str(tools.call(client, "submit_candidate", sent)["experiment_id"])


def opened(lab: Running, lane: str, regime: str, **more: object) -> Branch:
    experiment = lab.beside(lambda: submit(lab.client(lane), regime, **more))
    return lab.lab.state.branches.by_experiment[experiment]


def purposes(lab: Running) -> Mapping[tuple[str, str], int]:
    """(purpose, branch) -> orders."""
    events = [entry.event for entry in lab.ledger.events(kinds=kinds_of(OrdersIssued))]
    orders = [order for event in events for order in cast("OrdersIssued", event).orders]
    return Counter((order.purpose, order.branch) for order in orders)


def assert_recomputes(lab: Running) -> None:
    checks = recompute(lab.ledger)
    assert [check for check in checks if not check.equal] == []
    assert any(check.kind in (BranchEnteredGate.KIND, BranchEnded.KIND) for check in checks)
    assert rebuilt(lab.ledger, "C1") == lab.lab.state


def test_a_branch_searches_on_train_starts_and_its_version_is_promoted_by_a_gate(home: Home) -> None:
    with running(home) as lab:
        base = lab.lab.state.champion
        good = opened(lab, "one", "good")
        experiment = lab.lab.state.proposals.experiments[good.experiment_id]
        lab.until(lambda lab: experiment.over)
        assert experiment.decision == "keep", experiment
        assert lab.lab.state.champion == good.newest
        found = purposes(lab)
        assert found["search", good.experiment_id] >= PLAN.least_starts
        assert found["search", ""] >= PLAN.least_starts, "the champion acts on the same starts"
        searched = lab.lab.state.branches.searched
        assert set(searched[good.newest].results) & set(searched[base].results)
        assert base not in lab.lab.state.collected or good.newest not in lab.lab.state.collected
        in_force = lab.lab.state.proposals.recipe_in_force(lab.lab.recipe)
        assert (in_force.settings["skill"], in_force.space) == (0.95, REGIMES["good"].space)
        assert_recomputes(lab)


def test_a_branch_trains_while_the_base_is_measured_and_is_decided_later(home: Home) -> None:
    # The round never has all its data, so the base waits for the version of the branch, however slow its learner is.
    rounds = replace(BRANCHED.rounds, episodes=10**6)
    campaign = replace(BRANCHED, base=replace(BRANCHED.base, evaluate_starts=200), rounds=rounds)
    with Running(home, campaign=campaign, regimes=REGIMES, measured=False) as lab:
        good = opened(lab, "one", "good")
        lab.until(lambda lab: good.newest or lab.state.base_measured)
        assert not lab.lab.state.base_measured, "its learner does not wait"
        experiment = lab.lab.state.proposals.experiments[good.experiment_id]
        lab.until(lambda lab: experiment.over)
        assert experiment.decision == "keep"
        kinds = [entry.kind for entry in lab.ledger.events()]
        assert kinds.index("base measured") < kinds.index(BranchEnteredGate.KIND)
        assert_recomputes(lab)


def test_search_rollouts_count_for_no_hidden_rate(home: Home) -> None:
    with running(home) as lab:
        bad = opened(lab, "one", "bad")
        lab.until(lambda lab: len(lab.state.branches.searched.get(bad.newest, Empty).results) > 10)
        assert bad.newest not in lab.lab.state.hidden
        assert bad.newest not in lab.lab.state.forecast.trials
        assert bad.newest not in lab.lab.state.collected


def test_a_branch_trains_in_turns_and_learns_from_what_it_did(home: Home) -> None:
    with running(home, replace(PLAN, robot_s=1e6)) as lab:
        bad = opened(lab, "one", "bad")
        lab.until(lambda lab: bad.turn > 1)
        started = [entry.event for entry in lab.ledger.events(kinds=kinds_of(LearnerStarted))]
        turns = [event for event in started if isinstance(event, LearnerStarted) and event.turn]
        assert turns[1].parent == bad.versions[0]
        assert set(turns[0].episodes) < set(turns[1].episodes)


def test_a_branch_without_a_gain_ends_with_its_budget(home: Home) -> None:
    with running(home) as lab:
        bad = opened(lab, "one", "bad")
        experiment = lab.lab.state.proposals.experiments[bad.experiment_id]
        lab.until(lambda lab: experiment.over)
        assert (experiment.decision, experiment.why.partition(":")[0]) in (
            ("revert", "no gain"),
            ("revert", "worse half"),
        )
        assert bad.robot_s >= 0.25 * PLAN.robot_s
        assert_recomputes(lab)


def test_a_branch_that_acts_like_an_earlier_one_is_not_tried_again(home: Home) -> None:
    with running(home, UNLIMITED) as lab:
        good = opened(lab, "one", "good")
        lab.until(lambda lab: good.newest)
        same = opened(lab, "two", "same")
        experiment = lab.lab.state.proposals.experiments[same.experiment_id]
        lab.until(lambda lab: experiment.over)
        assert experiment.why == f"same actions: experiment {good.experiment_id}"
        assert_recomputes(lab)


@pytest.mark.parametrize("moment", ["opened", "training", "search", "gate"])
def test_a_killed_campaign_continues_its_branches(home: Home, moment: str) -> None:
    """`opened`: at once, while the branch is queued; on a busy machine its training may have begun."""
    with running(home) as lab:
        good = opened(lab, "one", "good")
        if moment != "opened":
            lab.until(lambda lab: good.phase == moment)
        before = len(lab.lab.state.ended)
    with running(home) as lab:
        again = lab.lab.state.branches.by_experiment[good.experiment_id]
        experiment = lab.lab.state.proposals.experiments[good.experiment_id]
        lab.until(lambda lab: experiment.over)
        assert experiment.decision == "keep", (moment, again)
        assert len(lab.lab.state.ended) > before
        assert_recomputes(lab)


def test_two_branches_share_the_robots_and_none_starves(home: Home) -> None:
    with running(home, UNLIMITED) as lab:
        good, bad = opened(lab, "one", "good"), opened(lab, "two", "bad")
        lab.until(lambda lab: len(lab.state.branches.searched.get(good.newest, Empty).results) > 60)
        lab.until(lambda lab: len(lab.state.branches.searched.get(bad.newest, Empty).results) > 10)
        found = purposes(lab)
        assert found["search", bad.experiment_id] > 10
        assert found["collect", ""] > 10
        lab.until(lambda lab: lab.state.branches.gain(good.newest, 100).low > 0)
        shares = branch_time.shares(lab.lab.state.branches, 100, UNLIMITED.robot_s)
        assert shares[good.experiment_id] > 0.7
        assert shares[bad.experiment_id] == pytest.approx(0.25), "half of the time is equal for all"


def test_what_a_branch_may_continue_depends_on_the_sharing(home: Home) -> None:
    with running(home, replace(UNLIMITED, sharing="isolated")) as lab:
        good = opened(lab, "one", "good")
        lab.until(lambda lab: good.newest)
        with pytest.raises(RequestRefused, match="sharing: isolated"):
            opened(lab, "two", "good", parent_experiment=good.experiment_id)
        with pytest.raises(RequestRefused, match="no regime 'best'"):
            opened(lab, "two", "best")
    with running(home) as lab:
        more = opened(lab, "two", "good", parent_experiment=good.experiment_id)
        lab.until(lambda lab: more.turn)
        assert more.parent in good.versions


def test_an_author_may_give_up_a_branch(home: Home) -> None:
    with running(home, UNLIMITED) as lab:
        bad = opened(lab, "one", "bad")
        lab.until(lambda lab: bad.newest)
        lab.beside(lambda: tools.call(lab.client("one"), "give_up", {"reason": "no use", "about": bad.experiment_id}))
        assert (bad.phase, bad.why) == ("over", "given up")
        assert lab.lab.state.proposals.experiments[bad.experiment_id].phase == "cancelled"
        lab.until(lambda lab: not lab.branch_learners)


class Empty:
    """No rollouts yet."""

    results: Mapping[int, object] = {}


def test_a_station_that_still_loads_a_version_gets_few_orders_for_it(home: Home) -> None:
    """Otherwise all its lanes would wait for the version."""
    with running(home, UNLIMITED) as lab:
        good = opened(lab, "one", "good")
        fleet = lab.lab.fleet
        assert isinstance(fleet, FakeFleet)
        fleet.ending = lambda order: (
            delivered(order, "aborted", 0, "released") if order.branch else FakeFleet.finish(fleet, order)
        )
        lab.until(lambda lab: good.newest)
        held: list[int] = []
        for _ in range(60):
            lab.until(lambda lab: True)
            turn(lab.lab)
            waiting = Counter(order.station for order in lab.lab.state.branches.open.values() if order.branch)
            held += waiting.values()
        assert max(held) == WHILE_LOADING
        fleet.ending = None
        lab.until(lambda lab: len(lab.state.branches.searched[good.newest].results) > 40, turns=400)


def test_a_branch_whose_version_no_station_can_run_ends(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_backoff, "FIRST_S", 0.1)
    with running(home) as lab:
        good = opened(lab, "one", "good")
        lab.until(lambda lab: good.newest)
        fleet = lab.lab.fleet
        assert isinstance(fleet, FakeFleet)
        why = "refused: policy refused: no module lerobot"
        fleet.ending = lambda order: (
            delivered(order, "aborted", 0, why) if order.policy_id == good.newest else FakeFleet.finish(fleet, order)
        )
        experiment = lab.lab.state.proposals.experiments[good.experiment_id]
        lab.until(lambda lab: experiment.over or good.phase == "gate")
        assert experiment.why.startswith("unloadable: "), experiment.why


def test_a_change_of_the_recipe_in_force_changes_the_regime_that_is_in_force(home: Home) -> None:
    """The campaign's recipe may have another space than the settings of the regime that was kept."""
    with running(home) as lab:
        good = opened(lab, "one", "good")
        first = lab.lab.state.proposals.experiments[good.experiment_id]
        lab.until(lambda lab: first.over)
        assert lab.lab.state.proposals.regime_in_force == "good"
        better = opened(lab, "one", "", changes={"skill": 0.94})
        assert (better.regime, better.turn_rollouts) == ("good", 5)


def test_branches_need_a_budget_of_time() -> None:
    with pytest.raises(ValueError, match="budget wall_s or robot_s above 0"):
        replace(BRANCHED, budget=replace(BRANCHED.budget, wall_s=0))
