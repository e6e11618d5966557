"""With `reset: robot` a simulated station brings the scene into the start by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from enpire import plugins
from enpire.errors import UsageError
from enpire.interfaces import Rig, Task
from enpire.policy_calls import LoadedPolicy
from enpire.station.lanes import TRIES, Lanes
from enpire.station.robot_session import RobotSession
from enpire.station.station_file import StationFile
from enpire.types import SOURCE_EXPERT, Order
from enpire.wire.messages import Parcel
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.push_t import PushT


def opened(task: Task, home: Path, reset: str = "robot") -> RobotSession:
    """A simulated station with two lanes, after its start."""
    file = StationFile(name="s", task=task.spec.name, home=home, lanes=2, reset=reset, seed=1, reset_limit_s=20.0)  # pyright: ignore[reportArgumentType]
    return RobotSession(file, task, print)


def order(task: Task, order_id: str, index: int) -> Order:
    """A data collection order from a train start."""
    return Order(
        order_id=order_id, campaign_id="c", station="s", task=task.spec.name, policy_id="p",
        start=task.start("train", index, b""), purpose="collect", round=0,
    )  # fmt: skip


def ended(lanes: Lanes, given: Order, task: Task) -> Sequence[Parcel]:
    """Run one order in the first lane with the expert."""
    lanes.begin(0, given, LoadedPolicy(policy_id="p", policy=task.expert(0), source=SOURCE_EXPERT))
    while lanes.busy:
        for step in (lanes.sense, lanes.reset, lanes.verify, lanes.decide, lanes.act):
            step()
    return lanes.take_ended()


def first_state(tmp_path: Path, reset: str) -> np.ndarray:
    """The state that the station senses right after an order began."""
    task = PinInsertion()
    keeper, start = opened(task, tmp_path, reset), task.start("train", 5, b"")
    rig = keeper._rig
    before = rig.observe().state[0].copy()
    rig.place(0, start)
    after = rig.observe().state[0].copy()
    rig.close()
    return np.stack([before, after])


@pytest.mark.parametrize("reset", ["robot", "teleport"])
def test_a_guarded_simulation_gets_the_reset_setting(tmp_path: Path, reset: str) -> None:
    task = PinInsertion()
    told = {"driver": "mujoco", "folder": str(tmp_path / "guard"), "pace": "fast", "person_to_resume": False}
    file = StationFile(
        name="s", task=task.spec.name, home=tmp_path, reset=reset, seed=1,  # pyright: ignore[reportArgumentType]
        driver="robot_drivers.guard_client:open_rig", options={"guard": {**told, "watchdog_s": 60.0}},
    )  # fmt: skip
    keeper = RobotSession(file, task, print)
    rig = keeper._rig
    start = task.start("train", 5, b"")
    rig.place(0, start)
    there = task.start_error(rig.observe().state[0], start)[1]
    rig.close()
    assert there == (reset == "teleport")


def bare(task: Task, lanes: int, seed: int, options: object) -> Rig:
    """A driver without an envelope, and so without `set_teleport`."""
    return task.rig(lanes, seed)


def test_a_simulation_without_set_teleport_is_refused(tmp_path: Path) -> None:
    driver = "tests.enpire.station.test_robot_reset:bare"
    file = StationFile(name="s", task="pin_insertion", home=tmp_path, driver=driver)
    with pytest.raises(UsageError, match="without a choice of who resets its scene"):
        RobotSession(file, PinInsertion(), print)


def test_a_teleport_moves_the_scene_at_once_and_a_reset_by_the_robot_does_not(tmp_path: Path) -> None:
    task = PinInsertion()
    start = task.start("train", 5, b"")
    teleported = first_state(tmp_path / "a", "teleport")
    by_robot = first_state(tmp_path / "b", "robot")
    assert task.start_error(teleported[1], start)[1]
    assert not task.start_error(by_robot[1], start)[1]


@pytest.mark.parametrize("name", ["push_t", pytest.param("gpu_insertion", marks=pytest.mark.slow)])
def test_a_station_that_was_just_opened_resets_by_itself(tmp_path: Path, name: str) -> None:
    task = cast("Task", plugins.make("tasks", name))
    lanes = opened(task, tmp_path).lanes
    assert [parcel.episode.reset_attempts for parcel in ended(lanes, order(task, "o", 5), task)] == [1]
    assert lanes.alarm == ""


def test_unstick_lays_out_the_scene_as_an_operator_does(tmp_path: Path) -> None:
    task = PushT()
    keeper = opened(task, tmp_path)
    keeper._rig._world.scene.qpos[0, :2] = 0.9  # pyright: ignore[reportAttributeAccessIssue]  where no pusher comes
    [given_up] = ended(keeper.lanes, order(task, "first", 5), task)
    assert (given_up.episode.cause, given_up.episode.reset_attempts) == ("reset failed", TRIES)
    assert "lane 0" in keeper.alarm
    keeper.resume()
    assert keeper.alarm == ""
    [after] = ended(keeper.lanes, order(task, "second", 6), task)
    assert (after.episode.outcome, after.episode.reset_attempts) == ("success", 1)
