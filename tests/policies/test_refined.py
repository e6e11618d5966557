"""Refining changes the chunks of a frozen flow policy where that succeeds more often, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enpire.errors import FileProblem, LearningProblem, PolicyProblem
from enpire.interfaces import ImprovementJob
from enpire.store.versions import manifest
from enpire.types import SOURCE_HUMAN, FloatArray, Observation
from policies import flow_policy, refined
from policies.clone import Clone
from policies.refining_learner import RefiningSettings, Rlt
from policies.training_data import RecordedEpisode
from tests.policies.interrupted import resumes_to_the_same_bytes
from tests.policies.recorded import write
from tests.policies.test_steered import LANES, at_a_fork

RL: dict[str, object] = {"batch": 64, "hidden": 32, "least_steps": 400, "most_steps": 400}


def short_of_it(seed: int, *, expert: bool) -> RecordedEpisode:
    """Steps of 0.3 to 0.7; an episode succeeds if their mean is above 0.5."""
    made = at_a_fork(seed, right=True, expert=expert)
    action = made.arrays.action.copy()
    action[:, 0] += np.random.default_rng((seed, 5)).uniform(-0.2, 0.2)
    good = expert or float(action[:, 0].mean()) > 0.5
    return replace(made, success=good, arrays=replace(made.arrays, action=action))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> ImprovementJob:
    """A base that takes steps of every size, and its own rollouts."""
    root = tmp_path_factory.mktemp("steps")
    shown = [write(root / "e", short_of_it(seed, expert=True)) for seed in range(40)]
    own = [write(root / "e", short_of_it(seed, expert=False)) for seed in range(100, 160)]
    sizes = {"hidden": 64, "depth": 2, "frequencies": 1, "batch": 128, "least_steps": 400, "most_steps": 400}
    base = ImprovementJob(
        recipe={"name": "base", "learner": "clone", "settings": sizes}, task="point", parent=None, episodes=shown,
        work=root / "w0", output=root / "base", round=0, seed=1,
    )  # fmt: skip
    Clone().improve(base, lambda _: None)
    return replace(base, parent=base.output, episodes=own, round=1)


def job_of(first: ImprovementJob, root: Path, **settings: object) -> ImprovementJob:
    recipe = {"name": "test", "learner": "rlt", "settings": RL | settings}
    return replace(first, recipe=recipe, work=root / "work", output=root / "out")


def states() -> Observation:
    state = np.zeros((len(LANES), 3), np.float32)
    state[:, 1:] = np.linspace(-0.3, 0.3, len(LANES))[:, None] * [1, 0] + [0, 1]
    return Observation(stamp_ns=0, state=state)


def chunks(policy: Any) -> FloatArray:
    for lane in LANES:
        policy.begin(int(lane), seed=1000 + int(lane))
    return policy.act(states(), LANES)


def success(policy: Any) -> float:
    """Share of episodes of two decisions that succeed."""
    for lane in LANES:
        policy.begin(int(lane), seed=1000 + int(lane))
    state, sent = states().state.copy(), []
    for _ in range(2):
        sent.append(policy.act(Observation(stamp_ns=0, state=state), LANES)[:, :4])
        state = state + np.column_stack([sent[-1].sum(axis=1), np.full(len(LANES), -0.5, np.float32)])
    return float((np.concatenate(sent, axis=1)[:, :, 0].mean(axis=1) > 0.5).mean())


def test_the_refined_policy_succeeds_more_often_and_the_frozen_weights_stay(
    first: ImprovementJob, tmp_path: Path
) -> None:
    assert first.parent is not None
    base = flow_policy.load(first.parent)
    assert 0.25 < success(base) < 0.75
    job = job_of(first, tmp_path)
    metrics = Rlt().improve(job, lambda _: None)
    assert manifest(job.output)["kind"] == "refined"
    policy = refined.load(job.output)
    assert success(policy) >= 0.85
    assert metrics["value_gain"] > 0.1
    assert metrics["steps"] == 400
    one, kept = flow_policy.read(first.parent), flow_policy.read(job.output)
    assert set(one.weights) == set(kept.weights)
    assert all(np.array_equal(one.weights[name], kept.weights[name]) for name in one.weights)
    # What has no part in the outcome stays near the reference, and what is not sent is the reference.
    sent, reference = chunks(policy), chunks(base)
    assert np.abs(sent[:, :4, 1] - reference[:, :4, 1]).mean() < 0.05
    np.testing.assert_array_equal(sent[:, 4:], reference[:, 4:])
    # A next round continues the network; another learner takes the flow policy in it.
    child = replace(job_of(first, tmp_path / "c", least_steps=5, most_steps=5), parent=job.output)
    Rlt().improve(child, lambda _: None)
    assert success(refined.load(child.output)) >= 0.75


def test_a_strong_anchor_keeps_the_frozen_policy(first: ImprovementJob, tmp_path: Path) -> None:
    assert first.parent is not None
    job = job_of(first, tmp_path, anchor=1000.0, spread=0.0, least_steps=100, most_steps=100)
    Rlt().improve(job, lambda _: None)
    sent, reference = chunks(refined.load(job.output)), chunks(flow_policy.load(first.parent))
    np.testing.assert_allclose(sent, reference, atol=0.02)


def test_where_a_person_commanded_the_actor_stays_near_the_person(first: ImprovementJob, tmp_path: Path) -> None:
    """People step 0.2 to the side, with no effect on the outcome."""

    def helped(seed: int) -> RecordedEpisode:
        made = short_of_it(seed, expert=False)
        action = made.arrays.action.copy()
        action[:, 1] += 0.2
        source = np.full(len(action), SOURCE_HUMAN, np.uint8)
        return replace(made, success=True, arrays=replace(made.arrays, action=action, source=source))

    episodes = [write(tmp_path / "e", helped(seed)) for seed in range(300, 340)]
    job = replace(job_of(first, tmp_path, anchor=5.0), episodes=episodes)
    Rlt().improve(job, lambda _: None)
    assert chunks(refined.load(job.output))[:, :4, 1].mean() == pytest.approx(0.2, abs=0.05)


def test_an_interrupted_run_ends_with_the_same_bytes(
    first: ImprovementJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, twin = (job_of(first, tmp_path / name, least_steps=60, most_steps=60) for name in "ab")
    resumes_to_the_same_bytes(Rlt(), one, twin, monkeypatch)


def test_a_lane_gets_the_same_chunk_alone(first: ImprovementJob, tmp_path: Path) -> None:
    job = job_of(first, tmp_path, least_steps=5, most_steps=5)
    Rlt().improve(job, lambda _: None)
    policy = refined.load(job.output)
    together = chunks(policy)
    policy.begin(7, seed=1007)
    alone = policy.act(Observation(stamp_ns=0, state=states().state[7:8]), LANES[7:8])
    np.testing.assert_array_equal(alone[0], together[7])
    assert policy.act(Observation(stamp_ns=0, state=np.zeros((0, 3), np.float32)), LANES[:0]).shape == (0, 8, 2)


def test_what_does_not_fit_is_refused(first: ImprovementJob, tmp_path: Path) -> None:
    with pytest.raises(LearningProblem, match="clone a base first"):
        Rlt().improve(replace(job_of(first, tmp_path), parent=None), lambda _: None)
    lost = [write(tmp_path / "e", at_a_fork(seed, right=False, expert=False)) for seed in (900, 902)]
    with pytest.raises(LearningProblem, match="No decision has a reward"):
        Rlt().improve(replace(job_of(first, tmp_path), episodes=lost), lambda _: None)
    with pytest.raises(ValueError, match="spread"):
        RefiningSettings(spread=1.5)
    job = job_of(first, tmp_path, least_steps=5, most_steps=5)
    Rlt().improve(job, lambda _: None)
    policy = refined.load(job.output)
    with pytest.raises(PolicyProblem, match="before its episode began"):
        policy.act(Observation(stamp_ns=0, state=np.zeros((1, 3), np.float32)), LANES[:1])
    with pytest.raises(PolicyProblem, match="got a state of shape"):
        policy.act(Observation(stamp_ns=0, state=np.zeros((1, 4), np.float32)), LANES[:1])
    text = (job.output / "policy.json").read_text()
    (job.output / "policy.json").write_text(text.replace('"spread": 0.05', '"spread": -1.0'))
    with pytest.raises((PolicyProblem, FileProblem), match="spread is -1"):
        refined.load(job.output)
