"""The rivals of HABC behind the same Protocol: corrections, Imit-Recap, best of N, sequences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import offline_rl
from enpire.campaign.recipe import read_recipe
from enpire.errors import FileProblem, LearningProblem, MissingExtra, PolicyProblem
from enpire.files import parse
from enpire.interfaces import ImprovementJob, Learner, Progress
from enpire.plugins import load
from enpire.store.versions import manifest
from enpire.types import SOURCE_HUMAN, SOURCE_POLICY, Observation
from policies import best_of_n, flow_policy, gaussian_policy, residual
from policies.clone import Clone
from policies.gaussian_policy import GaussianVersion
from policies.habc.segments import WindowSpec, cut
from policies.normalise import Scale
from policies.recap import RecapSettings, indicator, rewards, value_advantages
from policies.replay import replay_of
from policies.residual_learner import ResidualTd3
from policies.sequence import SequenceSettings
from policies.training_data import RecordedEpisode
from tests.policies.recorded import driven, episode, write

SIZES: dict[str, object] = {
    "hidden": 64, "depth": 2, "frequencies": 1, "batch": 64, "least_steps": 60, "most_steps": 60,
}  # fmt: skip


def helped(seed: int) -> RecordedEpisode:
    """An episode of the policy whose second half a person drove."""
    made = driven(seed, expert=False, round_=1)
    source = made.arrays.source.copy()
    source[len(source) // 2 :] = SOURCE_HUMAN
    return replace(made, supervised=True, arrays=replace(made.arrays, source=source))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> ImprovementJob:
    """A first round with demonstrations, the policy's own episodes, and some with a person's help."""
    root = tmp_path_factory.mktemp("rivals")
    taught = [write(root / "e", driven(seed, expert=True)) for seed in range(10)]
    own = [write(root / "e", driven(seed, expert=False, round_=1)) for seed in range(20, 50)]
    own += [write(root / "e", helped(seed)) for seed in range(60, 66)]
    base = ImprovementJob(
        recipe={"name": "base", "learner": "clone", "settings": SIZES}, task="point", parent=None, episodes=taught,
        work=root / "w0", output=root / "base", round=0, seed=1,
    )  # fmt: skip
    Clone().improve(base, lambda _: None)
    return replace(base, parent=base.output, episodes=[*taught, *own], round=1)


def job_of(first: ImprovementJob, root: Path, learner: str, **settings: object) -> ImprovementJob:
    recipe = {"name": "test", "learner": learner, "settings": settings}
    return replace(first, recipe=recipe, work=root / "work", output=root / "out")


def run(job: ImprovementJob) -> dict[str, float]:
    learner = load("learners", str(job.recipe["learner"]))
    assert isinstance(learner, type)
    made: Learner = learner()
    return dict(made.improve(job, lambda _: None))


def weights(folder: Path) -> bytes:
    return (folder / "weights.safetensors").read_bytes()


def test_corrections_are_cloned_without_the_policys_own_frames(first: ImprovementJob, tmp_path: Path) -> None:
    metrics = run(job_of(first, tmp_path / "a", "clone", data="corrections", **SIZES))
    assert metrics["n_demonstrations"] == 10
    only = replace(first, episodes=[*first.episodes[:10], *first.episodes[-6:]])
    run(job_of(only, tmp_path / "b", "clone", data="corrections", **SIZES))
    assert weights(tmp_path / "a/out") != weights(first.output)
    # The episodes that nobody touched changed nothing.
    left = flow_policy.read(tmp_path / "a/out").weights
    right = flow_policy.read(tmp_path / "b/out").weights
    assert all(np.array_equal(left[name], right[name]) for name in left)


def test_recap_drops_the_bad_side_and_keeps_people(first: ImprovementJob, tmp_path: Path) -> None:
    metrics = run(job_of(first, tmp_path, "recap", positive_share=0.3, value_steps=80, **SIZES))
    assert metrics["kept_share"] == pytest.approx(0.3, abs=0.05)
    assert flow_policy.load(tmp_path / "out").horizon == 8


def test_recaps_rewards_count_decisions_and_fine_failures() -> None:
    settings = RecapSettings(discount=0.9, failure_cost=100, multi_step=2)
    made = episode([SOURCE_POLICY] * 18, True)
    how = WindowSpec(horizon=8, execute=4, stride=4, multi_step=2)
    good, bad = (cut([replace(made, success=outcome)], how) for outcome in (True, False))
    reward, factor = rewards(good, settings)
    assert reward[0] == pytest.approx(-1 - 0.9)
    assert factor[0] == pytest.approx(0.81)
    assert reward[-1] == pytest.approx(-1)
    assert factor[-1] == 0
    assert rewards(bad, settings)[0][-1] == pytest.approx(-1 - 100 * 0.9)


def test_recaps_value_tells_failures_from_successes() -> None:
    settings = RecapSettings(value_steps=300, value_batch=128)
    # Whether an episode succeeds hangs on nothing that can be seen: only its last decisions bring the news.
    episodes = [replace(driven(seed, expert=False, round_=1), success=seed % 2 == 0) for seed in range(100, 140)]
    windows = cut(episodes, WindowSpec(horizon=8, execute=4, stride=4, multi_step=4))
    gain = value_advantages(windows, settings, Scale.of(windows.state), 0)
    assert gain[windows.success & windows.ends].mean() > 20 + gain[~windows.success & windows.ends].mean()
    assert gain[windows.success].mean() > gain[~windows.success].mean()
    kept = indicator(windows, gain, 0.4)
    assert kept[windows.success].mean() > kept[~windows.success].mean()


def test_best_of_n_keeps_the_actor_and_picks_among_its_chunks(first: ImprovementJob, tmp_path: Path) -> None:
    job = job_of(first, tmp_path, "best_of_n", critic_steps=60, critic_batch=64, score_steps=80, candidates=4, stride=2)
    metrics = run(job)
    assert manifest(job.output)["kind"] == "best_of_n"
    assert 0 <= metrics["score_auc"] <= 1 or np.isnan(metrics["score_auc"])
    assert first.parent is not None
    actor, kept = flow_policy.read(first.parent), flow_policy.read(job.output)
    assert all(np.array_equal(actor.weights[name], kept.weights[name]) for name in actor.weights)
    policy, plain = best_of_n.load(job.output), flow_policy.load(first.parent)
    states = np.random.default_rng(0).uniform(-1, 1, (9, 3)).astype(np.float32)
    seen = Observation(stamp_ns=0, state=states)
    for lane in range(9):
        policy.begin(lane, seed=lane)
        plain.begin(lane, seed=lane)
    chosen = policy.act(seen, np.arange(9))
    proposed = plain.sample(seen, np.arange(9), 4)
    assert (np.abs(proposed - chosen[:, None]).max(axis=(2, 3)).min(axis=1) == 0).all()
    policy.begin(7, seed=5)
    alone = policy.act(Observation(stamp_ns=0, state=states[5:6]), np.array([7]))
    np.testing.assert_array_equal(alone[0], chosen[5])
    with pytest.raises(PolicyProblem, match="a version of kind best_of_n has the key score"):
        best_of_n.load(first.parent)


def test_best_of_n_can_be_the_parent_of_a_round(first: ImprovementJob, tmp_path: Path) -> None:
    picked = job_of(first, tmp_path / "a", "best_of_n", critic_steps=20, critic_batch=64, score_steps=10)
    run(picked)
    child = replace(job_of(first, tmp_path / "b", "clone", data="successes", **SIZES), parent=picked.output)
    run(child)
    assert manifest(child.output)["kind"] == "flow"
    with pytest.raises(LearningProblem, match="clone a base first"):
        run(replace(picked, parent=None, output=tmp_path / "none"))


def test_a_sequence_changes_the_regime_by_the_round() -> None:
    stages = SequenceSettings(stages="filtered_bc 2, best_of_n, habc_plus")
    assert [stages.at(round_) for round_ in range(6)] == [
        "filtered_bc", "filtered_bc", "filtered_bc", "best_of_n", "habc_plus", "habc_plus",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="write recipes and their rounds"):
        SequenceSettings(stages="filtered_bc two")


def test_a_sequence_hands_the_job_to_the_learner_of_the_round(first: ImprovementJob, tmp_path: Path) -> None:
    recipe = tmp_path / "small.yaml"
    lines = "\n".join(f"  {name}: {value}" for name, value in (SIZES | {"data": "successes"}).items())
    recipe.write_text(f"name: small\nlearner: clone\nsettings:\n{lines}\n")
    job = job_of(first, tmp_path, "sequence", stages=str(recipe))
    assert run(job)["n_success"] > 0
    stages = replace(job_of(first, tmp_path / "c", "sequence", stages=f"{recipe}, nowhere_to_be_found"), round=4)
    assert run(replace(stages, turn=1))["n_success"] > 0, "the first turn of a branch that began in round 3"
    with pytest.raises(FileProblem, match="nowhere_to_be_found"):
        run(replace(stages, turn=2))
    with pytest.raises(FileProblem, match="nowhere_to_be_found"):
        run(job_of(first, tmp_path / "b", "sequence", stages="nowhere_to_be_found"))


def test_helped_episodes_hold_both_hands() -> None:
    assert set(helped(60).arrays.source) == {SOURCE_POLICY, SOURCE_HUMAN}


RL: dict[str, object] = {"batch": 64, "hidden": 32, "least_steps": 300, "most_steps": 300}


def test_residual_rl_keeps_the_base_and_stays_within_its_reach(first: ImprovementJob, tmp_path: Path) -> None:
    job = job_of(first, tmp_path, "residual_td3", reach=0.2, **RL)
    metrics = run(job)
    assert metrics["rewarded"] > 10
    assert manifest(job.output)["kind"] == "residual"
    assert first.parent is not None
    base, kept = flow_policy.read(first.parent), flow_policy.read(job.output)
    assert all(np.array_equal(base.weights[name], kept.weights[name]) for name in base.weights)
    policy, plain = residual.load(job.output), flow_policy.load(first.parent)
    states = np.random.default_rng(0).uniform(-1, 1, (9, 3)).astype(np.float32)
    for lane in range(9):
        policy.begin(lane, seed=lane)
        plain.begin(lane, seed=lane)
    seen = Observation(stamp_ns=0, state=states)
    moved = base.action.forward(policy.act(seen, np.arange(9))) - base.action.forward(plain.act(seen, np.arange(9)))
    assert 1e-4 < np.abs(moved[:, :4]).max() <= 0.2001
    assert np.abs(moved[:, 4:]).max() < 1e-5
    with pytest.raises(LearningProblem, match="clone a base first"):
        run(replace(job, parent=None, output=tmp_path / "none"))


def test_residual_rl_goes_on_from_its_parent_and_repeats_itself(first: ImprovementJob, tmp_path: Path) -> None:
    one = job_of(first, tmp_path / "a", "residual_td3", **RL)
    run(one)
    twin = job_of(first, tmp_path / "b", "residual_td3", **RL)
    run(twin)
    assert weights(one.output) == weights(twin.output)
    # Cut after its last checkpoint but one, it comes to the same end.
    (twin.work / "checkpoint.safetensors").unlink()
    again = replace(twin, output=tmp_path / "again")

    def cut(progress: Progress) -> None:
        if progress.done == 250:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ResidualTd3().improve(again, cut)
    reports: list[int] = []
    ResidualTd3().improve(again, lambda progress: reports.append(progress.done))
    assert reports == [300]
    assert weights(again.output) == weights(one.output)
    child = replace(job_of(first, tmp_path / "c", "residual_td3", **RL), parent=one.output)
    run(child)
    assert weights(child.output) != weights(one.output)


def test_the_replay_holds_every_decision_with_its_maker() -> None:
    episodes = [driven(3, expert=True), helped(60)]
    replay = replay_of(episodes, 4)
    assert len(replay) == sum(-(-item.ticks // 4) for item in episodes)
    assert replay.terminal.sum() == 2
    assert replay.reward.sum() == sum(item.success for item in episodes)
    np.testing.assert_array_equal(replay.state[0], episodes[0].arrays.state[0])
    np.testing.assert_array_equal(replay.next_state[0], episodes[0].arrays.state[4])
    np.testing.assert_array_equal(replay.action[0], episodes[0].arrays.action[:4])
    second = replay.human[replay.episode == 1]
    assert replay.human[replay.episode == 0].all()
    assert not second[0]
    assert second[-1]


def test_a_gaussian_policy_draws_around_its_mean(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    weights = {"0.weight": random.normal(size=(4, 3)).astype(np.float32), "0.bias": np.zeros(4, np.float32)}
    unit = Scale(mean=np.zeros(3, np.float32), spread=np.ones(3, np.float32))
    version = GaussianVersion(
        execute=2, frequencies=0, temperature=0.0, deviation=np.full(4, 0.3, np.float32), state=unit,
        action=Scale(mean=np.array([1, 2], np.float32), spread=np.array([2, 3], np.float32)), weights=weights,
    )  # fmt: skip
    gaussian_policy.save(version, tmp_path)
    policy = gaussian_policy.load(tmp_path)
    state = random.normal(size=(1, 3)).astype(np.float32)
    policy.begin(0, seed=4)
    mean = policy.act(Observation(stamp_ns=0, state=state), np.array([0]))
    expected = np.tanh(state @ weights["0.weight"].T).reshape(2, 2) * (2, 3) + (1, 2)
    np.testing.assert_allclose(mean[0], expected, rtol=1e-5)
    noisy = gaussian_policy.GaussianPolicy(replace(version, temperature=1.0))
    noisy.begin(0, seed=4)
    assert not np.allclose(noisy.act(Observation(stamp_ns=0, state=state), np.array([0])), mean)
    with pytest.raises(PolicyProblem, match="call begin"):
        policy.act(Observation(stamp_ns=0, state=state), np.array([3]))
    (tmp_path / "weights.safetensors").unlink()
    with pytest.raises(PolicyProblem, match="fetch the version again"):
        gaussian_policy.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("iql", {"expectile": 0.9, "weight_temp": 10 / 0.03}), ("awac", {"lam": 33 * 0.03})],
)
def test_offline_rl_weighs_advantages_in_decisions(name: str, expected: dict[str, float]) -> None:
    settings = parse(offline_rl.OfflineSettings, read_recipe(name).settings, name)
    assert settings.weighing() == pytest.approx(expected)
    with pytest.raises(FileProblem, match=r"expectile is in \(0.5, 1\)"):
        parse(offline_rl.OfflineSettings, {"expectile": 0.5}, name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("algorithm", ["awac", "iql"])
def test_offline_rl_gives_a_version_that_runs_without_d3rlpy(
    first: ImprovementJob, tmp_path: Path, algorithm: str
) -> None:
    if not offline_rl.FOLDER.is_dir():
        with pytest.raises(MissingExtra, match="benchmarks/offline_rl.py"):
            run(job_of(first, tmp_path, "benchmarks.offline_rl:OfflineRl", algorithm=algorithm, **RL))
        return
    job = job_of(first, tmp_path, "benchmarks.offline_rl:OfflineRl", algorithm=algorithm, **RL)
    assert run(job)["decisions"] > 100
    policy = gaussian_policy.load(job.output)
    policy.begin(0, seed=0)
    assert policy.act(Observation(stamp_ns=0, state=np.zeros((1, 3), np.float32)), np.array([0])).shape == (1, 4, 2)


@pytest.mark.parametrize("learner", ["clone", "residual_td3"])
def test_a_run_that_diverged_makes_no_version_when_it_is_begun_again(
    learner: str, first: ImprovementJob, tmp_path: Path
) -> None:
    wild = {"learning_rate": 1e30, "least_steps": 20, "most_steps": 20}
    job = job_of(first, tmp_path, learner, **(SIZES | wild if learner == "clone" else wild))
    for _ in range(2):
        with pytest.raises(LearningProblem, match="lower learning_rate"):
            run(job)
    assert not job.output.exists()
