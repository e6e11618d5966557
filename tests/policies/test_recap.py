"""RECAP as published: the indicator as an input of the actor, and the distribution over returns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.improvement_plans import Plan
from enpire.campaign.recipe import read_recipe, settings_of
from enpire.errors import FileProblem, LearningProblem, PolicyProblem
from enpire.files import parse
from enpire.interfaces import ImprovementJob
from enpire.types import SOURCE_HUMAN, SOURCE_POLICY, EarlyStop, EpisodeArrays, Observation
from policies import flow_policy
from policies.clone import Clone, initial_training_state
from policies.flow_network import FlowNetwork, fourier
from policies.flow_policy import FlowPolicy, FlowVersion
from policies.flow_training import IndicatorInput
from policies.habc.segments import Part, WindowSpec, cut
from policies.normalise import Scale
from policies.recap import Recap, RecapSettings, improves, monte_carlo_returns, return_advantages
from policies.return_distribution import ReturnBins, ReturnDistribution, ValueTraining
from policies.training_data import RecordedEpisode
from tests.policies.recorded import driven, episode, write

ROOT = Path(__file__).resolve().parents[2]
SIZES: dict[str, object] = {"hidden": 64, "depth": 2, "frequencies": 1, "batch": 64, "stride": 4}
SHORT = SIZES | {"least_steps": 60, "most_steps": 60}
INPUT: dict[str, object] = {"indicator": "input", "value_steps": 200, "value_batch": 64, "value_hidden": 32}
SPEC = WindowSpec(horizon=8, execute=4, stride=4, multi_step=4)


def turning(seed: int, right: bool) -> RecordedEpisode:
    """From one place, one episode goes right and succeeds after 12 commands; another goes left and fails."""
    random = np.random.default_rng(seed)
    ticks, side = 12, 1 if right else -1
    action = np.zeros((ticks, 2), np.float32)
    action[:, 0] = side + random.normal(0, 0.05, ticks)
    place = np.concatenate([np.zeros((1, 2), np.float32), np.cumsum(action, axis=0)])
    state = np.concatenate([place, random.normal(0, 0.1, (ticks + 1, 1))], axis=1).astype(np.float32)
    arrays = EpisodeArrays(
        state=state, action=action, source=np.full(ticks, SOURCE_POLICY, np.uint8),
        chunk=(np.arange(ticks) // 4).astype(np.int32),
    )  # fmt: skip
    return RecordedEpisode(order_id=f"t{seed}", round=1, success=right, supervised=False, arrays=arrays)


def job_in(root: Path, episodes: list[RecordedEpisode], **settings: object) -> ImprovementJob:
    return ImprovementJob(
        recipe={"name": "test", "learner": "recap", "settings": SHORT | INPUT | settings}, task="point", parent=None,
        episodes=[write(root / "e", item) for item in episodes], work=root / "work", output=root / "out", round=1,
        seed=3,
    )  # fmt: skip


def run(job: ImprovementJob) -> dict[str, float]:
    return dict(Recap().improve(job, lambda _: None))


def mixed() -> list[RecordedEpisode]:
    taught = [driven(seed, expert=True) for seed in range(6)]
    return taught + [driven(seed, expert=False, round_=1) for seed in range(20, 40)]


def parent_of(job: ImprovementJob, root: Path) -> Path:
    """A clone of the same episodes, whose network does not have the input."""
    recipe = {"name": "base", "learner": "clone", "settings": SHORT | {"data": "successes"}}
    Clone().improve(replace(job, recipe=recipe, work=root / "w0", output=root / "base"), lambda _: None)
    return root / "base"


def first_commands(version: FlowVersion) -> np.ndarray:
    """The first command along x (64,) of chunks from the place where both kinds of `turning` begin."""
    noise = np.random.default_rng(5).normal(size=(64, version.shape.chunk_dim)).astype(np.float32)
    chunks = FlowPolicy(version).integrate(np.zeros((64, 3), np.float32), noise)
    return version.action.inverse(chunks.reshape(64, version.shape.horizon, 2))[:, 0, 0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> FlowVersion:
    """A version that was trained on good and bad turns from the same place, half of each."""
    episodes = [turning(seed, right=seed % 2 == 0) for seed in range(60)]
    sizes = {"least_steps": 800, "most_steps": 800, "batch": 128, "learning_rate": 5e-3, "multi_step": 1}
    value = {"value_steps": 500, "value_batch": 128, "value_hidden": 64}
    job = job_in(tmp_path_factory.mktemp("turns"), episodes, **sizes, **value)
    metrics = run(job)
    assert metrics["positive_share"] == pytest.approx(0.4, abs=0.02)
    assert metrics["positive_of_failures"] < metrics["positive_share"]
    return flow_policy.read(job.output)


def test_the_version_acts_on_positive_and_the_unconditioned_one_does_both(trained: FlowVersion) -> None:
    good = (first_commands(trained) > 0).mean()
    both = (first_commands(replace(trained, guidance=0.0)) > 0).mean()
    guided = (first_commands(replace(trained, guidance=2.0)) > 0).mean()
    bad = {**trained.weights, "indicator": -trained.weights["indicator"]}
    assert good > 0.9
    assert 0.25 < both < 0.75
    assert guided >= good
    assert (first_commands(replace(trained, weights=bad)) > 0).mean() < 0.1


def test_dropping_the_indicator_gives_the_unconditioned_policy(trained: FlowVersion) -> None:
    shape = replace(trained.shape, indicator=False)
    weights = {name: value for name, value in trained.weights.items() if name != "indicator"}
    alone = replace(trained, shape=shape, weights=weights)
    np.testing.assert_array_equal(first_commands(replace(trained, guidance=0.0)), first_commands(alone))
    assert not np.array_equal(first_commands(trained), first_commands(alone))
    # A learner without the input takes over the policy as it acts.
    folded = replace(alone, weights=trained.weights_for(shape))
    np.testing.assert_allclose(first_commands(folded), first_commands(trained), atol=1e-4)


@pytest.mark.parametrize("guidance", [0.0, 1.0, 1.7])
def test_the_station_computes_what_torch_computes(trained: FlowVersion, guidance: float) -> None:
    shape = trained.shape
    network = FlowNetwork(shape, 0)
    network.load_weights(trained.weights)
    random = np.random.default_rng(1)
    state = random.normal(size=(13, 3)).astype(np.float32)
    noise = random.normal(size=(13, shape.chunk_dim)).astype(np.float32)
    features = fourier(torch.from_numpy(trained.state.forward(state)), shape.frequencies)
    chunk = torch.from_numpy(noise)
    with torch.no_grad():
        for step in range(shape.euler_steps):
            time = torch.full((13,), step / shape.euler_steps)
            free, positive = (network(chunk, time, features, torch.full((13,), value)) for value in (0.0, 1.0))
            assert torch.equal(free, network(chunk, time, features))
            chunk = chunk + (free + guidance * (positive - free)) / shape.euler_steps
    policy = FlowPolicy(replace(trained, guidance=guidance))
    np.testing.assert_allclose(policy.integrate(state, noise), chunk.numpy(), atol=1e-4)


def test_a_parent_without_the_input_equals_its_extension_to_the_bit(tmp_path: Path) -> None:
    job = job_in(tmp_path, mixed())
    parent = flow_policy.read(parent_of(job, tmp_path))
    settings = settings_of(RecapSettings, job.recipe)
    state = initial_training_state(replace(job, parent=tmp_path / "base"), settings, mixed())
    plain = FlowNetwork(parent.shape, 0)
    plain.load_weights(parent.weights)
    random = np.random.default_rng(2)
    rows = [torch.from_numpy(random.normal(size=(37, wide)).astype(np.float32)) for wide in (16, 9)]
    time, values = torch.linspace(0, 1, 37), torch.from_numpy(random.choice([-1, 0, 1], 37).astype(np.float32))
    assert state.network.shape == replace(parent.shape, indicator=True)
    with torch.no_grad():
        assert torch.equal(state.network(rows[0], time, rows[1], values), plain(rows[0], time, rows[1]))
    extended = replace(parent, shape=state.network.shape, weights=state.network.weights(), guidance=1.5)
    np.testing.assert_array_equal(first_commands(extended), first_commands(parent))


def test_a_version_without_the_input_keeps_its_bytes_and_one_with_it_round_trips(
    tmp_path: Path, trained: FlowVersion
) -> None:
    base = parent_of(job_in(tmp_path, mixed()), tmp_path)
    document = json.loads((base / "policy.json").read_text())
    assert set(document) == {"kind", "shape", "temperature", "state", "action"}
    assert set(document["shape"]) == {
        "state_dim", "action_dim", "horizon", "execute", "hidden", "depth", "frequencies", "euler_steps",
    }  # fmt: skip
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    flow_policy.save(replace(trained, guidance=1.25), first)
    flow_policy.save(flow_policy.read(first), second)
    assert flow_policy.read(second).guidance == 1.25
    for name in ("policy.json", "weights.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    weights = {**trained.weights, "indicator": np.zeros(3, np.float32)}
    with pytest.raises(PolicyProblem, match=r"64 finite weights named indicator, found \(3,\)"):
        FlowPolicy(replace(trained, weights=weights))
    with pytest.raises(PolicyProblem, match="guidance is -1"):
        FlowPolicy(replace(trained, guidance=-1.0))


def test_a_round_continues_from_a_parent_with_or_without_the_input(tmp_path: Path) -> None:
    one = job_in(tmp_path, mixed())
    one = replace(one, parent=parent_of(one, tmp_path))
    run(one)
    two = replace(one, parent=one.output, round=2, work=tmp_path / "w2", output=tmp_path / "two")
    run(two)
    assert flow_policy.read(two.output).shape.indicator
    recipe = {"name": "test", "learner": "clone", "settings": SHORT | {"data": "successes"}}
    cloned = replace(two, recipe=recipe, work=tmp_path / "w3", output=tmp_path / "three")
    Clone().improve(cloned, lambda _: None)
    assert "guidance" not in json.loads((cloned.output / "policy.json").read_text())


PROGRAM = """
import sys
from pathlib import Path
from policies.recap import Recap
from tests.policies.test_recap import job_of_folders
Recap().improve(job_of_folders(Path(sys.argv[1])), lambda p: print(p.done, flush=True))
"""


def job_of_folders(root: Path) -> ImprovementJob:
    """The same job in another process, over the episodes that are there already."""
    settings = SIZES | INPUT | {"least_steps": 600, "most_steps": 600}
    return ImprovementJob(
        recipe={"name": "test", "learner": "recap", "settings": settings}, task="point", parent=root / "base",
        episodes=sorted((root / "e" / "test").iterdir()), work=root / "work", output=root / "out", round=1, seed=3,
    )  # fmt: skip


@pytest.mark.slow
def test_killed_training_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    parent_of(job_in(tmp_path, mixed()), tmp_path)
    job = job_of_folders(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < 300:
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait(600)
    process.stdout.close()
    assert not job.output.exists()
    reports: list[int] = []
    Recap().improve(job, lambda progress: reports.append(progress.done))
    assert reports[0] > 250
    whole = replace(job, work=tmp_path / "work2", output=tmp_path / "out2")
    run(whole)
    for name in ("policy.json", "weights.safetensors"):
        assert (job.output / name).read_bytes() == (whole.output / name).read_bytes()


def test_a_share_of_the_samples_does_not_get_the_indicator() -> None:
    values = np.where(np.arange(1000) % 3 == 0, 1, -1).astype(np.float32)
    rows = np.random.default_rng(0).integers(1000, size=4000)
    given = IndicatorInput(values=values, dropout=0.3).at(rows, np.random.default_rng(1))
    assert (given == 0).mean() == pytest.approx(0.3, abs=0.03)
    assert (given[given != 0] == values[rows][given != 0]).all()
    np.testing.assert_array_equal(
        IndicatorInput(values=values, dropout=0.0).at(rows, np.random.default_rng(1)), values[rows]
    )


def test_returns_count_the_decisions_to_the_end_and_the_failure() -> None:
    episodes = [episode([SOURCE_POLICY] * 18, success, seed=int(success)) for success in (True, False)]
    windows = cut(episodes, SPEC)
    settings = RecapSettings(indicator="input", failure_cost=50)
    assert monte_carlo_returns(windows, episodes, settings).tolist() == [-5, -4, -3, -2, -1, -55, -54, -53, -52, -51]


def test_the_value_is_the_mean_return_of_a_state_and_the_advantage_its_surprise() -> None:
    # From one state half of the episodes succeed after 3 decisions, half fail.
    episodes = [turning(seed, right=seed % 2 == 0) for seed in range(80)]
    spec = replace(SPEC, multi_step=1)
    windows, settings = cut(episodes, spec), RecapSettings(indicator="input", failure_cost=20, multi_step=1)
    returns = monte_carlo_returns(windows, episodes, settings)
    scale = Scale.of(windows.state)
    bins = ReturnBins(lowest=float(returns.min()))
    features = fourier(torch.from_numpy(scale.forward(windows.state)), 2)
    training = ValueTraining(hidden=64, steps=500, batch=128, learning_rate=1e-3, seed=0)
    value = ReturnDistribution(features, returns, bins, training).value(features)
    began = windows.tick == 0
    assert value[began].mean() == pytest.approx((-3 - 23) / 2, abs=2)
    late = ~began & windows.success
    np.testing.assert_allclose(value[late].mean(), returns[late].mean(), atol=1)
    advantage = return_advantages(windows, returns, settings, scale, 0)
    assert advantage[began & windows.success].mean() > 6
    assert advantage[began & ~windows.success].mean() < -6


def test_returns_fall_into_the_nearest_of_the_bins() -> None:
    bins = ReturnBins(lowest=-100.0)
    assert len(bins.centres) == 201
    assert bins.of(np.array([-100, -99.8, -50, -0.2, 0], np.float32)).tolist() == [0, 0, 100, 200, 200]
    assert bins.centres[bins.of(np.array([-37.4], np.float32))[0]] == pytest.approx(-37.5)


def test_corrections_are_positive_and_demonstrations_are_judged() -> None:
    helped = episode([SOURCE_POLICY] * 16 + [SOURCE_HUMAN] * 16, True)
    windows = cut([helped, *mixed()], SPEC)
    advantage = np.random.default_rng(0).normal(size=len(windows)).astype(np.float32)
    forced = windows.part == Part.INTERVENTION
    advantage[forced] = -100
    positive = improves(windows, advantage, 0.3)
    assert forced.any()
    assert positive[forced].all()
    assert positive[~forced].mean() == pytest.approx(0.3, abs=0.02)
    assert 0 < positive[windows.demonstration].mean() < 1
    assert advantage[~forced & positive].min() > advantage[~forced & ~positive].max()


def test_before_the_first_rollout_a_demonstration_is_positive_if_it_succeeded() -> None:
    taught = [driven(seed, expert=True) for seed in range(8)]
    windows = cut([*taught, replace(taught[0], success=False)], SPEC)
    np.testing.assert_array_equal(improves(windows, np.zeros(len(windows), np.float32), 0.4), windows.success)


def test_failures_are_imitated_too(tmp_path: Path) -> None:
    failed = [
        replace(driven(seed, expert=expert, round_=1), success=False) for seed, expert in ((90, False), (91, True))
    ]
    known = job_in(tmp_path / "a", mixed())
    assert run(job_in(tmp_path / "b", [*mixed(), *failed]))["windows"] > run(known)["windows"] + 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"indicator": "input", "discount": 0.9}, "discount changes nothing here"),
     ({"indicator": "input", "target_follow": 0.1}, "target_follow changes nothing here"),
     ({"guidance": 2.0}, "guidance changes nothing here"), ({"value_bins": 51}, "value_bins changes nothing here"),
     ({"indicator_dropout": 0.1}, "indicator_dropout changes nothing here"),
     ({"indicator": "input", "indicator_dropout": 1.0}, "indicator_dropout"),
     ({"indicator": "input", "indicator_dropout": 0.0, "guidance": 1.5}, "set guidance: 1"),
     ({"indicator": "input", "value_bins": 1}, "value_bins is 1"), ({"indicator": "both"}, "indicator")],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(FileProblem, match=sentence):
        parse(RecapSettings, settings, "a recipe")


def test_the_recipes_are_recap_as_published_and_as_a_filter() -> None:
    published, kept = (parse(RecapSettings, read_recipe(name).settings, name) for name in ("recap", "imit_recap"))
    assert (published.indicator, kept.indicator) == ("input", "filter")
    assert (published.value_bins, published.indicator_dropout, published.guidance) == (201, 0.3, 1.0)
    assert Plan().recipe("recap").learner == "recap"
    shape = published.shape(3, 2)
    assert shape.indicator
    assert replace(shape, indicator=False) == kept.shape(3, 2)


def test_a_station_runs_a_conditioned_version_without_torch(tmp_path: Path, trained: FlowVersion) -> None:
    flow_policy.save(trained, tmp_path)
    code = (
        "import sys\nfrom pathlib import Path\nimport numpy as np\nfrom policies import flow_policy\n"
        "from enpire.types import Observation\n"
        f"policy = flow_policy.load(Path({str(tmp_path)!r}))\npolicy.begin(0, 1)\n"
        "print(policy.act(Observation(stamp_ns=0, state=np.zeros((1, 3), np.float32)), np.array([0]))[0, 0, 0])\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=600, capture_output=True, text=True, cwd=ROOT
    )
    policy = flow_policy.load(tmp_path)
    policy.begin(0, 1)
    here = policy.act(Observation(stamp_ns=0, state=np.zeros((1, 3), np.float32)), np.array([0]))
    assert float(done.stdout) == pytest.approx(float(here[0, 0, 0]))


def test_rollouts_that_were_all_stopped_early_are_nothing_to_learn_from(tmp_path: Path) -> None:
    job = job_in(tmp_path, mixed())
    rule = EarlyStop(below=0.1, control=0.5, armed=True)
    stopped = write(tmp_path / "stopped", mixed()[-1], outcome="aborted", early_stop=rule, predicted_failure_at=2)
    with pytest.raises(LearningProblem, match="has a verdict and frames to learn from; collect episodes first"):
        Recap().improve(replace(job, episodes=[stopped], parent=tmp_path), lambda _: None)
