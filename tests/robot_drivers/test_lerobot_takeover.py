"""An operator at a page moves a LeRobot robot over its guard, and gives it back without a jump."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lerobot")

from enpire.ids import mint
from enpire.policy_calls import LoadedPolicy
from enpire.station.command_blending import PERIODS
from enpire.station.robot_session import RobotSession
from enpire.station.station_file import StationFile
from enpire.store import arrays
from enpire.types import SOURCE_HUMAN, SOURCE_POLICY, FloatArray, IntArray, Observation, Order, Start
from enpire.wire.hand_control import HandClient, hand_address
from robot_drivers.guarded_rig import GuardedRig
from tests.robot_drivers.test_lerobot_cameras import BusTask
from tests.robot_drivers.test_lerobot_robot import SPEC

BEFORE, HELD, AFTER = 5, 40, 40
"""Periods of the policy, of the operator, and of the policy again."""
FAR_DEG = -60.0
START = Start(split="train", index=1, values=(), seed=1)


class LongTask(BusTask):
    """Long enough for a take-over."""

    spec = replace(SPEC, limit_ticks=BEFORE + HELD + AFTER)


class FarPolicy:
    """Always asks for the same far position: a jump, if nothing smooths it."""

    horizon = execute = 1

    def begin(self, lane: int, seed: int) -> None:
        pass

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return np.full((len(lanes), 1, 2), FAR_DEG, np.float32)


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[RobotSession]:
    settings = {"type": "fake_bus_robot", "id": "one", "calibration_dir": str(tmp_path)}
    file = StationFile(
        name="bus", task=f"{__name__}:LongTask", driver="lerobot", options={"robot": settings}, home=tmp_path / "bus",
        operator="browser", operator_options={"address": hand_address(tmp_path, "bus"), "gives_back_s": 60.0},
    )  # fmt: skip
    session = RobotSession(file, LongTask(), print)  # pyright: ignore[reportArgumentType]
    yield session
    session.close()


def test_keys_move_a_lerobot_robot_over_its_guard_and_it_is_given_back_without_a_jump(
    robot: RobotSession, tmp_path: Path
) -> None:
    assert isinstance(robot._rig, GuardedRig)
    lanes, client = robot.lanes, HandClient(tmp_path, "bus")
    order = Order(
        order_id=mint(), campaign_id="C1", station="bus", task="bus", policy_id="a" * 64, start=START,
        purpose="collect", round=1, supervised=True,
    )  # fmt: skip
    lanes.begin(0, order, LoadedPolicy(policy_id="a" * 64, policy=FarPolicy(), source=SOURCE_POLICY))
    moved_by = list[str]()
    for period in range(BEFORE + HELD + AFTER + 3):
        if BEFORE <= period < BEFORE + HELD:
            client.send((1.0, 0.0))
        elif period == BEFORE + HELD:
            client.send((), gives_back=True)
        for step in (lanes.sense, lanes.reset, lanes.verify, lanes.decide, lanes.act):
            step()
        moved_by.append(lanes.moved_by())
    client.close()
    [parcel] = lanes.take_ended()
    recorded = arrays.unpack(parcel.arrays_file)
    human = recorded.source == SOURCE_HUMAN
    assert human.sum() == HELD
    first, last = np.flatnonzero(human)[[0, -1]]
    assert (np.diff(recorded.action[first : last + 1, 0]) >= 0).all()
    assert recorded.action[last, 0] > recorded.action[first, 0] + 30.0, "the key moved the first joint far"
    assert np.abs(recorded.action).max() <= 90.0, "the guard keeps it inside its limits"
    step = abs(float(recorded.action[last + 1, 0] - recorded.action[last, 0]))
    assert step <= (recorded.action[last, 0] - FAR_DEG) / PERIODS + 1e-3, "the policy takes over without a jump"
    assert recorded.action[-1, 0] < recorded.action[last, 0], "and moves it again"
    assert {"operator", "a" * 64} <= set(moved_by)
