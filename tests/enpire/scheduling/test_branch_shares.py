"""The declared shares of robot time hold, also where the rollouts of branches differ in length."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from enpire.campaign import branch_time
from enpire.campaign.branch import Branch
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.campaign import Base, Campaign, Rounds
from enpire.campaign.gains import Searched
from enpire.campaign.recipe import Recipe
from enpire.campaign.state import CampaignState
from enpire.scheduling.branch_shares import COLLECT
from enpire.scheduling.scheduler import WHILE_LOADING, FreeStation, Scheduler
from tests.enpire.scheduling.test_scheduler import CHAMPION, a_state, starts

PLAN = BranchPlan(recipes=("r",), share=0.7, robot_s=1000.0, stalled_rounds=2)
CAMPAIGN = Campaign(
    name="n", task="point", recipe="r", rounds=Rounds(episodes=10**6, train_starts=500), base=Base(evaluate_starts=5),
    branches=PLAN,
)  # fmt: skip
LIMIT, STARTS = 100, 60
SECONDS = {CHAMPION: 2.0, "V1": 1.0, "V2": 2.5, "V3": 4.0}
"""Mean time of a rollout, by version."""


def with_branches(*, better: str = "") -> CampaignState:
    """Three active branches that acted as often as the champion; one of them may be better."""
    state = a_state()
    state.branches.champion = CHAMPION
    for number in (1, 2, 3):
        state.branches.by_experiment[f"E{number}"] = Branch(
            experiment_id=f"E{number}", lane="one", number=number, regime="r", turn_rollouts=10, parent_experiment="",
            recipe=Recipe(name="r", learner="clone"), phase="search", turn=1, versions=[f"V{number}"],
        )  # fmt: skip
    for version, seconds in SECONDS.items():
        results = {each: (version == better or each % 2 == 0, 50) for each in range(STARTS)}
        state.branches.ran.add(("s", version))
        state.branches.searched[version] = Searched(issued=STARTS, results=results, robot_s=STARTS * seconds)
    return state


def measured(state: CampaignState, seed: int) -> dict[str, float]:
    """Share of the robot time of 2,000 drawn orders, by experiment."""
    scheduler = Scheduler(CAMPAIGN, starts, random.Random(seed), limit_ticks=LIMIT)
    used = dict.fromkeys([COLLECT, *state.branches.by_experiment], 0.0)
    for _ in range(20):
        for order in scheduler.next_orders(state, FreeStation("s", 1, 100)):
            used[order.branch or COLLECT] += SECONDS[order.policy_id]
    return {key: seconds / sum(used.values()) for key, seconds in used.items()}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("better", ["", "V3"])
def test_shares_are_of_robot_time(seed: int, better: str) -> None:
    state = with_branches(better=better)
    declared = {key: 0.7 * share for key, share in branch_time.shares(state.branches, LIMIT, PLAN.robot_s).items()}
    if better:
        assert declared["E3"] == pytest.approx(0.7 * (0.5 / 3 + 0.5)), "it alone has a gain"
    assert measured(state, seed) == pytest.approx({COLLECT: 0.3, **declared}, abs=0.03)


def test_shares_follow_the_gains_from_turn_to_turn() -> None:
    scheduler, acts = Scheduler(CAMPAIGN, starts, random.Random(1), limit_ticks=LIMIT), dict[str, Counter[str]]()
    for better in ("V1", "V3"):
        orders = scheduler.next_orders(with_branches(better=better), FreeStation("s", 1, 1000))
        acts[better] = Counter(order.policy_id for order in orders)
    assert acts["V1"]["V1"] > 2 * acts["V3"]["V1"]
    assert acts["V3"]["V3"] > 2 * acts["V1"]["V3"]


def test_a_branch_whose_budget_is_used_up_gets_no_robot_time() -> None:
    state = with_branches()
    state.branches.by_experiment["E2"].robot_s = PLAN.robot_s
    used = measured(state, 1)
    assert used["E2"] == 0.0
    assert used[COLLECT] == pytest.approx(0.3, abs=0.03)


def test_the_base_is_measured_before_the_next_round_has_its_data_where_branches_wait_for_it() -> None:
    state = with_branches()
    state.base_measured = False
    scheduler = Scheduler(CAMPAIGN, starts, random.Random(1), limit_ticks=LIMIT)
    purposes = [order.purpose for order in scheduler.next_orders(state, FreeStation("s", 1, 40))]
    assert purposes[:5] == ["base"] * 5
    assert "search" in purposes[5:]
    state.branches.by_experiment.clear()
    assert {order.purpose for order in scheduler.next_orders(state, FreeStation("s", 1, 40))} == {"collect"}


def test_before_rounds_hand_over_no_robot_acts_for_a_branch_and_afterwards_they_get_nearly_all_robot_time() -> None:
    plan = replace(CAMPAIGN, branches=replace(PLAN, hand_over_after=1))
    state = with_branches()
    state.branches.hand_over.waits = True
    scheduler = Scheduler(plan, starts, random.Random(1), limit_ticks=LIMIT)
    assert {order.purpose for order in scheduler.next_orders(state, FreeStation("s", 1, 200))} == {"collect"}
    state.branches.hand_over.waits = False
    orders = scheduler.next_orders(state, FreeStation("s", 1, 2000))
    used = {key: sum(SECONDS[one.policy_id] for one in orders if one.purpose == key) for key in ("collect", "search")}
    assert used["collect"] / sum(used.values()) == pytest.approx(0.1, abs=0.03)


def test_a_stalled_campaign_hands_its_robot_time_to_branches_until_a_promotion() -> None:
    state = with_branches()
    for rounds, share in ((1, 0.3), (2, 0.1), (5, 0.1), (0, 0.3)):
        state.rounds_since_promotion = rounds
        assert measured(state, 1)[COLLECT] == pytest.approx(share, abs=0.03), rounds


def test_a_station_that_may_still_load_a_version_acts_for_another_branch() -> None:
    state = with_branches()
    state.branches.ran = {("s", CHAMPION), ("s", "V1")}
    orders = Scheduler(CAMPAIGN, starts, random.Random(1), limit_ticks=LIMIT).next_orders(
        state, FreeStation("s", 1, 100)
    )
    acts = Counter(order.branch or COLLECT for order in orders)
    assert (acts["E2"], acts["E3"]) == (WHILE_LOADING, WHILE_LOADING)
    assert acts[COLLECT] < 45, "about 30 of 100, as declared"


def test_without_a_share_for_rounds_a_station_that_can_run_no_branch_collects() -> None:
    state = with_branches()
    campaign = replace(CAMPAIGN, branches=replace(PLAN, share=1.0))
    station = FreeStation("s", 1, 10, refuses=frozenset({"V1", "V2", "V3"}))
    orders = Scheduler(campaign, starts, random.Random(1), limit_ticks=LIMIT).next_orders(state, station)
    assert [order.policy_id for order in orders] == [CHAMPION] * 10


def test_the_champion_acts_on_search_starts_before_a_branch_has_a_version() -> None:
    state = with_branches()
    for branch in state.branches.by_experiment.values():
        branch.phase, branch.versions = "queued", []
    state.branches.searched.clear()
    orders = Scheduler(CAMPAIGN, starts, random.Random(1), limit_ticks=LIMIT).next_orders(
        state, FreeStation("s", 1, 100)
    )
    searches = [order for order in orders if order.purpose == "search"]
    assert [order.policy_id for order in searches] == [CHAMPION] * PLAN.least_starts
