"""Subtask marks: what the sensors show as done, so that a station counts the retries within an episode (pass@k)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from enpire import plugins
from enpire.interfaces import MarksSubtasks, Task
from enpire.station.recording import retry_ticks
from enpire.types import FloatArray, MaskArray
from enpire.verifiers import VerifierSettings, with_verifiers
from sim.rollouts import roll_out
from sim.tasks.gpu_insertion import GpuInsertion
from sim.tasks.gpu_rig import CARD
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.pin_insertion_blind import PinInsertionBlind
from sim.tasks.pin_rig import TIP
from sim.tasks.push_t import PushT
from sim.tasks.push_t_rig import ANGLE, BLOCK, ON_BLOCK

TASKS = (
    "pin_insertion", "pin_insertion_blind", "fragile_insertion", "push_t", "gpu_insertion", "ziptie_cutting",
    "fragile_ziptie", "bag_packing", "marker_in_cup",
)  # fmt: skip


def rows(task: Task, at: slice, *values: tuple[float, ...]) -> FloatArray:
    """States whose numbers `at` are these, and all others 0."""
    state = np.zeros((len(values), task.spec.state_dim), np.float32)
    state[:, at] = values
    return state


def furthest(marks: MaskArray) -> list[int]:
    """How many subtasks are done in each state; a later mark stands for the earlier ones."""
    return [max((number for number, done in enumerate(row, start=1) if done), default=0) for row in marks]


@pytest.mark.parametrize("name", TASKS)
def test_every_shipped_task_marks_the_subtasks_that_it_names(name: str) -> None:
    task = cast("type[Task]", plugins.load("tasks", name))()
    assert task.spec.subtasks
    assert isinstance(task, MarksSubtasks)


def test_a_pin_is_at_the_rim_then_inside_then_on_the_floor() -> None:
    places = (0.0, 0.0, 5.0), (2.0, 0.0, 0.3), (0.1, -0.2, 0.3), (0.1, 0.0, -3.0), (0.0, 0.0, -7.9)
    marks = PinInsertion().subtask_marks(rows(PinInsertion(), TIP, *places))
    assert furthest(marks) == [0, 0, 1, 2, 3]
    blind = PinInsertionBlind().subtask_marks(rows(PinInsertionBlind(), TIP, *places))
    assert furthest(blind) == [0, 1, 1, 2, 3], "who feels for the hole touches the board anywhere"


def test_a_card_is_aligned_then_in_the_slot_then_home() -> None:
    places = (0.0, 0.0, 12.0), (0.2, 2.0, 1.5), (0.2, 0.1, 1.5), (0.0, 0.1, -4.0), (0.0, 0.0, -7.9)
    marks = GpuInsertion().subtask_marks(rows(GpuInsertion(), CARD, *places))
    assert furthest(marks) == [0, 0, 1, 2, 3]


def test_a_t_is_touched_and_then_at_its_goal() -> None:
    state = rows(PushT(), ON_BLOCK, (0.0, -200.0), (0.0, -90.0), (0.0, -200.0))
    state[:, BLOCK] = (40.0, 0.0), (40.0, 0.0), (5.0, 5.0)
    state[:, ANGLE] = 1.0, 0.0
    assert PushT().subtask_marks(state).tolist() == [[False, False], [True, False], [False, True]]


def test_who_lets_go_of_the_t_tries_again_and_a_careful_pin_does_not() -> None:
    counts: dict[str, list[int]] = {}
    for task in (PushT(), PinInsertion()):
        rig = task.rig(8, 3)
        tried = roll_out(task, rig, task.clean_expert(), [task.start("train", index, b"") for index in range(8)])
        assert all(item.verdict.kind == "success" for item in tried)
        counts[task.spec.name] = [len(retry_ticks(task.subtask_marks(item.arrays.state))) for item in tried]
        rig.close()
    assert sum(counts["push_t"]) > 0
    assert max(counts["push_t"]) < 8
    assert counts["pin_insertion"] == [0] * 8


def test_marks_are_kept_where_other_verifiers_judge(tmp_path: Path) -> None:
    judged = with_verifiers(PinInsertion(), [VerifierSettings(name="task")], tmp_path / "tokens")
    assert isinstance(judged, MarksSubtasks)
    state = rows(PinInsertion(), TIP, (0.0, 0.0, -3.0))
    assert judged.subtask_marks(state).tolist() == PinInsertion().subtask_marks(state).tolist()
