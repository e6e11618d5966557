"""A simulated robot that presses or goes too far leaves its envelope: its episode is unsafe, by what was sensed."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.unattended import ENVELOPES, FAULTS, faults_of
from enpire import plugins
from robot_drivers.mujoco_robot import open_rig
from robot_drivers.safety import Envelope, Limits
from sim.bimanual.rig import commands_of
from sim.faults import KINDS, known_faults
from sim.rig import SimRig
from sim.tasks.gpu_expert import carry
from sim.tasks.gpu_insertion import GpuInsertion
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.push_t import PushT


def test_a_card_that_is_rammed_into_its_slot_trips_the_envelope() -> None:
    task, lanes = GpuInsertion(), np.arange(3)
    rig = open_rig(task, 3, 1, {"envelope": ENVELOPES["gpu_insertion"]})
    for lane in lanes.tolist():
        rig.place(lane, task.start("train", lane, b""))
    for _ in range(task.spec.limit_ticks):
        state = rig.observe().state
        down, command = np.zeros((3, 6)), np.zeros((3, task.spec.action_dim), np.float32)
        down[:2, 2] = -0.2
        command[:, commands_of("right")] = np.clip(carry(state.astype(np.float64), down), -1.0, 1.0)
        rig.act(command, np.ones(3, np.bool_))
    assert rig.violated.any()
    assert not rig.violated[2], "the lane that held still"
    assert all(
        "force_" in rig.offences[lane] and " N, allowed is -70" in rig.offences[lane] for lane in lanes[rig.violated]
    )
    rig.close()


def test_a_pusher_that_leaves_its_table_trips_the_envelope() -> None:
    task = PushT()
    rig = open_rig(task, 1, 0, {"envelope": ENVELOPES["push_t"]})
    rig.place(0, task.start("train", 0, b""))
    for _ in range(120):
        rig.observe()
        rig.act(np.array([[0.0, -200.0]], np.float32), np.ones(1, np.bool_))
    assert "pusher_y_mm is -28" in rig.offences[0]
    assert rig.observe().state[0, 1] > -310.0, "it was held"


def test_the_envelope_judges_what_is_sensed_and_not_what_the_spec_allows() -> None:
    """A state far outside is not pulled back to the bounds of the spec before it is judged."""
    task = PinInsertion()
    rig = task.rig(1, 0)
    rig.place(0, task.start("train", 0, b""))
    for _ in range(80):
        rig.act(np.array([[20.0, 0.0, 20.0]], np.float32), np.ones(1, np.bool_))
    state = rig.observe().state
    assert state[0, 0] > task.spec.state[0].high
    limits = Limits(workspace={"tip_x_mm": (-25.0, 25.0)})
    assert Envelope(task.spec, limits).violated(state)[0]
    assert not Envelope(task.spec, Limits(margin=0.0)).violated(state)[0], "what a camera estimates is judged by name"


@pytest.mark.parametrize("name", ["pin_insertion", "push_t", "gpu_insertion"])
def test_a_clock_that_has_run_out_is_not_unsafe(name: str) -> None:
    task = plugins.load("tasks", name)()  # type: ignore[operator]
    rig = task.rig(1, 0)
    rig.place(0, task.start("train", 0, b""))
    for _ in range(round(1.2 * task.spec.limit_ticks)):
        rig.act(np.zeros((1, task.spec.action_dim), np.float32), np.ones(1, np.bool_))
    state = rig.observe().state
    assert state[0, [item.name for item in task.spec.state].index("time_left")] == 0.0
    assert not Envelope(task.spec).violated(state).any()
    rig.close()


@pytest.mark.parametrize("name", plugins.BUILT_IN["tasks"])
def test_unattended_stations_have_an_envelope_and_every_fault_that_their_task_knows(name: str) -> None:
    task = plugins.load("tasks", name)()  # type: ignore[operator]
    rig = task.rig(1, 0)
    assert isinstance(rig, SimRig)
    assert set(FAULTS) == set(KINDS)
    assert set(faults_of(name, 1)) == known_faults(rig)
    assert set(faults_of(name, 8)) == known_faults(rig) - {"frozen_sensor", "frozen_camera"}
    envelope = Envelope(task.spec, Limits.read(dict(ENVELOPES[name])))
    rig.place(0, task.start("train", 0, b""))
    assert not envelope.violated(rig.observe().state).any()
    rig.close()
