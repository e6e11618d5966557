"""A tracker that is dead says zero, exactly; at the goal of most tasks lie zeros."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from enpire import plugins
from enpire.interfaces import Evidence, Task
from enpire.types import EpisodeArrays, FloatArray
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.push_t import PushT
from sim.tasks.ziptie_cutting import ZiptieCutting
from sim.verifiers.camera_estimates import fresh_rows

TASKS = (
    "pin_insertion", "pin_insertion_blind", "fragile_insertion", "push_t", "gpu_insertion", "ziptie_cutting",
    "fragile_ziptie", "bag_packing",
)  # fmt: skip


def held(task: Task, command: npt.NDArray[np.float64], periods: int) -> FloatArray:
    """States (periods, state_dim) of one lane with the same command all the time, as cameras that are dead see them."""
    rig, seen = task.rig(1, 1), np.array([item.sensor_std > 0.0 for item in task.spec.state])
    rig.place(0, task.start("train", 1, b""))
    states: list[FloatArray] = []
    for _ in range(periods):
        states.append(np.where(seen, np.float32(0.0), rig.observe().state[0]))
        rig.act(command[None].astype(np.float32), np.ones(1, np.bool_))
    rig.close()
    return np.stack(states)


def evidence(state: FloatArray) -> Evidence:
    ticks = len(state) - 1
    arrays = EpisodeArrays(
        state=state, action=np.zeros((ticks, 2), np.float32), source=np.zeros(ticks, np.uint8),
        chunk=np.zeros(ticks, np.int32),
    )  # fmt: skip
    return Evidence(arrays=arrays, images={})


@pytest.mark.parametrize("name", TASKS)
def test_a_dead_tracker_is_no_success(name: str) -> None:
    task: Task = plugins.make("tasks", name)  # pyright: ignore[reportAssignmentType]
    state = held(task, np.zeros(task.spec.action_dim), 30)
    assert task.verifier().judge(evidence(state)).kind == "failure"
    assert not task.verifier().finished(state, np.full(len(state), 200)).any()
    assert task.verifier().judge(evidence(np.zeros_like(state))).kind == "failure"


def test_a_pin_that_is_pressed_on_the_board_is_not_in_the_hole_because_its_tracker_died() -> None:
    verdict = PinInsertion().verifier().judge(evidence(held(PinInsertion(), np.array([0.0, 0.0, -10.0]), 150)))
    assert (verdict.kind, verdict.confidence) == ("failure", 0.5)
    assert verdict.reason == "The cameras' estimate of the pin is dead."


def test_a_tail_that_nothing_tracks_has_not_fallen_and_pictures_of_nowhere_are_no_witness() -> None:
    task = ZiptieCutting()
    state = held(task, np.zeros(task.spec.action_dim), 5)
    rig = task.rig(1, 1)
    assert task.verifier().views(state.astype(np.float64), rig.look(0)) == []


def test_an_angle_that_points_nowhere_is_none() -> None:
    states = np.zeros((9, len(PushT.spec.state)), np.float32)
    states[:, 2:4] = np.random.default_rng(0).normal(0.0, 0.5, (9, 2))
    verifier, ticks = PushT().verifier(), np.full(9, 99)
    assert verifier.judge(evidence(states)).kind == "failure"
    assert not verifier.finished(states, ticks).any()
    assert not PushT().subtask_marks(states)[:, 1].any()
    states[:, 4] = 1.0
    assert verifier.judge(evidence(states)).kind == "success"
    assert verifier.finished(states, ticks).all()


def test_what_died_at_the_end_was_seen_before() -> None:
    seen = np.random.default_rng(0).normal(0.0, 1.0, (6, 3)).astype(np.float32)
    seen[4:] = 0.0
    seen[2] = seen[1]
    assert fresh_rows(seen).tolist() == [0, 1, 3]
