"""The home of each shipped task: an idle robot gets there from the middle of its work, over the guard."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from enpire import plugins
from enpire.interfaces import Policy, Task
from enpire.station.motion import RobotMotion, motions_of
from enpire.types import FloatArray
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope
from sim.bimanual.kinematics import PARKED, READY, SIDES, Side
from sim.bimanual.rig import joints_of
from sim.rig import SimRig
from sim.tasks.bag_rig import HOME, TILT, TIPPED_RAD
from sim.tasks.fragile_rig import LENGTH
from sim.tasks.gpu_rig import CARD
from sim.tasks.pin_insertion import HOME_MM
from sim.tasks.pin_rig import TIP
from sim.tasks.push_t_home import HOME_MM as PUSHER_HOME_MM
from sim.tasks.push_t_rig import BLOCK, PUSHER
from sim.tasks.ziptie_rig import WATCHING

LANES = 2
MIDDLE = {
    "pin_insertion": 60, "pin_insertion_blind": 120, "fragile_insertion": 60, "push_t": 60, "gpu_insertion": 70,
    "ziptie_cutting": 120, "bag_packing": 250,
}  # fmt: skip
"""Task -> periods of its expert before the robot is sent home: it is at the hole, the slot, the tail, in the bag."""


def sent_home(name: str, ticks: int) -> tuple[FloatArray, FloatArray, SimRig]:
    """States (lanes, state_dim) before and after the motion home, and the rig."""
    task = cast("type[Task]", plugins.load("tasks", name))()
    rig = cast("SimRig", task.rig(LANES, 5))
    for lane in range(LANES):
        rig.place(lane, task.start("train", lane, b""))
    expert, lanes = cast("Policy", task.expert(0)), np.arange(LANES)
    for lane in range(LANES):
        expert.begin(lane, lane)
    for _ in range(0, ticks, expert.execute):
        chunk = expert.act(rig.observe(), lanes)
        for period in range(expert.execute):
            rig.act(chunk[:, period], np.ones(LANES, np.bool_))
    before = rig.observe().state
    guarded = GuardedRig(rig, Envelope(task.spec))
    motion = RobotMotion(task, guarded, "home", "M1", "ann", 0)
    for _ in range(1 + 60 * round(task.spec.rate_hz)):
        if not motion.done:
            motion.period(guarded.observe().state)
    assert (motion.done, motion.problem) == (True, "")
    return before, guarded.observe().state, rig


@pytest.mark.parametrize("name", sorted(plugins.BUILT_IN["tasks"]))
def test_every_shipped_task_has_a_home(name: str) -> None:
    assert motions_of(cast("type[Task]", plugins.load("tasks", name))()) == ("reset", "home")


def joints(state: FloatArray, side: Side) -> FloatArray:
    return state[:, joints_of(side)]


@pytest.mark.parametrize("name", ["pin_insertion", "pin_insertion_blind", "fragile_insertion"])
def test_a_pin_rests_high_over_the_hole_and_a_fragile_one_does_not_break(name: str) -> None:
    before, state, _ = sent_home(name, MIDDLE[name])
    assert np.abs(state[:, TIP] - HOME_MM).max() < 1.0
    assert name != "fragile_insertion" or np.abs(state[:, LENGTH] - before[:, LENGTH]).max() < 1.0


def test_the_pusher_goes_round_the_block_and_leaves_it_where_it_is() -> None:
    before, state, _ = sent_home("push_t", MIDDLE["push_t"])
    assert np.abs(state[:, PUSHER] - PUSHER_HOME_MM).max() < 6.0
    assert np.abs(state[:, BLOCK] - before[:, BLOCK]).max() < 8.0


def test_the_card_is_lifted_out_of_its_slot_and_stays_in_the_gripper() -> None:
    before, state, _ = sent_home("gpu_insertion", MIDDLE["gpu_insertion"])
    assert np.abs(joints(state, "right") - READY["right"]).max() < 0.1
    assert np.abs(joints(state, "left") - PARKED["left"]).max() < 0.1
    assert state[:, CARD.stop - 1].min() > 30.0, before[:, CARD.stop - 1]


def test_the_arms_of_zip_tie_cutting_leave_holder_and_tail() -> None:
    _, state, rig = sent_home("ziptie_cutting", MIDDLE["ziptie_cutting"])
    assert np.abs(joints(state, "right") - READY["right"]).max() < 0.1
    assert np.abs(joints(state, "left") - WATCHING).max() < 0.1
    assert max(rig.truth(lane).metrics["peak_n"] for lane in range(LANES)) < 60.0


def test_the_arms_of_bag_packing_leave_the_bag_standing() -> None:
    _, state, _ = sent_home("bag_packing", MIDDLE["bag_packing"])
    for side in SIDES:
        assert np.abs(joints(state, side) - HOME[side]).max() < 0.15
    assert state[:, TILT].max() < TIPPED_RAD
