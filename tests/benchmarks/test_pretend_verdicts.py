"""The verdict of `benchmarks.pretend_branches` about eight stations against one."""

from __future__ import annotations

import pytest

from benchmarks.pretend_branches import MOST_ROBOT_H, Run, exit_code, more_stations


def runs(*hours: float) -> list[Run]:
    return [
        Run(reached=used < MOST_ROBOT_H, robot_h=used, utilised=1.0, experiments=1, equal=True, champions=())
        for used in hours
    ]


@pytest.mark.parametrize(
    ("one", "eight", "holds"),
    [
        ((10.0, 8.0), (11.0, 9.0), True),
        ((10.0, 8.0), (13.0, 10.0), False),
        ((10.0, 8.0), (2.0, MOST_ROBOT_H), False),
        ((10.0, MOST_ROBOT_H), (10.0, MOST_ROBOT_H), True),
    ],
)
def test_eight_stations_reach_the_goal_as_often_and_need_little_more(
    one: tuple[float, ...], eight: tuple[float, ...], holds: bool
) -> None:
    assert [found for _, found in more_stations({"1 station": runs(*one), "8 stations": runs(*eight)})] == [holds]


def test_nothing_is_claimed_where_only_one_of_them_ran() -> None:
    assert more_stations({"1 station": runs(10.0)}) == []


def test_a_broken_promise_about_stations_ends_with_code_1() -> None:
    slow = {"1 station": runs(1.0, 1.1, 1.2), "8 stations": runs(10.0, 11.0, 12.0)}
    assert exit_code([("every decision the same again", True), *more_stations(slow)]) == 1
    assert exit_code([("every decision the same again", True)]) == 0
