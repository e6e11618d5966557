"""Marker in cup: the experts succeed, the verifier agrees with the truth, the robot resets, and a cup has walls."""

from __future__ import annotations

import numpy as np
import pytest

from enpire.interfaces import Evidence, Policy
from enpire.types import EpisodeArrays, FloatArray
from sim.rollouts import GradedRollout, roll_out
from sim.so101.kinematics import Tips, joints_for
from sim.tasks.marker_in_cup import HOME_DEG, MarkerInCup
from sim.tasks.marker_rig import (
    ARM,
    CUP_M,
    GRIPPER,
    HOLDS_PERCENT,
    INSIDE_M,
    RIM_M,
    SQUEEZE_PERCENT,
    STICK_M,
    MarkerRig,
)
from sim.tasks.marker_verifier import tip_in_cup

SECRET = b"a secret of the tests"
TASK = MarkerInCup()


def rolled(expert: Policy, count: int, seed: int = 11) -> list[GradedRollout]:
    """`count` rollouts from hidden starts, on one rig."""
    starts = [TASK.start("holdout", index, SECRET) for index in range(count)]
    return roll_out(TASK, TASK.rig(count, seed), expert, starts)


def held(rig: MarkerRig, joints_deg: FloatArray, ticks: int) -> FloatArray:
    """Command the same pose in every lane; the last state of lane 0."""
    command = np.tile(np.append(joints_deg, 3.0), (rig.lanes, 1)).astype(np.float32)
    for _ in range(ticks):
        rig.act(command, np.ones(rig.lanes, np.bool_))
    return rig.observe().state[0]


def test_the_clean_expert_succeeds_and_the_varied_one_often_runs_out_of_time() -> None:
    clean = rolled(TASK.clean_expert(), 40)
    assert sum(item.truth.success for item in clean) >= 39
    varied = rolled(TASK.expert(0), 100)
    good = sum(item.truth.success for item in varied)
    assert 30 <= good <= 90
    slow = [item for item in varied if not item.truth.success]
    assert np.mean([item.ticks == TASK.spec.limit_ticks for item in slow]) >= 0.8, "failures are the clock"


def test_the_verifier_agrees_with_the_truth() -> None:
    tries = [item for seed in range(4) for item in rolled(TASK.expert(seed), 40, seed)]
    truth = np.array([item.truth.success for item in tries])
    called = np.array([item.verdict.kind == "success" for item in tries])
    assert (called & truth).sum() / called.sum() >= 0.98
    assert (called & truth).sum() / truth.sum() >= 0.95


def test_the_robot_resets_out_of_the_cup() -> None:
    rig = TASK.rig(6, 3)
    roll_out(TASK, rig, TASK.clean_expert(), [TASK.start("train", index, b"") for index in range(6)])
    rig.teleport = False
    skill, done = TASK.reset_skill(), np.zeros(6, np.bool_)
    goals = [TASK.start("train", 50 + index, b"") for index in range(6)]
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
    for _ in range(600):
        lanes = np.flatnonzero(~done)
        if not len(lanes):
            break
        command = np.zeros((6, TASK.spec.action_dim), np.float32)
        command[lanes], done[lanes] = skill.step(rig.observe().state[lanes], lanes)
        rig.act(command, ~done)
    assert done.all()
    state = rig.observe().state
    assert all(TASK.start_error(state[lane], goal)[1] for lane, goal in enumerate(goals))


def test_the_cup_has_walls_and_the_table_is_solid() -> None:
    rig = TASK.rig(1, 0)
    rig.place(0, TASK.start("train", 0, b""))
    over, into = (
        joints_for(
            Tips(at_m=np.array([[CUP_M[0], INSIDE_M + 0.003, RIM_M + up]]), pitch_deg=np.zeros(1),
                 roll_deg=np.array([90.0])),
            STICK_M,
        )[0]
        for up in (0.03, -0.03)
    )  # fmt: skip
    held(rig, over, 40)
    state = held(rig, into, 60)
    assert not rig.truth(0).success
    deep_mm, _ = tip_in_cup(state[None])
    assert deep_mm[0] < 10.0, "the wall keeps the marker from its command, 30 mm deep"


def test_every_command_holds_the_marker_and_open_jaws_are_no_success() -> None:
    rig = TASK.rig(1, 0)
    rig.place(0, TASK.start("train", 0, b""))
    state = held(rig, np.array(HOME_DEG), 30)
    assert state[GRIPPER] == pytest.approx(HOLDS_PERCENT, abs=1.5)
    assert TASK.spec.action[GRIPPER].high == SQUEEZE_PERCENT < HOLDS_PERCENT
    good = next(item for item in rolled(TASK.clean_expert(), 4) if item.verdict.kind == "success").arrays
    dropped = good.state.copy()
    dropped[:, GRIPPER] = 0.5
    arrays = EpisodeArrays(state=dropped, action=good.action, source=good.source, chunk=good.chunk)
    verdict = TASK.verifier().judge(Evidence(arrays=arrays, images={}))
    assert verdict.kind == "failure"
    assert "dropped" in verdict.reason
    assert not TASK.verifier().finished(dropped[-1:], np.array([99])).any()


def test_the_arm_sags_a_little_and_goes_where_it_is_told() -> None:
    rig = TASK.rig(1, 0)
    assert rig.latency_substeps == 4, "the command of a stop acts for four steps of physics"
    rig.place(0, TASK.start("train", 3, b""))
    state = held(rig, np.array(HOME_DEG), 60)
    off = np.abs(state[ARM] - HOME_DEG)
    assert off.max() < 2.0
    before = rig.scene.qpos.copy()
    rig.stop()
    held(rig, np.array(HOME_DEG), 1)
    assert np.degrees(np.abs(rig.scene.qpos - before)).max() < 0.5, "after a stop it stays where it was"


def test_the_home_position_ignores_the_start() -> None:
    skill = TASK.home_skill()
    skill.begin(0, TASK.start("train", 0, b""))
    command, done = skill.step(np.append(HOME_DEG, HOLDS_PERCENT)[None].astype(np.float32), np.array([0]))
    np.testing.assert_allclose(command[0, ARM], HOME_DEG, atol=0.1)
    assert not done[0]
