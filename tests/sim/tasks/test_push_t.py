"""Push-T: the planner places the block, the verifier agrees with the truth, the model of pushing holds."""

from __future__ import annotations

import numpy as np

from enpire.interfaces import Evidence
from enpire.types import EpisodeArrays
from sim.rollouts import roll_out
from sim.tasks.push_t import PushT, view_of
from sim.tasks.push_t_planner import PushPlanner
from sim.tasks.push_t_rig import ON_BLOCK, PUSHER, TURN_MM

SECRET = b"a secret of the tests"


def test_the_experts_place_the_block_and_the_verifier_knows() -> None:
    task = PushT()
    rig = task.rig(30, 11)
    starts = [task.start("holdout", index, SECRET) for index in range(30)]
    clean, varied = roll_out(task, rig, task.clean_expert(), starts), roll_out(task, rig, task.expert(0), starts)
    assert sum(item.truth.success for item in clean) >= 27
    assert sum(item.truth.success for item in varied) >= 24
    both = clean + varied
    assert sum((item.verdict.kind == "success") == item.truth.success for item in both) >= 59
    assert np.mean([item.ticks for item in clean]) < np.mean([item.ticks for item in varied])


def test_the_reset_reaches_its_start_also_where_commands_come_late() -> None:
    task = PushT()
    rig = task.rig(16, 3)
    skill, goals = task.reset_skill(), [task.start("train", 100 + lane, b"") for lane in range(16)]
    for lane in range(16):
        rig.place(lane, task.start("train", lane, b""))
    rig.teleport = False
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
    late, done = [np.zeros((16, 2), np.float32)] * 3, np.zeros(16, np.bool_)
    for _ in range(900):
        lanes, command = np.flatnonzero(~done), np.zeros((16, 2), np.float32)
        command[lanes], done[lanes] = skill.step(rig.observe().state[lanes], lanes)
        late.append(command)
        rig.act(late.pop(0), ~done)
    assert done.all()


def test_an_untouched_block_is_a_failure() -> None:
    task = PushT()
    rig = task.rig(1, 0)
    rig.place(0, task.start("train", 0, b""))
    states = [rig.observe().state[0]]
    for _ in range(10):
        rig.act(np.zeros((1, 2), dtype=np.float32), np.ones(1, dtype=np.bool_))
        states.append(rig.observe().state[0])
    arrays = EpisodeArrays(
        state=np.stack(states),
        action=np.zeros((10, 2), dtype=np.float32),
        source=np.zeros(10, dtype=np.uint8),
        chunk=np.zeros(10, dtype=np.int32),
    )
    assert task.verifier().judge(Evidence(arrays=arrays, images={})).kind == "failure"
    assert not task.verifier().finished(np.stack(states), np.full(11, 10)).any()


def test_the_pusher_on_the_block_is_the_same_however_the_block_lies() -> None:
    task = PushT()
    rig = task.rig(2, 4)
    for lane in range(2):
        rig.place(lane, task.start("train", 0, b""))
    rig.scene.qpos[0] = (0.0, 0.0, 0.0, 0.03, -0.09)
    cosine, sine = np.cos(0.7), np.sin(0.7)
    away = (0.05 + 0.03 * cosine + 0.09 * sine, -0.02 + 0.03 * sine - 0.09 * cosine)
    rig.scene.qpos[1] = (0.05, -0.02, 0.7, *away)
    state = rig.observe().state
    noise_mm = 5.0
    assert np.abs(state[:, ON_BLOCK] - (30.0, -90.0)).max() < noise_mm
    assert np.abs(state[0, PUSHER] - state[1, PUSHER]).max() > 20.0


def test_a_push_turns_the_block_as_the_limit_surface_says() -> None:
    task = PushT()
    rig = task.rig(1, 2)
    rig.place(0, task.start("train", 0, b""))
    lever_mm = 40.0
    rig.scene.qpos[0] = (0.0, 0.0, 0.0, lever_mm * 1e-3, (180.0 / 7.0 + 15.0 + 11.0) * 1e-3)
    for _ in range(10):
        rig.act(np.array([[0.0, -60.0]], dtype=np.float32), np.ones(1, dtype=np.bool_))
    moved_mm, turned = -1e3 * rig.scene.qpos[0, 1], -rig.scene.qpos[0, 2]
    assert moved_mm > 3.0
    expected = lever_mm / TURN_MM**2 * moved_mm
    # Inertia and friction at the contact, which the quasi-static model leaves out, take some of the turning.
    assert abs(turned - expected) < 0.3 * expected


def test_the_planner_walks_round_the_block_without_touching_it() -> None:
    task = PushT()
    rig = task.rig(1, 0)
    rig.place(0, task.start("train", 0, b""))
    rig.scene.qpos[0] = (0.0, 0.0, 0.0, 0.0, -0.13)
    planner, target = PushPlanner(), np.array([0.0, 70.0])
    for _ in range(120):
        view = view_of(rig.observe().state[0])
        command = planner.walk(view, target, task.spec.period_s)
        rig.act(command[None].astype(np.float32), np.ones(1, dtype=np.bool_))
    assert np.hypot(*(1e3 * rig.scene.qpos[0, 3:] - target)) < 5.0
    assert np.abs(rig.scene.qpos[0, :2]).max() < 1e-4
