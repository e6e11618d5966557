"""What every simulated rig promises, on every task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from enpire import plugins
from enpire.errors import EnvelopeViolation, RobotProblem, UsageError
from enpire.interfaces import Rig, Task
from enpire.types import Start
from sim.rig import SimRig

TASKS = ("pin_insertion", "pin_insertion_blind", "fragile_insertion", "push_t")
SECRET = b"a secret of the tests"


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest) -> Task:
    return cast(Task, cast(type, plugins.load("tasks", request.param))())


@pytest.fixture
def rig(task: Task) -> Iterator[SimRig]:
    opened = cast(SimRig, task.rig(4, 3))
    for lane in range(4):
        opened.place(lane, task.start("train", lane, b""))
    yield opened
    opened.close()


def commands(task: Task, lanes: int, ticks: int, seed: int = 0) -> np.ndarray:
    """Smooth random commands, (ticks, lanes, action_dim)."""
    rng = np.random.default_rng(seed)
    high = np.array([b.high for b in task.spec.action])
    drawn = rng.uniform(-high, high, (ticks // 8 + 1, lanes, len(high)))
    return np.repeat(drawn, 8, axis=0)[:ticks].astype(np.float32)


def test_it_is_a_rig_and_a_task(task: Task, rig: SimRig) -> None:
    assert isinstance(rig, Rig)
    assert isinstance(task, Task)
    state = rig.observe().state
    assert state.dtype == np.float32
    assert state.shape == (4, task.spec.state_dim)


def test_a_start_looks_as_asked(task: Task, rig: SimRig) -> None:
    for lane in range(4):
        achieved, near = task.start_error(rig.observe().state[lane], task.start("train", lane, b""))
        assert near, achieved
        assert not task.start_error(rig.observe().state[lane], task.start("train", lane + 1, b""))[1]


def test_a_lane_is_the_same_alone_and_beside_others_bit_for_bit(task: Task) -> None:
    start = task.start("holdout", 7, SECRET)
    crowd, alone = task.rig(5, 1), task.rig(1, 1)
    for lane in range(5):
        crowd.place(lane, start if lane == 3 else task.start("train", lane, b""))
    alone.place(0, start)
    wishes = commands(task, 5, 60)
    for tick in range(60):
        moving = np.array([tick % 2 == 0, True, tick < 20, True, False])
        crowd.act(wishes[tick], moving)
        alone.act(wishes[tick][3:4], np.ones(1, dtype=np.bool_))
        assert np.array_equal(crowd.observe().state[3], alone.observe().state[0])


def test_only_moving_lanes_advance(task: Task, rig: SimRig) -> None:
    before = rig.observe()
    for wish in commands(task, 4, 10):
        rig.act(wish, np.array([True, False, True, False]))
    after = rig.observe()
    assert np.array_equal(before.state[[1, 3]], after.state[[1, 3]])
    assert not np.array_equal(before.state[0], after.state[0])
    assert after.stamp_ns > before.stamp_ns


def test_an_episode_repeats_bit_for_bit_after_place(task: Task, rig: SimRig) -> None:
    moving = np.ones(4, dtype=np.bool_)
    wishes = commands(task, 4, 40)
    seen = []
    for _ in range(2):
        for lane in range(4):
            rig.place(lane, task.start("train", lane, b""))
        seen.append([rig.observe().state, *((rig.act(wish, moving), rig.observe().state)[1] for wish in wishes)])
    assert np.array_equal(np.stack(seen[0]), np.stack(seen[1]))


def test_a_snapshot_of_a_lane_continues_bit_for_bit_in_any_lane(task: Task, rig: SimRig) -> None:
    moving = np.ones(4, dtype=np.bool_)
    wishes = commands(task, 4, 60)
    wishes[:] = wishes[:, :1]
    for wish in wishes[:20]:
        rig.act(wish, moving)
    kept = rig.snapshot(0)
    for wish in wishes[20:]:
        rig.act(wish, moving)
    once = rig.observe().state[0]
    rig.restore(0, kept)
    rig.restore(2, kept)
    for wish in wishes[20:]:
        rig.act(wish, moving)
    assert np.array_equal(rig.observe().state[0], once)
    assert np.array_equal(rig.observe().state[2], once)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_command_that_is_not_finite_is_refused_before_anything_moves(task: Task, rig: SimRig, bad: float) -> None:
    before = rig.observe()
    wish = np.ones((4, task.spec.action_dim), dtype=np.float32)
    wish[2, -1] = bad
    with pytest.raises(EnvelopeViolation, match=r"lanes \[2\] is not finite"):
        rig.act(wish, np.ones(4, dtype=np.bool_))
    assert np.array_equal(rig.observe().state, before.state)
    rig.act(wish, np.array([True, True, False, True]))
    assert np.isfinite(rig.observe().state).all()


def test_a_wrong_shape_is_refused(task: Task, rig: SimRig) -> None:
    with pytest.raises(EnvelopeViolation, match="shape"):
        rig.act(np.zeros((3, task.spec.action_dim), dtype=np.float32), np.ones(4, dtype=np.bool_))


def test_what_was_sent_is_within_the_limits(task: Task, rig: SimRig) -> None:
    high = np.array([b.high for b in task.spec.action], dtype=np.float32)
    sent = rig.act(np.full((4, task.spec.action_dim), 1e6, dtype=np.float32), np.ones(4, dtype=np.bool_))
    assert np.array_equal(sent, np.tile(high, (4, 1)))


def test_wrong_lanes_and_starts_are_refused(task: Task, rig: SimRig) -> None:
    with pytest.raises(UsageError, match="Lane 4"):
        rig.place(4, task.start("train", 0, b""))
    with pytest.raises(UsageError, match="values"):
        rig.place(0, Start(split="train", index=0, values=(1.0,), seed=0))


def test_stop_and_close_may_come_twice(rig: SimRig) -> None:
    rig.stop()
    rig.stop()
    rig.close()
    rig.close()
    with pytest.raises(RobotProblem, match="closed"):
        rig.observe()


def test_stations_differ_and_a_seed_repeats(task: Task) -> None:
    wishes = commands(task, 1, 40)
    ends = []
    for seed in (1, 1, 2):
        rig = task.rig(1, seed)
        rig.place(0, task.start("train", 0, b""))
        for wish in wishes:
            rig.act(wish, np.ones(1, dtype=np.bool_))
        ends.append(rig.observe().state[0])
    assert np.array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[0], ends[2])


def test_the_robot_resets_itself(task: Task, rig: SimRig) -> None:
    rig.teleport = False
    moving = np.ones(4, dtype=np.bool_)
    for wish in commands(task, 4, 30, seed=2):
        rig.act(wish, moving)
    skill = task.reset_skill()
    goals = [task.start("holdout", 20 + lane, SECRET) for lane in range(4)]
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
    done = np.zeros(4, dtype=np.bool_)
    for _ in range(900):
        lanes = np.flatnonzero(~done)
        if len(lanes) == 0:
            break
        wish = np.zeros((4, task.spec.action_dim), dtype=np.float32)
        wish[lanes], done[lanes] = skill.step(rig.observe().state[lanes], lanes)
        rig.act(wish, ~done)
    assert done.all()
    state = rig.observe().state
    for lane, goal in enumerate(goals):
        achieved, near = task.start_error(state[lane], goal)
        assert near, (achieved, goal.values)
    left = [bound.name for bound in task.spec.state].index("time_left")
    assert (state[:, left] > 0.9).all()
