"""A round learns from the number of episodes that the campaign file asks for, however fast robots collect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from enpire.campaign.campaign import Base, Campaign, Rounds
from enpire.campaign.learner_data import DataRow, LearnerData
from enpire.types import Order, Purpose
from tests.enpire.store.store_samples import an_order

CAMPAIGN = Campaign(
    name="c", task="t", recipe="r", base=Base(demonstrations=3), rounds=Rounds(episodes=4, window=2)
)  # fmt: skip
FIRST, SECOND = "a" * 64, "b" * 64


def row(number: int, purpose: Purpose = "collect", policy_id: str = FIRST, **more: bool) -> DataRow:
    return DataRow(
        order_id=f"{number:02} {purpose}", sha256=f"{number:04}", round=0, purpose=purpose, policy_id=policy_id,
        success=more.get("success", True), supervised=more.get("supervised", False), stopped=more.get("stopped", False),
    )  # fmt: skip


def filled(rows: list[DataRow]) -> LearnerData:
    data = LearnerData()
    for one in rows:
        data.add(one)
    return data


def names(data: LearnerData, round_: int, champion: str = FIRST, campaign: Campaign = CAMPAIGN) -> list[str]:
    return [one.order_id for one in data.of_round(round_, champion, campaign)]


@pytest.mark.parametrize("collected", [3, 40])
def test_the_base_learns_from_the_oldest_successful_demonstrations(collected: int) -> None:
    shown = [row(number, "demonstrate", "scripted:expert", success=number != 1) for number in range(collected + 1)]
    first = ["00 demonstrate", "01 demonstrate", "02 demonstrate", "03 demonstrate"]
    assert names(filled(shown), 0, "") == first, "three that succeeded, and the failed one between them"


def running(number: int, purpose: Purpose = "collect", policy_id: str = FIRST) -> Order:
    return replace(an_order(), order_id=f"{number:02} {purpose}", purpose=purpose, policy_id=policy_id)


def test_the_episodes_that_end_first_are_not_chosen_for_it() -> None:
    """Short episodes end first, and a policy that learned from the first to end would have learned from the short."""
    slow = running(1, "demonstrate", "scripted:expert")
    shown = [row(number, "demonstrate", "scripted:expert") for number in (3, 2, 4, 0, 5)]
    data = filled(shown)
    assert [one.order_id for one in data.demonstrations(CAMPAIGN, [slow])] == ["00 demonstrate"]
    data.add(row(1, "demonstrate", "scripted:expert"))
    assert names(data, 0, "") == ["00 demonstrate", "01 demonstrate", "02 demonstrate"]


def test_a_round_waits_for_the_rollouts_that_were_ordered_before() -> None:
    data = filled([row(number) for number in (5, 4, 2, 1)])
    others = [running(0, policy_id=SECOND), running(0, "gate")]
    assert len(data.new_rollouts(FIRST, others)) == 4
    assert [one.order_id for one in data.new_rollouts(FIRST, [running(3, "extra")])] == ["01 collect", "02 collect"]
    assert data.fresh(FIRST) == 4
    data.add(row(3, "extra"))
    assert names(data, 1) == ["01 collect", "02 collect", "03 extra", "04 collect"]


@pytest.mark.parametrize("extra", [0, 500])
def test_a_round_uses_so_many_rollouts_and_the_next_one_the_following(extra: int) -> None:
    data = filled([row(number) for number in range(4)] + [row(4 + number, "extra") for number in range(extra)])
    assert names(data, 1) == ["00 collect", "01 collect", "02 collect", "03 collect"]
    data.take(frozenset(names(data, 1)), 1)
    assert data.fresh(FIRST) == extra
    assert data.fresh(SECOND) == 0
    if extra:
        assert names(data, 2)[4:] == ["04 extra", "05 extra", "06 extra", "07 extra"]


def test_rollouts_of_an_earlier_champion_stay_for_the_window_but_are_never_new() -> None:
    data = filled([row(number) for number in range(6)])
    data.take(frozenset(names(data, 1)), 1)
    for number in range(6, 12):
        data.add(row(number, policy_id=SECOND))
    assert names(data, 2, SECOND) == [f"{number:02} collect" for number in (0, 1, 2, 3, 6, 7, 8, 9)]
    data.take(frozenset(names(data, 2, SECOND)), 2)
    assert names(data, 3, SECOND) == [f"{number:02} collect" for number in (6, 7, 8, 9, 10, 11)]


def test_supervised_rollouts_stay_beyond_the_window_and_imported_ones_are_of_any_champion() -> None:
    data = filled([row(0, supervised=True), row(1), row(2, policy_id="imported")])
    data.take(frozenset(names(data, 1)), 1)
    data.add(row(3, policy_id="imported"))
    data.add(row(4, policy_id=SECOND))
    assert data.fresh(SECOND) == 2
    assert names(data, 9, SECOND) == ["00 collect", "03 collect", "04 collect"]


def test_rollouts_that_were_stopped_early_count_for_no_round_and_are_given_with_those_around_them() -> None:
    data = filled([row(number, stopped=number in (0, 2, 5, 8), success=False) for number in range(10)])
    assert data.fresh(FIRST) == 6
    assert names(data, 1) == [f"{number:02} collect" for number in (0, 1, 2, 3, 4, 5, 6)], "four that count"
    data.take(frozenset(names(data, 1)), 1)
    assert names(data, 2)[7:] == ["07 collect", "08 collect", "09 collect"]
    lineage = [one.order_id for one in data.of_branch((FIRST,), CAMPAIGN)]
    assert lineage == [f"{number:02} collect" for number in range(10)], "six of at most eight that count"


def test_in_lockstep_failed_demonstrations_count_because_their_number_is_fixed() -> None:
    data = filled([row(number, "demonstrate", "scripted:expert", success=number > 0) for number in range(3)])
    lockstep = replace(
        CAMPAIGN, rounds=Rounds(episodes=4, lockstep=True, hard_starts=0), stations=replace(CAMPAIGN.stations)
    )
    assert len(names(data, 0, "", lockstep)) == 3
    data.add(row(3, "demonstrate", "scripted:expert", success=False))
    assert len(names(data, 0, "", lockstep)) == 3
    assert len(names(data, 0, "")) == 4


def test_a_branch_learns_from_the_newest_rollouts_of_its_lineage_or_of_all_versions() -> None:
    rows = [row(number, "collect", FIRST) for number in range(6)] + [
        row(number, "search", SECOND) for number in range(6, 16)
    ]
    data = filled([row(90, "demonstrate", "scripted:expert"), *rows, row(17, "search", "c" * 64)])
    shown = "90 demonstrate"
    most = CAMPAIGN.rounds.window * CAMPAIGN.rounds.episodes
    own = [one.order_id for one in data.of_branch((SECOND, FIRST), CAMPAIGN)]
    assert own == [shown, *(f"{number:02} search" for number in range(16 - most, 16))]
    pool = [one.order_id for one in data.of_branch((FIRST, SECOND, "c" * 64), CAMPAIGN)]
    assert (len(pool), pool[-1]) == (1 + most, "17 search")
    assert [one.order_id for one in data.of_branch((), CAMPAIGN)] == [shown]
    slow = running(8, "search", SECOND)
    assert [one.order_id for one in data.of_branch((SECOND,), CAMPAIGN, [slow])] == [shown, "06 search", "07 search"]
    assert not data.unused.get(SECOND), "rounds of the campaign do not learn from search rollouts"
