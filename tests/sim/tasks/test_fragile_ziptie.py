"""Fragile zip-tie cutting: the first cut decides, a wrong one ends the episode, and the feeder brings a whole tail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from enpire.interfaces import Evidence
from sim.bimanual.arm_goals import Hands
from sim.bimanual.demonstrator import CLEAN
from sim.bimanual.rig import commands_of
from sim.rollouts import GradedRollout, roll_out
from sim.tasks.fragile_ziptie import FragileZiptie
from sim.tasks.fragile_ziptie_rig import MARK_MM, ON_CUTTER, ON_MARK, STUB, WHOLE_MM, WITHIN_MM
from sim.tasks.ziptie_expert import ZiptieExpert, half_turned, read_cutter_state

FRAGILE = FragileZiptie()
HASTY = replace(CLEAN, slack=(4.0, 5.0), aim_m=0.004)
"""An expert that bites before the blades are over the mark."""


def rolled(expert: ZiptieExpert, count: int) -> list[GradedRollout]:
    """`count` rollouts from train starts, on one rig."""
    rig = FRAGILE.rig(count, 5)
    return roll_out(FRAGILE, rig, expert, [FRAGILE.start("train", index, b"") for index in range(count)])


@pytest.fixture(scope="module")
def hasty() -> list[GradedRollout]:
    """Rollouts of the hasty expert."""
    return rolled(ZiptieExpert(FRAGILE.spec, 0, HASTY), 12)


def test_a_careful_cut_is_at_the_mark() -> None:
    tries = rolled(FRAGILE.clean_expert(), 8)
    assert all(item.truth.success and item.verdict.kind == "success" for item in tries)
    for item in tries:
        assert item.arrays.state[0, STUB] == pytest.approx(WHOLE_MM, abs=1.0)
        assert item.arrays.state[-1, STUB] == pytest.approx(MARK_MM, abs=WITHIN_MM)


def test_in_demonstrations_the_left_arm_rests_and_the_gripper_is_slow() -> None:
    for item in rolled(FRAGILE.expert(0), 2):
        assert not item.arrays.action[:, commands_of("left")].any()
        assert np.abs(item.arrays.action[:, commands_of("right").stop]).max() <= 20.0
        assert item.arrays.action[:, commands_of("right")].any()


def test_relative_positions_say_what_the_expert_decides_by() -> None:
    item = rolled(FRAGILE.clean_expert(), 1)[0]
    state = item.arrays.state.astype(np.float64)
    hands = Hands(state)
    for tick in range(0, item.ticks, 10):
        scene = read_cutter_state(state[tick])
        hand = hands.of(tick, "right")
        assert state[tick, ON_CUTTER] == pytest.approx(1e3 * (hand.at_m - scene.cutter_m), abs=0.01)
        assert state[tick, ON_MARK][:3] == pytest.approx(1e3 * scene.off(), abs=0.01)
        turned = half_turned(float(scene.turned[2]) - scene.tail_yaw)
        assert state[tick, ON_MARK.stop - 1] == pytest.approx(turned, abs=1e-4)
    cut = int(np.argmax(state[:, STUB] < 0.9 * WHOLE_MM))
    assert np.abs(state[cut, ON_MARK][:2]).max() < WITHIN_MM
    names = [bound.name for bound in FRAGILE.spec.state]
    assert names[ON_CUTTER.start].startswith("gripper_on_cutter")
    assert names[ON_MARK.start].startswith("cutter_on_mark")
    assert len(names) == ON_MARK.stop + 1
    assert names[-1] == "time_left"


def test_a_wrong_cut_ends_the_episode_at_once_as_a_failure(hasty: list[GradedRollout]) -> None:
    wrong = [item for item in hasty if item.truth.metrics["severed"] and item.truth.metrics["off_mark_mm"] > WITHIN_MM]
    assert 3 <= len(wrong) <= 11
    for item in wrong:
        assert not item.truth.success
        assert item.verdict.kind == "failure"
        assert "off its mark" in item.verdict.reason
    early = [item for item in wrong if item.truth.metrics["off_mark_mm"] > WITHIN_MM + 1.5]
    assert early
    for item in early:
        cut = item.arrays.state[:, STUB] < 0.9 * WHOLE_MM
        assert cut.tolist() == [False] * item.ticks + [True], "it ends in the first period after the cut"


def test_the_verifier_needs_the_gauge(hasty: list[GradedRollout]) -> None:
    good = next(item for item in hasty if item.truth.success)
    state = good.arrays.state.copy()
    state[state[:, STUB] < 40.0, STUB] += 2.0 * WITHIN_MM
    moved = Evidence(arrays=replace(good.arrays, state=state), images=good.images)
    judge = FRAGILE.verifier().judge
    assert judge(Evidence(arrays=good.arrays, images=good.images)).kind == "success"
    assert judge(moved).kind == "failure"
    # A gauge that failed gives zeros, which end nothing and change no verdict.
    state[:, STUB] = 0.0
    assert not FRAGILE.verifier().finished(state[:5], np.full(5, 100)).any()
    assert judge(moved).kind == "success"


def test_the_feeder_presents_a_whole_tail_after_a_wrong_cut() -> None:
    rig, skill = FRAGILE.rig(2, 5), FRAGILE.reset_skill()
    expert = ZiptieExpert(FRAGILE.spec, 0, HASTY)
    roll_out(FRAGILE, rig, expert, [FRAGILE.start("train", index, b"") for index in range(2)])
    assert (rig.observe().state[:, STUB] < 40.0).all()
    snapshot = rig.snapshot(0)
    rig.teleport = False
    goals = [FRAGILE.start("train", 50 + lane, b"") for lane in range(2)]
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
    done = np.zeros(2, np.bool_)
    for _ in range(900):
        if done.all():
            break
        lanes = np.flatnonzero(~done)
        command = np.zeros((2, FRAGILE.spec.action_dim), np.float32)
        command[lanes], done[lanes] = skill.step(rig.observe().state[lanes], lanes)
        rig.act(command, ~done)
    state = rig.observe().state
    assert all(FRAGILE.start_error(state[lane], goal)[1] for lane, goal in enumerate(goals))
    assert state[:, STUB] == pytest.approx(WHOLE_MM, abs=1.0)
    rig.restore(0, snapshot)
    assert rig.observe().state[0, STUB] < 40.0, "the stub is part of a snapshot"
