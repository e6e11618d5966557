"""With `reset: robot` a simulated station brings the scene into the start by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from enpire.fleet.robot_keeper import RobotKeeper
from enpire.fleet.station_file import StationFile
from enpire.types import Order
from sim.tasks.pin_insertion import PinInsertion


def first_state(tmp_path: Path, reset: str) -> np.ndarray:
    """What the station senses right after an order began."""
    task = PinInsertion()
    file = StationFile(name="s", task="pin_insertion", home=tmp_path, lanes=2, reset=reset, seed=1)  # pyright: ignore[reportArgumentType]
    keeper = RobotKeeper(file, task, print)
    start = task.start("train", 5, b"")
    order = Order(
        order_id="o", campaign_id="c", station="s", task="pin_insertion", policy_id="p", start=start,
        purpose="collect", round=0,
    )  # fmt: skip
    rig = keeper._rig
    before = rig.observe().state[0].copy()
    rig.place(0, order.start)
    after = rig.observe().state[0].copy()
    rig.close()
    return np.stack([before, after])


def test_a_teleport_moves_the_scene_at_once_and_a_reset_by_the_robot_does_not(tmp_path: Path) -> None:
    task = PinInsertion()
    start = task.start("train", 5, b"")
    teleported = first_state(tmp_path / "a", "teleport")
    by_robot = first_state(tmp_path / "b", "robot")
    assert task.start_error(teleported[1], start)[1]
    assert not task.start_error(by_robot[1], start)[1]
