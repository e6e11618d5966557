"""GPU insertion: experts, verifier against the truth, the grasp, and the robot's own reset with its hand-over."""

from __future__ import annotations

import numpy as np
import pytest

from enpire.interfaces import Evidence, Policy
from enpire.types import EpisodeArrays, FloatArray, Start
from sim.bimanual.kinematics import READY, quaternion_of
from sim.bimanual.rig import ACTION, commands_of, force_of, opening_of
from sim.rollouts import GradedRollout, roll_out
from sim.task_check.suite import check_made
from sim.tasks.gpu_expert import carry
from sim.tasks.gpu_insertion import GpuInsertion
from sim.tasks.gpu_rig import ANGLES, CARD, CARD_QPOS, GENTLE_N, GpuRig

SECRET = b"a secret of the tests"


@pytest.fixture
def gpu() -> GpuInsertion:
    return GpuInsertion()


def rolled(gpu: GpuInsertion, expert: Policy, count: int, seed: int = 11) -> list[GradedRollout]:
    """`count` rollouts from hidden starts, on one rig."""
    return roll_out(gpu, gpu.rig(count, seed), expert, [gpu.start("holdout", index, SECRET) for index in range(count)])


def hold(rig: GpuRig, ticks: int, command: FloatArray | None = None) -> FloatArray:
    """Repeat one command (none: hold still); the state of lane 0 afterwards."""
    command = np.zeros((rig.lanes, len(ACTION)), np.float32) if command is None else command
    for _ in range(ticks):
        rig.act(command, np.ones(rig.lanes, np.bool_))
    return rig.observe().state[0]


def test_the_clean_expert_seats_nearly_every_card_in_less_than_half_of_the_time(gpu: GpuInsertion) -> None:
    tries = rolled(gpu, gpu.clean_expert(), 8)
    assert sum(item.truth.success for item in tries) >= 7
    assert np.mean([item.ticks for item in tries]) < 0.45 * gpu.spec.limit_ticks


def test_the_verifier_agrees_with_the_truth_on_good_and_bad_tries(gpu: GpuInsertion) -> None:
    tries = rolled(gpu, gpu.expert(0), 12)
    truth = np.array([item.truth.success for item in tries])
    said = np.array([item.verdict.kind == "success" for item in tries])
    assert 1 <= truth.sum() <= 11, "the demonstrations must hold both kinds"
    assert (said != truth).sum() <= 1


def test_a_hard_push_is_unsafe_and_a_hovering_card_a_failure(gpu: GpuInsertion) -> None:
    arrays = rolled(gpu, gpu.clean_expert(), 1)[0].arrays
    judge = gpu.verifier().judge
    assert judge(Evidence(arrays=arrays, images={})).kind == "success"
    assert judge(Evidence(arrays=shown(arrays, arrays.state[:10]), images={})).kind == "failure"
    pushed = arrays.state.copy()
    pushed[5, force_of("right")] = (0.0, 0.0, GENTLE_N + 1.0)
    assert judge(Evidence(arrays=shown(arrays, pushed), images={})).kind == "unsafe"


def shown(arrays: EpisodeArrays, state: FloatArray) -> EpisodeArrays:
    """The same rollout with other sensor values."""
    count = len(state) - 1
    return EpisodeArrays(
        state=state, action=arrays.action[:count], source=arrays.source[:count], chunk=arrays.chunk[:count]
    )


def test_friction_alone_holds_the_card_and_an_open_gripper_drops_it(gpu: GpuInsertion) -> None:
    rig = gpu.rig(1, 0)
    rig.place(0, Start(split="train", index=0, values=(2.0, 6.0, 15.0, 0.0, 0.0, 0.1), seed=3))
    before = rig.observe().state[0]
    state = hold(rig, 60)
    assert np.abs(state[CARD] - before[CARD]).max() < 0.8
    assert state[opening_of("right") + 1] < -15.0
    weight_n = -float(state[force_of("right")][2])
    assert 1.5 < weight_n < 4.5, "the wrist must feel the card"
    command = np.zeros((1, len(ACTION)), np.float32)
    command[0, commands_of("right").stop] = 60.0
    state = hold(rig, 70, command)
    assert state[CARD][2] < 6.0
    assert -float(state[force_of("right")][2]) < 0.8


def test_a_card_pressed_beside_the_slot_does_not_go_in(gpu: GpuInsertion) -> None:
    rig = gpu.rig(1, 2)
    rig.place(0, Start(split="train", index=0, values=(0.0, 3.0, 3.0, 0.0, 0.0, 0.0), seed=5))
    down = np.array([[0.0, 0.0, -0.02, 0.0, 0.0, 0.0]])
    for _ in range(20):
        command = np.zeros((1, len(ACTION)), np.float32)
        command[:, commands_of("right")] = carry(rig.observe().state.astype(np.float64), down)
        rig.act(command, np.ones(1, np.bool_))
    state = rig.observe().state[0]
    assert state[CARD][2] > -1.5
    assert state[force_of("right")][2] > 5.0


@pytest.mark.slow
def test_the_robot_unplugs_hands_over_and_hovers(gpu: GpuInsertion) -> None:
    rig, skill = gpu.rig(2, 4), gpu.reset_skill()
    seated = roll_out(gpu, rig, gpu.clean_expert(), [gpu.start("train", index, b"") for index in range(2)])
    assert all(item.truth.success for item in seated)
    rig.teleport = False
    goals = [gpu.start("train", 100 + lane, b"") for lane in range(2)]
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
    done, taken = np.zeros(2, np.bool_), np.zeros(2, np.bool_)
    for _ in range(1200):
        lanes = np.flatnonzero(~done)
        if not len(lanes):
            break
        command = np.zeros((2, len(ACTION)), np.float32)
        state = rig.observe().state
        taken |= state[:, opening_of("left") + 1] < -10.0
        command[lanes], done[lanes] = skill.step(state[lanes], lanes)
        rig.act(command, ~done)
    assert done.all()
    assert taken.all(), "cards that sit askew are handed over"
    state = rig.observe().state
    assert all(gpu.start_error(state[lane], goal)[1] for lane, goal in enumerate(goals))
    assert (state[:, -1] > 0.9).all(), "the clock starts at the start"


@pytest.mark.slow
@pytest.mark.parametrize("face", [1, -1])
def test_a_card_that_lies_on_its_face_is_taken_up_and_turned_upright(gpu: GpuInsertion, face: int) -> None:
    rig, skill = gpu.rig(1, 3), gpu.reset_skill()
    rig.place(0, gpu.start("train", 0, b""))
    rig.pose_arm(0, "right", np.array(READY["right"]), 0.03)
    rig.scene.qpos[0, CARD_QPOS] = [0.05, 0.14, 0.03, *quaternion_of(np.array([face * np.pi / 2, 0.0, 2.0]))]
    rig.teleport = False
    goal = gpu.start("train", 1, b"")
    rig.place(0, goal)
    hold(rig, 20)
    skill.begin(0, goal)
    assert abs(float(rig.observe().state[0, ANGLES][0])) > 1.4, "it must lie"
    for _ in range(1300):
        command, done = skill.step(rig.observe().state, np.arange(1))
        if done[0]:
            break
        rig.act(command, np.ones(1, np.bool_))
    assert gpu.start_error(rig.observe().state[0], goal)[1]


def test_a_card_out_of_reach_is_left_to_a_person_soon(gpu: GpuInsertion) -> None:
    rig, skill = gpu.rig(1, 3), gpu.reset_skill()
    rig.place(0, gpu.start("train", 0, b""))
    rig.pose_arm(0, "right", np.array(READY["right"]), 0.03)
    rig.scene.qpos[0, CARD_QPOS] = [-0.5, 0.0, 0.03, *quaternion_of(np.array([np.pi / 2, 0.0, 0.0]))]
    rig.teleport = False
    goal = gpu.start("train", 1, b"")
    rig.place(0, goal)
    hold(rig, 20)
    skill.begin(0, goal)
    ticks = 0
    command, done = skill.step(rig.observe().state, np.arange(1))
    while not done[0]:
        rig.act(command, np.ones(1, np.bool_))
        ticks += 1
        assert ticks < 150
        command, done = skill.step(rig.observe().state, np.arange(1))
    assert not gpu.start_error(rig.observe().state[0], goal)[1]


def test_a_pressed_card_is_home_even_where_the_camera_doubts_its_tilt(gpu: GpuInsertion) -> None:
    arrays = rolled(gpu, gpu.clean_expert(), 1)[0].arrays
    doubted = arrays.state.copy()
    doubted[:, ANGLES][:, 1] += 0.03
    judge = gpu.verifier().judge
    assert float(doubted[-1, force_of("right")][2]) > 8.0
    assert judge(Evidence(arrays=shown(arrays, doubted), images={})).kind == "success"
    doubted[-1, force_of("right")] = 0.0
    assert judge(Evidence(arrays=shown(arrays, doubted), images={})).kind == "failure"
    shallow = arrays.state.copy()
    shallow[:, CARD][:, 2] += 1.0
    assert judge(Evidence(arrays=shown(arrays, shallow), images={})).kind == "failure"


@pytest.mark.slow
def test_it_keeps_the_contract_of_tasks() -> None:
    report = check_made("gpu_insertion", GpuInsertion)
    assert report.conforms, [failure.line for failure in report.failures]


def test_a_lane_is_the_same_alone_and_beside_others_bit_for_bit(gpu: GpuInsertion) -> None:
    crowd, alone = gpu.rig(3, 1), gpu.rig(1, 1)
    start = gpu.start("holdout", 7, SECRET)
    for lane in range(3):
        crowd.place(lane, start if lane == 2 else gpu.start("train", lane, b""))
    alone.place(0, start)
    commands = np.random.default_rng(0).uniform(-0.4, 0.4, (20, 3, len(ACTION))).astype(np.float32)
    for tick, command in enumerate(commands):
        crowd.act(command, np.array([tick % 2 == 0, tick < 9, True]))
        alone.act(command[2:], np.ones(1, np.bool_))
        assert np.array_equal(crowd.observe().state[2], alone.observe().state[0])
