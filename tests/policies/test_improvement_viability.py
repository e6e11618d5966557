"""p_v against the truth of branch rollouts: a head that knows passes, one that guesses fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.improvement_viability import ViabilityProbe, ViabilitySample, agreement, claims
from benchmarks.rollouts import keep
from benchmarks.supervised import SupervisedLoop
from enpire.store.episodes import FolderStore
from enpire.types import SOURCE_HUMAN, FloatArray, IntArray, Observation
from policies.training_data import read_episodes
from robot_drivers.mujoco_robot import open_rig
from tests.sim.task_check.reach import Reach
from tests.sim.test_operator import Stalls

TASK = Reach()


class Knows(Stalls):
    def viability(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return np.where(observation.state[:, 0] > self.line_m, 0.02, 0.98).astype(np.float32)


def test_branches_say_from_where_the_policy_succeeds() -> None:
    probe = ViabilityProbe(TASK, open_rig(TASK, 4, 3, {}), 3, Knows())
    probe.run(Stalls(), [TASK.start("train", index, b"") for index in range(8)])
    predicted, measured = np.array(probe.predicted), np.array(probe.measured)
    assert len(predicted) == len(measured) > 16
    assert {0.0, 1.0} <= set(measured)
    rank, error = agreement(predicted, measured)
    assert rank > 0.8
    assert error < 0.1
    assert agreement(1 - predicted, measured)[0] < -0.8


def test_a_benchmark_keeps_which_episodes_an_operator_was_allowed_to_take_over(tmp_path: Path) -> None:
    loop = SupervisedLoop(TASK, open_rig(TASK, 4, 3, {}), 3, 0.5)
    rollouts = loop.run(Stalls(), [TASK.start("train", index, b"") for index in range(12)])
    assert 0 < sum(item.supervised for item in rollouts) < 12
    touched = [bool((item.arrays.source == SOURCE_HUMAN).any()) for item in rollouts]
    assert all(item.supervised for item, was in zip(rollouts, touched, strict=True) if was)
    kept = read_episodes(keep(FolderStore(tmp_path), rollouts, "p", 1, "c"))
    assert [item.supervised for item in kept] == [item.supervised for item in rollouts]


def test_a_claim_passes_fails_or_says_that_it_is_too_few() -> None:
    random = np.random.default_rng(0)
    measured = random.uniform(0, 1, 400)
    near = (measured + random.normal(0, 0.05, 400)).clip(0, 1)

    def predicted(values: np.ndarray, count: int = 400, seeds: int = 5) -> str:
        rows = [range(seed, count, seeds) for seed in range(seeds)]
        found = [
            ViabilitySample(seed=seed, round=1, predicted=values[row].tolist(), measured=measured[row].tolist())
            for seed, row in enumerate(rows)
        ]
        return claims(found)[0].strip()

    assert predicted(near).startswith("pass")
    assert predicted(near * 0.5).startswith("FAIL")
    assert predicted(random.permutation(near)).startswith("FAIL")
    assert predicted(near, 50).startswith("too few")
    assert predicted(near, seeds=4).startswith("too few")
    assert "Spearman 0.98 [0.98, 0.99]" in predicted(near)
    assert predicted(np.full(400, measured.mean())).startswith("FAIL")
    assert claims([])[0].strip().startswith("not run")


def test_the_calibration_error_is_the_mean_gap_of_the_bins() -> None:
    predicted, measured = np.array([0.05, 0.05, 0.95, 0.95]), np.array([0.0, 0.5, 1.0, 1.0])
    assert agreement(predicted, measured)[1] == pytest.approx(0.5 * 0.2 + 0.5 * 0.05)
