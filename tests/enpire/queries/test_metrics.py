"""Utilisation, robot-hours and tokens per minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.errors import UsageError
from enpire.queries.metrics import robot_time
from enpire.types import PHASES, Phase


def test_utilisation_is_the_mean_over_stations() -> None:
    busy: dict[Phase, float] = {"rollout": 60.0, "reset": 20.0, "verify": 10.0, "wait-order": 10.0}
    idle: dict[Phase, float] = {"wait-order": 70.0, "rollout": 30.0}
    spent = robot_time({"a": busy, "b": idle}, wall_s=100.0)
    assert spent.mru == pytest.approx((0.9 + 0.3) / 2)
    assert spent.seconds["wait-order"] == pytest.approx(80.0)
    assert spent.robot_h == pytest.approx(200 / 3600)


def test_a_station_that_was_not_there_is_offline_and_idle() -> None:
    late: dict[Phase, float] = {"rollout": 50.0}
    spent = robot_time({"late": late}, wall_s=100.0)
    assert spent.mru == pytest.approx(0.5)
    assert spent.seconds["offline"] == pytest.approx(50.0)
    assert spent.robot_h == pytest.approx(50 / 3600)


@given(st.lists(st.lists(st.floats(0, 10), min_size=len(PHASES), max_size=len(PHASES)), min_size=1, max_size=5))
def test_the_stack_accounts_for_every_second_of_every_station(rows: list[list[float]]) -> None:
    stations = {str(i): dict(zip(PHASES, row, strict=True)) for i, row in enumerate(rows)}
    spent = robot_time(stations, wall_s=100.0)
    assert sum(spent.seconds.values()) == pytest.approx(100.0 * len(stations))
    assert 0 <= spent.mru <= 1


def test_a_station_cannot_work_longer_than_the_campaign() -> None:
    with pytest.raises(UsageError, match="Station a reports 200.0 s in a campaign of 100.0 s"):
        robot_time({"a": {"rollout": 200.0}}, wall_s=100.0)
    with pytest.raises(UsageError, match="no utilisation"):
        robot_time({}, wall_s=0.0)


def test_no_station_is_no_utilisation() -> None:
    assert robot_time({}, wall_s=10.0).mru == 0.0
