"""Fragile insertion: haste breaks pins, a break ends the episode, and the robot replaces what it broke."""

from __future__ import annotations

import numpy as np
import pytest

from enpire.interfaces import Evidence, Policy
from enpire.types import EpisodeArrays, FloatArray, Start
from sim.rollouts import GradedRollout, roll_out
from sim.tasks.fragile_insertion import FragileInsertion
from sim.tasks.fragile_rig import BREAKS_N, LENGTH, LOST_MM, PIN_MM, FragilePinRig
from sim.tasks.pin_rig import FORCE, TIP
from tests.sim.tasks.test_pin_insertion import Plunge

SECRET = b"a secret of the tests"
RIM = Start(split="train", index=0, values=(1.2, 0.0, 0.4, 0.0, 0.0), seed=3)
"""Aside of the hole, just above the rim."""
FRAGILE = FragileInsertion()


def rolled(expert: Policy, count: int) -> list[GradedRollout]:
    """`count` rollouts from hidden starts, on one rig."""
    starts = [FRAGILE.start("holdout", index, SECRET) for index in range(count)]
    return roll_out(FRAGILE, FRAGILE.rig(count, 11), expert, starts)


def broken(item: GradedRollout) -> bool:
    """By ground truth."""
    return item.truth.metrics["broken"] > 0.0


def press(rig: FragilePinRig, down_mm_s: float, ticks: int) -> FloatArray:
    """Command the same speed downwards in every lane; the states of lane 0, (ticks, state_dim)."""
    states: list[FloatArray] = []
    command = np.tile(np.array([0.0, 0.0, -down_mm_s], np.float32), (rig.lanes, 1))
    for _ in range(ticks):
        rig.act(command, np.ones(rig.lanes, np.bool_))
        states.append(rig.observe().state[0])
    return np.stack(states)


def test_the_clean_expert_breaks_no_pin_and_a_hurried_one_breaks_many() -> None:
    careful, hurried = rolled(FRAGILE.clean_expert(), 60), rolled(Plunge(), 40)
    assert sum(item.truth.success for item in careful) >= 59
    assert sum(broken(item) for item in hurried) >= 18


def test_a_break_ends_the_episode_at_once_as_a_failure() -> None:
    tries = rolled(FRAGILE.expert(0), 100)
    breaks = [item for item in tries if broken(item)]
    assert 15 <= len(breaks) <= 65
    for item in breaks:
        assert not item.truth.success
        assert item.verdict.kind == "failure"
        assert item.verdict.reason == "The pin is broken."
        assert item.ticks < FRAGILE.spec.limit_ticks
        short = item.arrays.state[:, LENGTH] < PIN_MM - 0.5 * LOST_MM
        assert short.tolist() == [False] * item.ticks + [True], "it ends in the first period that shows the break"
    failed = [item for item in tries if not item.truth.success]
    assert len(breaks) >= 0.8 * len(failed), "failures are breaks, not the clock"


def test_the_verifier_agrees_with_the_truth() -> None:
    tries = rolled(FRAGILE.expert(0), 120) + rolled(FRAGILE.clean_expert(), 40) + rolled(Plunge(), 40)
    truth = np.array([item.truth.success for item in tries])
    called = np.array([item.verdict.kind == "success" for item in tries])
    assert (called & truth).sum() / called.sum() >= 0.99
    assert (called & truth).sum() / truth.sum() >= 0.99


def test_a_slow_press_on_the_rim_breaks_nothing_and_a_fast_one_breaks_for_good() -> None:
    rig = FRAGILE.rig(1, 0)
    rig.place(0, RIM)
    gentle = press(rig, 2.0, 60)
    assert gentle[-1, FORCE][2] > 0.3, "it is on the rim"
    assert np.abs(gentle[:, LENGTH] - PIN_MM).max() < 0.5
    assert not FRAGILE.verifier().finished(gentle, np.arange(60)).any()
    hard = press(rig, 6.0, 30)
    first = int(np.argmax(hard[:, LENGTH] < PIN_MM - 0.5 * LOST_MM))
    assert 0 < first < 25
    # The sensed force has noise of its own.
    assert np.linalg.norm(hard[first, FORCE]) == pytest.approx(BREAKS_N, abs=0.3)
    assert hard[first, TIP][2] - hard[first - 1, TIP][2] == pytest.approx(LOST_MM, abs=1.0)
    # What is left of the pin touches nothing, and going on cannot make it a success.
    after = press(rig, 12.0, 3)
    assert np.abs(after[-1, FORCE]).max() < 0.9
    assert press(rig, -12.0, 20)[-1, LENGTH] == pytest.approx(PIN_MM - LOST_MM, abs=0.5)
    assert FRAGILE.verifier().finished(after, np.full(3, 100)).all()
    assert not rig.truth(0).success


def test_a_broken_pin_in_the_middle_of_the_hole_is_no_success() -> None:
    seated = rolled(FRAGILE.clean_expert(), 1)[0].arrays
    short = seated.state.copy()
    short[-1, LENGTH] -= LOST_MM
    judge = FRAGILE.verifier().judge
    assert judge(Evidence(arrays=seated, images={})).kind == "success"
    replaced = EpisodeArrays(state=short, action=seated.action, source=seated.source, chunk=seated.chunk)
    assert judge(Evidence(arrays=replaced, images={})).kind == "failure"


def test_a_dead_camera_is_not_a_broken_pin() -> None:
    state = rolled(FRAGILE.clean_expert(), 1)[0].arrays.state[:4].copy()
    state[:, : TIP.stop + 2] = 0.0
    state[:, LENGTH] = 0.0
    assert not FRAGILE.verifier().finished(state, np.full(4, 50)).any()


def test_the_floor_breaks_no_pin_that_is_inserted() -> None:
    rig = FRAGILE.rig(1, 0)
    item = roll_out(FRAGILE, rig, FRAGILE.clean_expert(), [FRAGILE.start("train", 0, b"")])[0]
    assert item.truth.success
    pressed = press(rig, 15.0, 20)
    assert pressed[-1, FORCE][2] > BREAKS_N
    assert not rig.truth(0).metrics["broken"]


def test_a_break_is_part_of_a_snapshot() -> None:
    rig = FRAGILE.rig(2, 0)
    for lane in range(2):
        rig.place(lane, RIM)
    whole = rig.snapshot(0)
    press(rig, 12.0, 30)
    gone = rig.snapshot(0)
    assert rig.truth(0).metrics["broken"]
    rig.restore(0, whole)
    assert not rig.truth(0).metrics["broken"]
    again = press(rig, 12.0, 30)
    rig.restore(1, gone)
    assert np.array_equal(rig.observe().state[0], again[-1])
    assert rig.truth(1).metrics["broken"]
    rig.place(0, RIM)
    assert rig.observe().state[0, LENGTH] == pytest.approx(PIN_MM, abs=0.5)


def test_the_robot_takes_a_new_pin_after_a_break() -> None:
    rig, skill = FRAGILE.rig(8, 4), FRAGILE.reset_skill()
    roll_out(FRAGILE, rig, Plunge(), [FRAGILE.start("train", index, b"") for index in range(8)])
    was_broken = [bool(rig.truth(lane).metrics["broken"]) for lane in range(8)]
    assert sum(was_broken) >= 3
    before = rig.observe().state
    rig.teleport = False
    goals = [FRAGILE.start("train", 100 + lane, b"") for lane in range(8)]
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
        assert not (was_broken[lane] and FRAGILE.start_error(before[lane], goal)[1])
    done = np.zeros(8, dtype=np.bool_)
    for _ in range(300):
        lanes = np.flatnonzero(~done)
        if not len(lanes):
            break
        command = np.zeros((8, 3), dtype=np.float32)
        command[lanes], done[lanes] = skill.step(rig.observe().state[lanes], lanes)
        rig.act(command, ~done)
    state = rig.observe().state
    assert all(FRAGILE.start_error(state[lane], goal)[1] for lane, goal in enumerate(goals))
    assert not any(rig.truth(lane).metrics["broken"] for lane in range(8))
