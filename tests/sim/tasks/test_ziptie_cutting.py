"""Zip-tie cutting: expert, the bite that severs, the verifier's witnesses, marks, and the robot's own reset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from enpire.errors import UsageError
from enpire.interfaces import Evidence, MarksSubtasks, Policy
from enpire.station.recording import retry_ticks
from enpire.types import FloatArray, ImageArray, IntArray, Observation, Start
from sim import cameras
from sim.bimanual.kinematics import quaternion_of
from sim.bimanual.rig import ACTION, force_of
from sim.rollouts import GradedRollout, roll_out
from sim.task_check.suite import check_made
from sim.tasks.ziptie_cutting import ZiptieCutting
from sim.tasks.ziptie_rig import GENTLE_N, SEAT_M, TAIL, ZiptieRig
from sim.tasks.ziptie_scene import MOUTH_M

SECRET = b"a secret of the tests"
PICTURES = pytest.mark.skipif(bool(cameras.why_no_images()), reason="this machine makes no pictures")


@pytest.fixture
def ziptie() -> ZiptieCutting:
    return ZiptieCutting()


@pytest.fixture(scope="module")
def shown() -> list[GradedRollout]:
    """Rollouts of the clean expert."""
    task = ZiptieCutting()
    starts = [task.start("holdout", index, SECRET) for index in range(6)]
    return roll_out(task, task.rig(6, 11), task.clean_expert(), starts)


class Shifted:
    """An expert that sees the tail some millimetres beside its place."""

    def __init__(self, expert: Policy, aside_mm: float) -> None:
        self.horizon, self.execute = expert.horizon, expert.execute
        self._expert, self._aside_mm = expert, aside_mm

    def begin(self, lane: int, seed: int) -> None:
        self._expert.begin(lane, seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        state = observation.state.copy()
        state[:, TAIL.start] += self._aside_mm
        return self._expert.act(replace(observation, state=state), lanes)


def judged(ziptie: ZiptieCutting, tried: GradedRollout, images: Mapping[str, ImageArray]) -> str:
    """The verdict on a rollout with these pictures at its end."""
    return ziptie.verifier().judge(Evidence(arrays=tried.arrays, images=images)).kind


def test_the_clean_expert_severs_every_tail_in_half_of_the_time(
    ziptie: ZiptieCutting, shown: list[GradedRollout]
) -> None:
    assert all(item.truth.success for item in shown)
    assert np.mean([item.ticks for item in shown]) < 0.5 * ziptie.spec.limit_ticks
    assert all(item.verdict.kind == "success" for item in shown)


def test_a_hand_that_comes_down_on_the_handles_feels_it_and_tries_again_with_more_care(ziptie: ZiptieCutting) -> None:
    rig, expert = ziptie.rig(1, 1), ziptie.expert(0)
    rig.place(0, Start(split="train", index=0, values=(0.0, 0.0, 0.0, 0.0, -9.0, 0.0, 50.0), seed=3))
    expert.begin(0, 3)
    episode = expert._episodes[0]
    episode.aim_m, episode.slack = np.array([-0.009, 0.0, 0.0]), 3.5
    chunk = np.zeros((1, expert.horizon, len(ACTION)), np.float32)
    for tick in range(ziptie.spec.limit_ticks):
        if tick % expert.execute == 0:
            chunk = expert.act(rig.observe(), np.arange(1))
        rig.act(chunk[:, tick % expert.execute], np.ones(1, np.bool_))
        if rig.truth(0).success:
            break
    assert 12.0 < rig.truth(0).metrics["peak_n"] < 0.7 * GENTLE_N
    assert rig.truth(0).success


def test_subtasks_are_marked_in_their_order(ziptie: ZiptieCutting, shown: list[GradedRollout]) -> None:
    assert isinstance(ziptie, MarksSubtasks)
    for item in shown:
        marks = ziptie.subtask_marks(item.arrays.state)
        first = [int(np.argmax(marks[:, number])) for number in range(3)]
        assert marks.any(axis=0).all()
        assert 0 < first[0] < first[1] < first[2]
        assert retry_ticks(marks) == ()


def test_blades_that_close_beside_the_tail_sever_nothing_and_the_expert_tries_again(ziptie: ZiptieCutting) -> None:
    hand = Shifted(ziptie.clean_expert(), 13.0)
    tried = roll_out(ziptie, ziptie.rig(2, 3), hand, [ziptie.start("train", index, b"") for index in range(2)])
    for item in tried:
        assert item.ticks == ziptie.spec.limit_ticks
        assert not item.truth.success
        assert item.verdict.kind == "failure"
        height_mm = item.arrays.state[-1, TAIL][2]
        assert height_mm > 1e3 * MOUTH_M[2] - 15.0, "the tail still hangs in its feeder"


def test_lost_alignment_counts_as_a_retry(ziptie: ZiptieCutting, shown: list[GradedRollout]) -> None:
    marks = ziptie.subtask_marks(shown[0].arrays.state)
    cut = int(np.argmax(marks[:, 2]))
    again = np.concatenate([marks[:cut], np.zeros((12, 3), np.bool_), marks[cut - 20 :]])
    assert len(retry_ticks(again)) == 1


@PICTURES
def test_pictures_of_a_whole_tail_outvote_the_gripper_and_hidden_views_do_not(
    ziptie: ZiptieCutting, shown: list[GradedRollout]
) -> None:
    whole = ziptie.rig(1, 11)
    whole.place(0, shown[0].start)
    black = {name: np.zeros((224, 224, 3), np.uint8) for name in shown[0].images}
    assert judged(ziptie, shown[0], shown[0].images) == "success"
    assert judged(ziptie, shown[0], whole.look(0)) == "failure"
    assert judged(ziptie, shown[0], black) == "success", "the gripper and the tracker agree"
    assert judged(ziptie, shown[0], {}) == "success"


@PICTURES
def test_pictures_alone_are_no_cut(ziptie: ZiptieCutting, shown: list[GradedRollout]) -> None:
    idle = replace(shown[0], arrays=replace(shown[0].arrays, state=shown[0].arrays.state[:60]))
    assert judged(ziptie, idle, shown[0].images) == "failure"


@PICTURES
def test_a_worse_light_a_moved_camera_and_a_cover_change_no_verdict(ziptie: ZiptieCutting) -> None:
    rig = ziptie.rig(1, 5)
    tried = roll_out(ziptie, rig, ziptie.clean_expert(), [ziptie.start("train", 4, b"")])[0]
    for trouble in (
        cameras.ImageDisturbance(light=0.5),
        cameras.ImageDisturbance(light=1.3, offset_m=(0.008, -0.006, 0.004)),
        cameras.ImageDisturbance(offset_m=(-0.008, 0.006, 0.0)),
        cameras.ImageDisturbance(cover=(0.0, 0.2, 0.3)),
    ):
        assert judged(ziptie, tried, rig.look(0, trouble)) == "success"


def test_a_hard_push_is_unsafe(ziptie: ZiptieCutting, shown: list[GradedRollout]) -> None:
    pushed = shown[1].arrays.state.copy()
    pushed[5, force_of("left")] = (0.0, GENTLE_N + 1.0, 0.0)
    hit = replace(shown[1], arrays=replace(shown[1].arrays, state=pushed))
    assert judged(ziptie, hit, shown[1].images) == "unsafe"


def test_a_cut_can_be_taken_back_and_done_again_bit_for_bit(ziptie: ZiptieCutting) -> None:
    rig, start = ziptie.rig(1, 0), ziptie.start("train", 2, b"")
    sent = roll_out(ziptie, rig, ziptie.clean_expert(), [start])[0].arrays.action
    rig.place(0, start)
    half = len(sent) // 2
    ends: list[FloatArray] = []
    for action in sent[:half]:
        rig.act(action[None], np.ones(1, np.bool_))
    before = rig.snapshot(0)
    for _ in range(2):
        rig.restore(0, before)
        assert rig.truth(0).metrics["severed"] == 0.0
        for action in sent[half:]:
            rig.act(action[None], np.ones(1, np.bool_))
        assert rig.truth(0).metrics["severed"] == 1.0
        ends.append(rig.observe().state.copy())
    assert np.array_equal(ends[0], ends[1])


def test_what_befalls_a_station_is_felt(ziptie: ZiptieCutting) -> None:
    rig, rng = ziptie.rig(2, 8), np.random.default_rng(0)
    for lane in range(2):
        rig.place(lane, ziptie.start("train", lane, b""))
    before = rig.observe().state[0]
    rig.disturb(0, "calibration_drift", rng)
    drifted_mm = np.abs(rig.observe().state[0] - before)[TAIL][:2]
    assert (drifted_mm > 0.3).all()
    assert (drifted_mm < 0.5).all()
    with pytest.raises(UsageError, match="lost_power"):
        rig.disturb(0, "lost_power", rng)


def test_a_tie_that_is_too_tough_is_not_cut(ziptie: ZiptieCutting) -> None:
    rig = ziptie.rig(1, 8)
    start = ziptie.start("train", 0, b"")
    sent = roll_out(ziptie, rig, ziptie.clean_expert(), [start])[0].arrays.action
    rig.place(0, start)
    rig.disturb(0, "jammed", np.random.default_rng(0))
    for action in sent:
        rig.act(action[None], np.ones(1, np.bool_))
    assert rig.truth(0).metrics["severed"] == 0.0


def test_a_lane_is_the_same_alone_and_beside_others_bit_for_bit(ziptie: ZiptieCutting) -> None:
    crowd, alone = ziptie.rig(3, 1), ziptie.rig(1, 1)
    start = ziptie.start("holdout", 7, SECRET)
    for lane in range(3):
        crowd.place(lane, start if lane == 2 else ziptie.start("train", lane, b""))
    alone.place(0, start)
    commands = np.random.default_rng(0).uniform(-0.4, 0.4, (20, 3, len(ACTION))).astype(np.float32)
    for tick, command in enumerate(commands):
        crowd.act(command, np.array([tick % 2 == 0, tick < 9, True]))
        alone.act(command[2:], np.ones(1, np.bool_))
        assert np.array_equal(crowd.observe().state[2], alone.observe().state[0])


def reset(ziptie: ZiptieCutting, rig: ZiptieRig, goals: list[Start], longest_ticks: int) -> int:
    """Reset all lanes by the robot, which presses on nothing; how many periods that took."""
    rig.teleport = False
    skill = ziptie.reset_skill()
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
    done = np.zeros(rig.lanes, np.bool_)
    for tick in range(longest_ticks):
        lanes = np.flatnonzero(~done)
        if not len(lanes):
            return tick
        command = np.zeros((rig.lanes, len(ACTION)), np.float32)
        state = rig.observe().state[lanes]
        assert np.linalg.norm(state[:, force_of("right")], axis=1).max() < GENTLE_N
        command[lanes], done[lanes] = skill.step(state, lanes)
        rig.act(command, ~done)
    return longest_ticks


def test_the_robot_puts_the_cutter_back_and_finds_a_new_tail(ziptie: ZiptieCutting) -> None:
    rig = ziptie.rig(3, 4)
    roll_out(ziptie, rig, ziptie.clean_expert(), [ziptie.start("train", index, b"") for index in range(3)])
    assert all(rig.truth(lane).metrics["severed"] for lane in range(3))
    goals = [ziptie.start("train", 100 + lane, b"") for lane in range(3)]
    assert reset(ziptie, rig, goals, 300) < 200
    state = rig.observe().state
    assert all(ziptie.start_error(state[lane], goal)[1] for lane, goal in enumerate(goals))
    assert not any(rig.truth(lane).metrics["severed"] for lane in range(3))
    assert (state[:, -1] > 0.9).all(), "the clock starts at the start"


def test_the_robot_waits_for_a_cutter_that_is_still_falling(ziptie: ZiptieCutting) -> None:
    rig, goal = ziptie.rig(1, 6), ziptie.start("train", 0, b"")
    rig.place(0, goal)
    half = [np.cos(0.5) * np.cos(0.3), np.sin(0.5) * np.cos(0.3), np.cos(0.5) * np.sin(0.3), -np.sin(0.5) * np.sin(0.3)]
    rig.scene.qpos[0, 16:23] = [0.05, 0.2, 0.12, *half]
    assert reset(ziptie, rig, [goal], 900) < 900
    assert ziptie.start_error(rig.observe().state[0], goal)[1]


def test_the_robot_gives_up_gently_where_the_holder_keeps_it_from_the_cutter(ziptie: ZiptieCutting) -> None:
    rig, goal = ziptie.rig(1, 1), ziptie.start("train", 3, b"")
    rig.place(0, goal)
    rig.scene.qpos[0, 16:23] = [0.072, 0.244, 0.02, *quaternion_of(np.array([-np.pi / 2, 0.0, -2.72]))]
    assert reset(ziptie, rig, [goal], 300) < 300
    assert not ziptie.start_error(rig.observe().state[0], goal)[1]


@pytest.mark.slow
def test_the_robot_picks_up_a_cutter_that_lies_on_either_of_its_sides(ziptie: ZiptieCutting) -> None:
    rig = ziptie.rig(2, 6)
    goals = [ziptie.start("train", index, b"") for index in range(2)]
    for lane, (roll, pitch) in enumerate(((np.pi / 2, 0.0), (0.0, np.pi / 2))):
        rig.place(lane, goals[lane])
        half = [np.cos(roll / 2) * np.cos(pitch / 2), np.sin(roll / 2), np.sin(pitch / 2), 0.0]
        rig.scene.qpos[lane, 16:23] = [0.02, 0.28, 0.03, *half]
    rig.scene.step(None, 240)
    assert (rig.cutter()[:, 2] < 25.0).all()
    assert reset(ziptie, rig, goals, 900) < 900
    assert np.abs(rig.cutter()[:, :3] - 1e3 * SEAT_M).max() < 5.0


@pytest.mark.slow
def test_it_keeps_the_contract_of_tasks() -> None:
    report = check_made("ziptie_cutting", ZiptieCutting)
    assert report.conforms, [failure.line for failure in report.failures]
