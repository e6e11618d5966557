"""p_v against the truth of branch rollouts: a head that knows passes, one that guesses fails."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.improvement_viability import Foreseen, Looks, agreement, claims
from enpire.types import FloatArray, IntArray, Observation
from robot_drivers.mujoco_robot import open_rig
from tests.sim.task_check.reach import Reach
from tests.sim.test_operator import Stalls

TASK = Reach()


class Knows(Stalls):
    def viability(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return np.where(observation.state[:, 0] > self.line_m, 0.02, 0.98).astype(np.float32)


def test_branches_say_from_where_the_policy_succeeds() -> None:
    looks = Looks(TASK, open_rig(TASK, 4, 3, {}), 3, Knows())
    looks.run(Stalls(), [TASK.start("train", index, b"") for index in range(8)])
    said, truth = np.array(looks.said), np.array(looks.truth)
    assert len(said) == len(truth) > 16
    assert {0.0, 1.0} <= set(truth)
    rank, error = agreement(said, truth)
    assert rank > 0.8
    assert error < 0.1
    assert agreement(1 - said, truth)[0] < -0.8


def test_a_claim_passes_fails_or_says_that_it_is_too_few() -> None:
    random = np.random.default_rng(0)
    truth = random.uniform(0, 1, 400)
    near = (truth + random.normal(0, 0.05, 400)).clip(0, 1)

    def said(values: np.ndarray, count: int = 400) -> str:
        found = Foreseen(seed=0, round=1, said=values[:count].tolist(), truth=truth[:count].tolist())
        return claims([found])[0].strip()

    assert said(near).startswith("pass")
    assert said(near * 0.5).startswith("FAIL")
    assert said(random.permutation(near)).startswith("FAIL")
    assert said(near, 50).startswith("too few")
    assert said(np.full(400, truth.mean())).startswith("FAIL")
    assert claims([])[0].strip().startswith("not run")


def test_the_calibration_error_is_the_mean_gap_of_the_bins() -> None:
    said, truth = np.array([0.05, 0.05, 0.95, 0.95]), np.array([0.0, 0.5, 1.0, 1.0])
    assert agreement(said, truth)[1] == pytest.approx(0.5 * 0.2 + 0.5 * 0.05)
