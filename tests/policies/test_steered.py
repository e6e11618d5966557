"""Steering picks, of what a frozen flow policy can do, what succeeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enpire.errors import FileProblem, LearningProblem, PolicyProblem
from enpire.interfaces import ImprovementJob
from enpire.store.versions import manifest
from enpire.types import SOURCE_EXPERT, SOURCE_POLICY, EpisodeArrays, Observation
from policies import flow_policy, steered
from policies.clone import Clone
from policies.flow_network import FlowNetwork
from policies.replay import replay_of
from policies.steered_learner import Dsrl, NoiseActorCritic, SteeringBatches, SteeringSettings
from policies.training_data import RecordedEpisode
from tests.policies.interrupted import resumes_to_the_same_bytes
from tests.policies.recorded import write

RL: dict[str, object] = {"batch": 64, "hidden": 32, "least_steps": 400, "most_steps": 400}
LANES = np.arange(64, dtype=np.int64)


def at_a_fork(seed: int, *, right: bool, expert: bool) -> RecordedEpisode:
    """A point that leaves the middle to the right or to the left; only the right side is a success."""
    random = np.random.default_rng(seed)
    x, y, ticks = random.normal(0, 0.02), random.normal(0, 0.3), 8
    states, actions = [[x, y, 1.0]], []
    for tick in range(ticks):
        actions.append([(0.5 if right else -0.5) + random.normal(0, 0.02), random.normal(0, 0.05)])
        x += actions[-1][0]
        states.append([x, y, 1 - (tick + 1) / ticks])
    arrays = EpisodeArrays(
        state=np.asarray(states, np.float32), action=np.asarray(actions, np.float32),
        source=np.full(ticks, SOURCE_EXPERT if expert else SOURCE_POLICY, np.uint8),
        chunk=(np.arange(ticks) // 4).astype(np.int32),
    )  # fmt: skip
    return RecordedEpisode(
        order_id=f"f{seed}", round=0 if expert else 1, success=right or expert, supervised=False, arrays=arrays
    )


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> ImprovementJob:
    """A base that goes to both sides, and its own rollouts."""
    root = tmp_path_factory.mktemp("fork")
    shown = [write(root / "e", at_a_fork(seed, right=seed % 2 == 0, expert=True)) for seed in range(40)]
    own = [write(root / "e", at_a_fork(seed, right=seed % 2 == 0, expert=False)) for seed in range(100, 140)]
    sizes = {"hidden": 64, "depth": 2, "frequencies": 1, "batch": 128, "least_steps": 600, "most_steps": 600}
    base = ImprovementJob(
        recipe={"name": "base", "learner": "clone", "settings": sizes}, task="point", parent=None, episodes=shown,
        work=root / "w0", output=root / "base", round=0, seed=1,
    )  # fmt: skip
    Clone().improve(base, lambda _: None)
    return replace(base, parent=base.output, episodes=own, round=1)


def job_of(fork: ImprovementJob, root: Path, **settings: object) -> ImprovementJob:
    recipe = {"name": "test", "learner": "dsrl", "settings": RL | settings}
    return replace(fork, recipe=recipe, work=root / "work", output=root / "out")


def share_right(policy: Any) -> float:
    state = np.zeros((len(LANES), 3), np.float32)
    state[:, 1:] = np.linspace(-0.3, 0.3, len(LANES))[:, None] * [1, 0] + [0, 1]
    for lane in LANES:
        policy.begin(int(lane), seed=1000 + int(lane))
    return float((policy.act(Observation(stamp_ns=0, state=state), LANES)[:, :4, 0].sum(axis=1) > 0).mean())


@pytest.mark.slow
def test_the_actor_finds_the_noise_of_the_side_that_succeeds(fork: ImprovementJob, tmp_path: Path) -> None:
    assert fork.parent is not None
    assert 0.25 < share_right(flow_policy.load(fork.parent)) < 0.75
    job = job_of(fork, tmp_path)
    metrics = Dsrl().improve(job, lambda _: None)
    assert manifest(job.output)["kind"] == "steered"
    assert share_right(steered.load(job.output)) >= 0.95
    assert metrics["value_gain"] > 0.1
    assert (metrics["rewarded"], metrics["steps"]) == (20, 400)
    base, kept = flow_policy.read(fork.parent), flow_policy.read(job.output)
    assert all(np.array_equal(base.weights[name], kept.weights[name]) for name in base.weights)
    # Another learner takes the version as the flow policy that it holds; this one continues its noise network.
    child = replace(job_of(fork, tmp_path / "c"), parent=job.output)
    Dsrl().improve(child, lambda _: None)
    assert (child.output / "weights.safetensors").read_bytes() != (job.output / "weights.safetensors").read_bytes()
    assert share_right(steered.load(child.output)) >= 0.95


def test_an_interrupted_run_ends_with_the_same_bytes(
    fork: ImprovementJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, twin = (job_of(fork, tmp_path / name, least_steps=60, most_steps=60) for name in "ab")
    resumes_to_the_same_bytes(Dsrl(), one, twin, monkeypatch)


def test_the_learner_sees_the_actions_that_the_station_sends(fork: ImprovementJob) -> None:
    import torch

    assert fork.parent is not None
    version = flow_policy.read(fork.parent)
    replay = replay_of([at_a_fork(100, right=True, expert=False)], version.shape.execute)
    settings = SteeringSettings()
    networks = NoiseActorCritic(version, SteeringBatches(version, replay, settings), settings, 0)
    draw = np.random.default_rng(0)
    state = draw.normal(size=(9, 3)).astype(np.float32)
    noise = draw.normal(size=(9, version.shape.chunk_dim)).astype(np.float32)
    from policies.normalise import fourier

    features = fourier(version.state.forward(state), version.shape.frequencies)
    sent = networks._act(torch.from_numpy(features), torch.from_numpy(noise)).numpy()
    station = flow_policy.FlowPolicy(version).integrate(state, noise * np.float32(version.temperature))
    np.testing.assert_allclose(sent, station[:, : sent.shape[1]], atol=1e-4)
    assert isinstance(networks._flow, FlowNetwork)


def test_what_does_not_fit_is_refused(fork: ImprovementJob, tmp_path: Path) -> None:
    with pytest.raises(LearningProblem, match="clone a base first"):
        Dsrl().improve(replace(job_of(fork, tmp_path), parent=None), lambda _: None)
    lost = [write(tmp_path / "e", at_a_fork(seed, right=False, expert=False)) for seed in (900, 902)]
    with pytest.raises(LearningProblem, match="No decision has a reward"):
        Dsrl().improve(replace(job_of(fork, tmp_path), episodes=lost), lambda _: None)
    with pytest.raises(ValueError, match="reach must be in"):
        SteeringSettings(reach=11)
    job = job_of(fork, tmp_path, least_steps=5, most_steps=5)
    Dsrl().improve(job, lambda _: None)
    policy = steered.load(job.output)
    with pytest.raises(PolicyProblem, match="before its episode began"):
        policy.act(Observation(stamp_ns=0, state=np.zeros((1, 3), np.float32)), LANES[:1])
    with pytest.raises(PolicyProblem, match="got a state of shape"):
        policy.act(Observation(stamp_ns=0, state=np.zeros((1, 4), np.float32)), LANES[:1])
    text = (job.output / "policy.json").read_text()
    (job.output / "policy.json").write_text(text.replace('"reach": 2.0', '"reach": -1.0'))
    with pytest.raises((PolicyProblem, FileProblem), match="reach is -1"):
        steered.load(job.output)
