"""A round learns from the number of episodes that the campaign file asks for, however fast robots collect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from enpire.campaign.campaign import Base, Campaign, Rounds
from enpire.campaign.learner_data import DataRow, LearnerData
from enpire.types import Purpose

CAMPAIGN = Campaign(
    name="c", task="t", recipe="r", base=Base(demonstrations=3), rounds=Rounds(episodes=4, window=2)
)  # fmt: skip
FIRST, SECOND = "a" * 64, "b" * 64


def row(number: int, purpose: Purpose = "collect", policy_id: str = FIRST, **more: bool) -> DataRow:
    return DataRow(
        order_id=f"{purpose}{number}", sha256=f"{number:04}", round=0, purpose=purpose, policy_id=policy_id,
        success=more.get("success", True), supervised=more.get("supervised", False),
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
    shown = [row(99, "demonstrate", "scripted:expert", success=False)]
    shown += [row(number, "demonstrate", "scripted:expert") for number in range(collected)]
    assert names(filled(shown), 0, "") == ["demonstrate0", "demonstrate1", "demonstrate2"]


@pytest.mark.parametrize("extra", [0, 500])
def test_a_round_uses_so_many_rollouts_and_the_next_one_the_following(extra: int) -> None:
    data = filled([row(number) for number in range(4)] + [row(4 + number, "extra") for number in range(extra)])
    assert names(data, 1) == ["collect0", "collect1", "collect2", "collect3"]
    data.take(frozenset(names(data, 1)), 1)
    assert data.fresh(FIRST) == extra
    assert data.fresh(SECOND) == 0
    if extra:
        assert names(data, 2)[4:] == ["extra4", "extra5", "extra6", "extra7"]


def test_rollouts_of_an_earlier_champion_stay_for_the_window_but_are_never_new() -> None:
    data = filled([row(number) for number in range(6)])
    data.take(frozenset(names(data, 1)), 1)
    for number in range(6, 12):
        data.add(row(number, policy_id=SECOND))
    assert names(data, 2, SECOND) == [f"collect{number}" for number in (0, 1, 2, 3, 6, 7, 8, 9)]
    data.take(frozenset(names(data, 2, SECOND)), 2)
    assert names(data, 3, SECOND) == [f"collect{number}" for number in (6, 7, 8, 9, 10, 11)]


def test_supervised_rollouts_stay_beyond_the_window_and_imported_ones_are_of_any_champion() -> None:
    data = filled([row(0, supervised=True), row(1), row(2, policy_id="imported")])
    data.take(frozenset(names(data, 1)), 1)
    data.add(row(3, policy_id="imported"))
    data.add(row(4, policy_id=SECOND))
    assert data.fresh(SECOND) == 2
    assert names(data, 9, SECOND) == ["collect0", "collect3", "collect4"]


def test_in_lockstep_failed_demonstrations_count_because_their_number_is_fixed() -> None:
    data = filled([row(number, "demonstrate", "scripted:expert", success=number > 0) for number in range(3)])
    lockstep = replace(
        CAMPAIGN, rounds=Rounds(episodes=4, lockstep=True, hard_starts=0), stations=replace(CAMPAIGN.stations)
    )
    assert len(names(data, 0, "", lockstep)) == 3
    assert len(names(data, 0, "")) == 2
