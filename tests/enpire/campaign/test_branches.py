"""Gains, twins and shares of branches, without a lab."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from enpire.campaign import branch_time
from enpire.campaign.branch import Branch
from enpire.campaign.branch_events import RoundsHandedOver
from enpire.campaign.branches import Branches
from enpire.campaign.gains import COMPARED, LEAST_PAIRS, Gain, Searched, gain, score
from enpire.campaign.gate_events import GateDecided
from enpire.campaign.hand_over import HandOver
from enpire.campaign.quarantine_events import ExperimentQuarantined
from enpire.campaign.recipe import Recipe
from enpire.campaign.training_events import LearnerEnded, LearnerStarted
from enpire.types import Order, Start

LIMIT = 100


def searched(*results: tuple[bool, int]) -> Searched:
    return Searched(issued=len(results), results=dict(enumerate(results)))


def a_branch(number: int, results: Searched, branches: Branches) -> Branch:
    branch = Branch(
        experiment_id=f"E{number}", lane="one", number=number, regime="r", recipe=Recipe(name="r", learner="clone"),
        turn_rollouts=10, parent_experiment="", phase="search", turn=1, versions=[f"V{number}"],
    )  # fmt: skip
    branches.by_experiment[branch.experiment_id] = branch
    branches.searched[branch.newest] = results
    return branch


def test_a_success_at_the_limit_has_half_the_score_of_one_at_once() -> None:
    assert [score(True, ticks, LIMIT) for ticks in (0, 50, 100, 200)] == [1.0, 0.75, 0.5, 0.5]
    assert score(False, 1, LIMIT) == 0.0


def test_the_gain_compares_start_by_start_and_its_interval_covers() -> None:
    draw, covered = random.Random(5), 0
    for _ in range(400):
        hard = [draw.random() for _ in range(80)]
        one = searched(*((draw.random() > 0.6 * each, 40) for each in hard))
        two = searched(*((draw.random() > 0.9 * each, 40) for each in hard))
        found = gain(one, two, LIMIT)
        covered += found.low <= 0.15 * 0.8 <= found.high
    assert 0.75 <= covered / 400 <= 0.88, "an 80 % interval; the true gain is 0.3 x 0.5 x 0.8"


def test_nothing_is_known_without_common_starts() -> None:
    one = searched(*[(True, 10)] * 50)
    assert gain(one, searched(*[(True, 10)] * (LEAST_PAIRS - 1)), LIMIT).low == -1.0
    assert gain(one, Searched(results={100 + each: (True, 10) for each in range(50)}), LIMIT).n == 0


def test_a_few_equal_wins_are_not_taken_for_certainty() -> None:
    found = gain(searched(*[(True, 20)] * LEAST_PAIRS), searched(*[(True, 22)] * LEAST_PAIRS), LIMIT)
    assert found.mean == pytest.approx(0.01)
    assert found.low < 0


def test_versions_that_always_fail_are_no_twins() -> None:
    branches = Branches(champion="C")
    first = a_branch(1, searched(*[(False, LIMIT)] * 50), branches)
    second = a_branch(2, searched(*[(False, LIMIT)] * 50), branches)
    assert branches.twin(second) is None
    same = [(True, 30 + each % 7) for each in range(COMPARED)]
    branches.searched |= {first.newest: searched(*same), second.newest: searched(*same)}
    assert branches.twin(second) is first
    assert branches.twin(first) is None, "the earlier one stays"
    branches.searched[second.newest].results[3] = (True, 99)
    assert branches.twin(second) is None


def test_the_branch_that_made_a_version_first_is_the_twin_of_the_other_also_without_a_rollout() -> None:
    branches = Branches(champion="C")
    older, newer = a_branch(1, Searched(), branches), a_branch(2, Searched(), branches)
    for branch in (newer, older):
        branch.versions, branch.job = [], f"J{branch.number}"
        branches.apply(LearnerEnded(job=branch.job, policy_id="S", round=1, metrics={}, seconds=1.0))
    assert branches.maker(older) is newer, "a learner of the older branch took longer"
    assert branches.twin(older) is newer
    assert (branches.maker(newer), branches.twin(newer)) == (None, None)
    assert branches.maker(older, lambda lane: False) is None
    newer.job = "J3"
    branches.apply(LearnerEnded(job="J3", policy_id="T", round=2, metrics={}, seconds=1.0))
    assert branches.maker(older) is newer, "it has another version now"


def test_the_worse_half_ends_at_a_rung_unless_it_may_still_be_better() -> None:
    branches = Branches(champion="C", searched={"C": searched(*[(True, 50)] * 60)})
    bad = a_branch(1, searched(*[(False, LIMIT)] * 60), branches)
    good = a_branch(2, searched(*[(True, 20)] * 60), branches)
    close = a_branch(3, searched(*[(True, 50)] * 60), branches)
    assert not branches.in_worse_half(bad, 100.0, LIMIT), "no rung is passed"
    for branch in (bad, good, close):
        branch.robot_s = 26.0
    assert branches.in_worse_half(bad, 100.0, LIMIT)
    assert not branches.in_worse_half(bad, 100.0, LIMIT, lambda lane: False), "it knows no peers"
    assert not branches.in_worse_half(good, 100.0, LIMIT)
    assert not branches.in_worse_half(close, 100.0, LIMIT)
    good.quarantined = True
    assert not branches.in_worse_half(bad, 100.0, LIMIT), "doubted successes end no other branch"


def test_peers_that_are_over_are_compared_over_the_present_champion() -> None:
    """Their gains over the champion of their time would make a branch that is better than them the worse half."""
    branches = Branches(champion="C", searched={"C": searched(*[(True, 60)] * 60)})
    better = a_branch(1, searched(*[(True, 65)] * 60), branches)
    ended = [a_branch(number, searched(*[(True, 80)] * 60), branches) for number in (2, 3, 4)]
    for branch in (better, *ended):
        branch.robot_s = 26.0
    for branch in ended:
        branch.phase, branch.last_gain = "over", Gain(n=60, mean=0.3, low=0.2, high=0.4)  # over a champion before
    assert branches.gain(better.newest, LIMIT).high < 0
    assert not branches.in_worse_half(better, 100.0, LIMIT)
    for branch in ended[:2]:
        branch.versions = ["C"]
    assert branches.gain_now(ended[0], LIMIT) == Gain(n=60, mean=0.0, low=0.0, high=0.0)
    assert branches.in_worse_half(better, 100.0, LIMIT), "two of three peers made the champion"


def test_shares_sum_to_one_and_leave_out_used_up_branches() -> None:
    branches = Branches(champion="C", searched={"C": searched(*[(True, 80)] * 60)})
    a_branch(1, searched(*[(False, LIMIT)] * 60), branches)
    a_branch(2, searched(*[(True, 20)] * 60), branches)
    a_branch(3, searched(*[(True, 10)] * 60), branches).robot_s = 1000.0
    assert branch_time.shares(branches, LIMIT, 1000.0) == {"E1": pytest.approx(0.25), "E2": pytest.approx(0.75)}


def ordered(branches: Branches, branch: Branch, count: int) -> None:
    """Orders of a branch's newest version without an outcome."""
    for number in range(count):
        order = Order(
            order_id=f"{branch.newest}-{number}", campaign_id="C", station="s", task="t", policy_id=branch.newest,
            start=Start(index=number, seed=number, values=(), split="train"), purpose="search", round=1,
            branch=branch.experiment_id,
        )  # fmt: skip
        branches.open[order.order_id] = order


def test_branches_that_wait_for_rollouts_come_before_those_that_train_or_have_enough() -> None:
    branches = Branches(champion="C", searched={"C": searched(*[(True, 80)] * 20)})
    trains = a_branch(1, searched(*[(True, 20)] * 20), branches)
    trains.phase = "training"
    enough = a_branch(2, searched(*[(True, 20)] * 10), branches)
    short = a_branch(3, searched(*[(True, 20)] * 6), branches)
    assert branch_time.shares(branches, LIMIT, 1000.0) == {"E3": 1.0}
    ordered(branches, short, 3)
    assert branch_time.shares(branches, LIMIT, 1000.0) == {"E3": 1.0}, "9 of the 10 rollouts of its turn"
    ordered(branches, short, 4)
    assert set(branch_time.shares(branches, LIMIT, 1000.0)) == {"E1", "E2", "E3"}, "none waits for rollouts"
    enough.robot_s = 995.0
    branches.searched[enough.newest].robot_s = 10.0
    assert branch_time.shares(branches, LIMIT, 1000.0, least_starts=10) == {"E2": 1.0}, "it decides its last version"


def test_orders_without_an_outcome_count_toward_the_robot_time_of_a_branch() -> None:
    branches = Branches(champion="C")
    branch = a_branch(1, Searched(issued=10, results=dict.fromkeys(range(10), (True, 20)), robot_s=20.0), branches)
    branch.robot_s = 70.0
    assert branch_time.has_another_turn(branches, branch, 100.0, least_starts=10)
    ordered(branches, branch, 6)
    assert not branch_time.has_another_turn(branches, branch, 100.0, least_starts=10), "70 + 6 x 2 + 10 x 2 s"
    ordered(branches, branch, 15)
    assert branch_time.shares(branches, LIMIT, 100.0) == {}, "what is ordered uses up the rest"


def test_the_champion_is_ready_to_be_compared_when_a_branch_has_its_first_version() -> None:
    branches = Branches(champion="C", searched={"C": Searched(issued=31)})
    assert not branches.champion_is_behind(32), "there is no branch"
    branch = a_branch(1, Searched(), branches)
    branch.phase, branch.versions = "queued", []
    assert branches.champion_is_behind(32)
    assert not branches.champion_is_behind()
    branches.searched["C"].issued = 32
    assert not branches.champion_is_behind(32)


def decided(decision: str, reason: str, candidate: str = "round") -> GateDecided:
    return GateDecided(
        gate_id="G", champion="C", candidate=candidate, round=1, decision=decision,  # pyright: ignore[reportArgumentType]
        reason=reason, pairs=100, wins=8, losses=0, both=90, neither=2, faster=0, slower=0, champion_unsafe=0,
        candidate_unsafe=0, level=0.05, log_need=3.0, log_e=4.0, log_e_worse=0.0, log_e_faster=0.0, low=0.0, high=0.1,
        more=0,
    )  # fmt: skip


def test_rounds_without_more_success_are_counted_until_one_is_better() -> None:
    branches = Branches(champion="C")
    a_branch(1, searched(), branches)
    counts: list[int] = []
    for event in (
        decided("promote", "faster"), decided("hold", "exhausted"), decided("hold", "exhausted", "V1"),
        decided("reject", "worse"), decided("promote", "better"), decided("promote", "faster", "V1"),
        decided("reject", "worse"), decided("promote", "better", "V1"),
    ):  # fmt: skip
        branches.apply(event)
        counts.append(branches.hand_over.without_gain)
    assert counts == [1, 2, 2, 3, 0, 0, 1, 0], "gates of a branch count only where its version is better"


def test_a_candidate_that_a_tripwire_holds_counts_once() -> None:
    """Nobody may be there to clear it, and the robots would never act for branches."""
    branches = Branches(champion="C")
    a_branch(1, searched(), branches)
    for version in ("round", "round", "V1"):
        branches.apply(ExperimentQuarantined(experiment_id="", policy_id=version, tripwire="critic", why="far"))
    assert branches.hand_over.without_gain == 1, "once for the round's candidate, and not for the branch's"
    branches.apply(decided("hold", "exhausted"))
    assert branches.hand_over.without_gain == 1, "its gate after it was cleared is of the same round"


def test_a_branch_does_not_start_again_from_a_champion_of_another_program() -> None:
    branches = Branches(champion="C", searched={"C": searched(*[(True, 20)] * 60)})
    branch = a_branch(1, searched(*[(False, LIMIT)] * 60), branches)
    recipe = Recipe(name="touch", learner="program_search", settings={"program": "pin_touch"})
    branch.recipe = replace(recipe, settings={"program": "pin_spiral"})
    for made_by, behind in ((recipe, False), (branch.recipe, True)):
        branches.apply(
            LearnerStarted(
                job="J", learner=made_by.learner, parent="", round=1, episodes=(), recipe=made_by, recipe_hash="",
                data_hash="",
            )
        )  # fmt: skip
        branches.apply(LearnerEnded(job="J", policy_id="C", round=1, metrics={}, seconds=1.0))
        assert branches.is_behind(branch, LIMIT) is behind


def test_no_branch_is_active_until_the_rounds_hand_over() -> None:
    branches = Branches(champion="C", hand_over=HandOver(waits=True))
    branch = a_branch(1, searched((True, 10)), branches)
    assert (branch.active, branches.active, branch_time.shares(branches, LIMIT, 100.0)) == (True, [], {})
    assert not branches.champion_is_behind()
    branches.apply(RoundsHandedOver(policy_id="C", round=2, without_gain=1, reason="stalled"))
    assert branches.active == [branch]
