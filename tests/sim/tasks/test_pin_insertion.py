"""Pin insertion: the experts, the verifier against the truth, the rim."""

from __future__ import annotations

import numpy as np
import pytest

from enpire.interfaces import Evidence, Policy
from enpire.types import EpisodeArrays, FloatArray, IntArray, Observation, Start
from sim.rollouts import GradedRollout, roll_out
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.pin_insertion_blind import PinInsertionBlind
from sim.tasks.pin_rig import FORCE, TIP, PinRig

SECRET = b"a secret of the tests"


def rolled(pin: PinInsertion, expert: Policy, count: int) -> list[GradedRollout]:
    """`count` rollouts from hidden starts, on one rig."""
    starts = [pin.start("holdout", index, SECRET) for index in range(count)]
    return roll_out(pin, pin.rig(count, 11), expert, starts)


def test_the_clean_expert_seats_nearly_every_pin_in_a_third_of_the_time(pin: PinInsertion) -> None:
    tries = rolled(pin, pin.clean_expert(), 60)
    assert sum(item.truth.success for item in tries) >= 54
    assert np.mean([item.ticks for item in tries]) < 0.45 * pin.spec.limit_ticks


def test_the_verifier_agrees_with_the_truth(pin: PinInsertion) -> None:
    tries = rolled(pin, pin.expert(0), 150) + rolled(pin, pin.clean_expert(), 50)
    truth = np.array([item.truth.success for item in tries])
    said = np.array([item.verdict.kind == "success" for item in tries])
    assert 20 < truth.sum() < 200, "the demonstrations must hold both kinds"
    assert (said & truth).sum() / said.sum() >= 0.98
    assert (said & truth).sum() / truth.sum() >= 0.98


def test_demonstrations_vary_and_hang_on_the_seed_alone(pin: PinInsertion) -> None:
    first, second = rolled(pin, pin.expert(0), 6), rolled(pin, pin.expert(0), 6)
    for one, two in zip(first, second, strict=True):
        assert np.array_equal(one.arrays.state, two.arrays.state)
    other = rolled(pin, pin.expert(1), 6)
    assert not np.array_equal(first[0].arrays.action[:20], other[0].arrays.action[:20])
    pace = [np.abs(item.arrays.action[:40]).mean() for item in first]
    assert np.std(pace) > 0.1 * np.mean(pace)


def test_a_pin_pressed_on_the_rim_jams_and_comes_free_when_lifted(pin: PinInsertion) -> None:
    rig = pin.rig(1, 0)
    rig.place(0, Start(split="train", index=0, values=(1.2, 0.0, 0.4, 0.0, 0.0), seed=3))
    state = press(rig, (-4.0, 0.0, -12.0), 45)
    assert state[TIP][2] > -1.0, "a pin that is not centred must not slip in"
    assert state[TIP][0] > 0.4
    assert state[FORCE][2] > 1.0
    state = press(rig, (0.0, 0.0, 10.0), 10)
    state = press(rig, (-9.0, 0.0, 0.0), 4)
    assert abs(state[TIP][0]) < 1.2
    assert state[FORCE][2] < 0.5


def press(rig: PinRig, command: tuple[float, float, float], ticks: int) -> np.ndarray:
    """Hold one command; the state afterwards."""
    for _ in range(ticks):
        rig.act(np.array([command], dtype=np.float32), np.ones(1, dtype=np.bool_))
    return rig.observe().state[0]


class Plunge:
    """A policy that goes down at once and centres on the way."""

    horizon = execute = 1

    def begin(self, lane: int, seed: int) -> None:
        """It has no memory."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Straight down, a little towards the middle."""
        tip = observation.state[:, TIP]
        command = np.stack([-3.0 * tip[:, 0], -3.0 * tip[:, 1], np.full(len(tip), -15.0)], axis=1)
        return command[:, None].astype(np.float32)


def test_a_careless_policy_jams_on_the_rim(pin: PinInsertion) -> None:
    careless = rolled(pin, Plunge(), 40)
    assert sum(item.truth.success for item in careless) <= 20
    stuck = [item for item in careless if not item.truth.success]
    assert np.median([item.arrays.state[-1, 2] for item in stuck]) > -1.0


class Beside(Plunge):
    """A policy that goes aside as far as it can, and then down."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Along x first."""
        out = observation.state[:, TIP][:, 0] < 24.0
        command = np.stack([np.where(out, 20.0, 0.0), np.zeros(len(out)), np.where(out, 0.0, -20.0)], axis=1)
        return command[:, None].astype(np.float32)


@pytest.mark.parametrize("task", [PinInsertion(), PinInsertionBlind()])
def test_a_pin_put_down_beside_the_hole_is_not_inserted(task: PinInsertion) -> None:
    for item in rolled(task, Beside(), 8):
        assert not item.truth.success
        assert item.verdict.kind == "failure"
        assert item.arrays.state[-1, 2] > -1.0, "the board is there, however far a tip goes"
    seated = rolled(task, task.clean_expert(), 4)[0].arrays
    aside = seated.state.copy()
    aside[:, 0] += 10.0
    assert task.verifier().judge(Evidence(arrays=seated, images={})).kind == "success"
    assert task.verifier().judge(Evidence(arrays=replaced(seated, aside), images={})).kind == "failure"
    pressed = aside[-1:]
    assert not task.verifier().finished(pressed, np.array([100])).any()


def test_a_hard_knock_is_unsafe_and_a_hovering_pin_a_failure(pin: PinInsertion) -> None:
    tries = rolled(pin, pin.clean_expert(), 1)[0].arrays
    knocked = tries.state.copy()
    knocked[5, FORCE] = (0.0, 0.0, 22.0)
    judge = pin.verifier().judge
    assert judge(Evidence(arrays=replaced(tries, knocked), images={})).kind == "unsafe"
    assert judge(Evidence(arrays=replaced(tries, tries.state[:10]), images={})).kind == "failure"
    assert judge(Evidence(arrays=tries, images={})).kind == "success"


def replaced(arrays: EpisodeArrays, state: np.ndarray) -> EpisodeArrays:
    """The same rollout with other sensor values."""
    return EpisodeArrays(state=state, action=arrays.action[: len(state) - 1], source=arrays.source, chunk=arrays.chunk)


def test_the_robot_pulls_a_seated_pin_out_and_takes_the_next_one(pin: PinInsertion) -> None:
    rig, skill = pin.rig(8, 4), pin.reset_skill()
    seated = roll_out(pin, rig, pin.clean_expert(), [pin.start("train", index, b"") for index in range(8)])
    assert all(item.truth.success for item in seated)
    rig.teleport = False
    goals = [pin.start("train", 100 + lane, b"") for lane in range(8)]
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
    done = np.zeros(8, dtype=np.bool_)
    for _ in range(300):
        lanes = np.flatnonzero(~done)
        if not len(lanes):
            break
        command = np.zeros((8, 3), dtype=np.float32)
        command[lanes], done[lanes] = skill.step(rig.observe().state[lanes], lanes)
        rig.act(command, ~done)
    state = rig.observe().state
    assert all(pin.start_error(state[lane], goal)[1] for lane, goal in enumerate(goals))
