"""HABC end to end on small episodes: determinism, resumption, warm-up, empty rounds, the guard."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from enpire.campaign.recipe import read_recipe
from enpire.errors import FileProblem, LearningProblem
from enpire.files import find, parse
from enpire.interfaces import ImprovementJob, PredictsSuccess
from enpire.store.arrays import unpack
from enpire.types import SOURCE_HUMAN, SOURCE_POLICY, Observation
from policies import flow_policy, viability_policy
from policies.clone import Clone, initial_training_state, prepare
from policies.habc.diagnostics import auc, calibration_error, held_out_brier
from policies.habc.labels import true_weights
from policies.habc.learner import Habc, WindowWeights, collect_round_data, critic_training
from policies.habc.segments import WindowSpec, cut
from policies.habc.settings import HabcSettings
from policies.habc.train import pretrain_critics
from policies.habc.weights import Advantages, WeightRule
from policies.training_data import read_episodes
from tests.policies.habc.first_round import QUICK, SIZES, first_round, recipe
from tests.policies.recorded import driven, episode, write

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> ImprovementJob:
    return first_round(tmp_path_factory.mktemp("round"))


@pytest.fixture
def fresh_job(first: ImprovementJob, tmp_path: Path) -> Callable[..., ImprovementJob]:
    """The same job with other settings, in folders of its own."""

    def make(name: str = "a", **settings: object) -> ImprovementJob:
        chosen = recipe("habc", QUICK | settings)
        return replace(first, recipe=chosen, work=tmp_path / f"{name}.work", output=tmp_path / name)

    return make


def run(job: ImprovementJob) -> dict[str, float]:
    return dict(Habc().improve(job, lambda _: None))


def actor(folder: Path) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in flow_policy.read(folder).weights.items()}


def weights(folder: Path) -> bytes:
    return (folder / "weights.safetensors").read_bytes()


def test_a_round_gives_a_version_and_its_diagnostics(fresh_job: Callable[..., ImprovementJob]) -> None:
    job = fresh_job()
    metrics = run(job)
    assert (job.output / "policy.json").exists()
    assert metrics["n_success"] > 5
    assert metrics["kappa"] == 0
    assert metrics["labels_supervised"] == 0
    assert 0 <= metrics["p_v_mean"] <= 1
    assert 0 < metrics["p_v_at_start"] < 1
    assert 0 < metrics["effective_share"] <= 1
    assert metrics["z_largest"] <= 6.1
    assert {"auc_a_e", "brier", "gate_saturated", "gate_mean", "efficiency_sound", "loss"} <= set(metrics)


def test_the_same_job_gives_the_same_bytes(fresh_job: Callable[..., ImprovementJob]) -> None:
    one, two = fresh_job("a"), fresh_job("b")
    run(one)
    run(two)
    assert weights(one.output) == weights(two.output)
    assert (one.output / "policy.json").read_bytes() == (two.output / "policy.json").read_bytes()


def test_warming_up_equals_filtered_cloning_to_the_bit(fresh_job: Callable[..., ImprovementJob]) -> None:
    warm = fresh_job("warm", warmup_share=1.0)
    run(warm)
    filtered = replace(
        warm, recipe=recipe("clone", SIZES | {"data": "successes"}), output=warm.output.with_name("filtered"),
        work=warm.work.with_name("filtered.work"),
    )  # fmt: skip
    Clone().improve(filtered, lambda _: None)
    assert actor(warm.output) == actor(filtered.output)
    gated = fresh_job("gated")
    run(gated)
    assert actor(gated.output) != actor(filtered.output)


@pytest.mark.parametrize("beside", [pytest.param(False, marks=pytest.mark.slow), True])
def test_killed_training_resumes_to_the_same_bytes(fresh_job: Callable[..., ImprovementJob], beside: bool) -> None:
    longer = {"least_steps": 600, "most_steps": 600, "critic_beside": beside, "label_ends": not beside}
    longer |= {"on_divergence": "report" if beside else "viability"}
    job = fresh_job("killed", **longer)
    program = (
        "import sys\nfrom pathlib import Path\nfrom enpire.interfaces import ImprovementJob\n"
        "from policies.habc.learner import Habc\n"
        f"job = ImprovementJob(recipe={job.recipe!r}, task='point', parent=Path({str(job.parent)!r}),\n"
        f"    episodes=[Path(e) for e in {[str(e) for e in job.episodes]!r}], work=Path({str(job.work)!r}),\n"
        f"    output=Path({str(job.output)!r}), round=1, seed={job.seed})\n"
        "Habc().improve(job, lambda p: print(p.stage, p.done, flush=True))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    for line in process.stdout:
        if line.split()[0] == "actor" and int(line.split()[1]) >= 300:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait(600)
    process.stdout.close()
    assert not job.output.exists()
    reports: list[int] = []
    Habc().improve(job, lambda p: reports.append(p.done) if p.stage == "actor" else None)
    assert reports[0] > 250
    whole = fresh_job("whole", **longer)
    run(whole)
    assert weights(job.output) == weights(whole.output)


def test_a_round_without_a_success_learns_from_demonstrations(fresh_job: Callable[..., ImprovementJob]) -> None:
    job = fresh_job()
    failed = [
        write(job.output.with_name("failed"), replace(driven(seed, expert=False, round_=1), success=False))
        for seed in range(60, 65)
    ]
    metrics = run(replace(job, episodes=[*job.episodes[:10], *failed]))
    assert metrics["n_success"] == 0
    assert np.isfinite(metrics["loss"])
    with pytest.raises(LearningProblem, match="No window may be imitated"):
        run(replace(job, episodes=failed, output=job.output.with_name("none"), work=job.work.with_name("none.w")))


def test_divergence_stops_the_round_when_the_recipe_says_so(fresh_job: Callable[..., ImprovementJob]) -> None:
    literal = {
        "efficiency_unit": "decision",
        "bounded_efficiency": False,
        "critic_learning_rate": 1.0,
        "critic_steps": 5,
    }
    job = fresh_job("stop", on_divergence="stop", **literal)
    with pytest.raises(LearningProblem, match="efficiency head diverged"):
        run(job)
    assert not job.output.exists()
    metrics = run(fresh_job("go", on_divergence="viability", **literal))
    assert metrics["efficiency_sound"] == 0


@pytest.mark.parametrize("name", ["habc_plus", "habc_paper"])
def test_the_presets_run(name: str, first: ImprovementJob, fresh_job: Callable[..., ImprovementJob]) -> None:
    settings: dict[str, object] = dict(read_recipe(find("recipes", name)).settings)
    parsed = parse(HabcSettings, settings, name)
    assert parsed.stride == HabcSettings().stride
    small: dict[str, object] = {key: value for key, value in QUICK.items() if key not in {"stride", "critic_steps"}}
    small |= {"critic_steps": min(100, parsed.critic_steps)}
    metrics = run(fresh_job(name, **(settings | small)))
    assert np.isfinite(metrics["loss"])
    assert first.parent is not None


def test_a_trained_actor_is_kept_when_critics_beside_it_diverge(fresh_job: Callable[..., ImprovementJob]) -> None:
    beside = {
        "critic_beside": True, "label_ends": False, "critic_steps": 0, "critic_learning_rate": 1.0,
        "efficiency_unit": "decision", "bounded_efficiency": False, "on_divergence": "report",
    }  # fmt: skip
    job = fresh_job("kept", **beside)
    assert run(job)["efficiency_sound"] == 0
    assert (job.output / "policy.json").exists()
    with pytest.raises(FileProblem, match="set on_divergence: report"):
        run(fresh_job("stop", **(beside | {"on_divergence": "stop"})))


def test_gates_count_when_the_share_of_warm_steps_is_done(fresh_job: Callable[..., ImprovementJob]) -> None:
    job = fresh_job(warmup_share=0.083, least_steps=600, most_steps=600)
    settings = parse(HabcSettings, job.recipe["settings"], "test")
    round_data = collect_round_data(read_episodes(job.episodes), settings)
    actor = initial_training_state(job, settings, round_data.episodes)
    training, _ = critic_training(job, settings, round_data, actor.scales[0])
    training.gates[:] = 0.5
    table = WindowWeights(round_data.windows, training, WeightRule(), job.round)
    rows = np.flatnonzero(round_data.windows.policy & round_data.windows.success)
    assert table.warmup_steps == 50
    assert (table.weights(49, rows) == 1).all()
    assert (table.weights(50, rows) == 0.5).all()


def test_the_ranking_counts_ties_half() -> None:
    scores = np.array([0.1, 0.2, 0.2, 0.9], np.float32)
    assert auc(scores, np.array([False, False, True, True])) == pytest.approx(0.875)
    assert np.isnan(auc(scores, np.ones(4, np.bool_)))


def test_reliability_is_the_gap_on_the_newest_held_out_episodes() -> None:
    episodes = [replace(driven(i, expert=False, round_=1 + i // 4), success=i % 4 == 0) for i in range(8)]
    windows = cut(episodes, WindowSpec())
    held = windows.episode != 5

    def said(p: np.ndarray) -> Advantages:
        rows = p.astype(np.float32)
        return Advantages(viability=rows, viability_advantage=0 * rows, efficiency_advantage=0 * rows)

    newest = held & (windows.round == 2)
    share = windows.success[newest].mean()
    level = np.where(newest, share, 0.0)
    assert calibration_error(windows, said(level), held) == pytest.approx(0, abs=1e-6)
    assert calibration_error(windows, said(level + 0.1), held) == pytest.approx(0.1, abs=1e-6)
    assert np.isnan(calibration_error(windows, said(level), windows.round == 1))


def test_a_right_p_v_is_reliable_under_supervision() -> None:
    # 36 of 100 rollouts succeed by themselves; of the 64 others people take half over, and finish them.
    helped = [SOURCE_POLICY] * 20 + [SOURCE_HUMAN] * 20
    kinds: list[tuple[list[int], bool]] = [([SOURCE_POLICY] * 40, True)] * 36
    kinds += [([SOURCE_POLICY] * 40, False)] * 32 + [(helped, True)] * 32
    episodes = [replace(episode(source, won, seed=i), supervised=True) for i, (source, won) in enumerate(kinds)]
    round_data = collect_round_data(episodes, HabcSettings())
    assert round_data.kappa == 0.5
    counts = true_weights(round_data.windows, round_data.kappa)

    def said(p: float) -> Advantages:
        rows = np.full(len(counts), p, np.float32)
        return Advantages(viability=rows, viability_advantage=0 * rows, efficiency_advantage=0 * rows)

    right, biased = said(0.36), said(0.36 / 0.68)
    assert calibration_error(round_data.windows, right, counts) == pytest.approx(0, abs=1e-6)
    assert calibration_error(round_data.windows, biased, counts) == pytest.approx(0.36 / 0.68 - 0.36)
    brier = [held_out_brier(round_data.windows, item, counts) for item in (right, biased)]
    assert brier[0] == pytest.approx(0.36 * 0.64)
    assert brier[1] > brier[0]


def test_interventions_count_1_where_no_label_taught_the_gate(first: ImprovementJob, tmp_path: Path) -> None:
    finished = [
        write(tmp_path / "e", episode([SOURCE_POLICY] * 15 + [SOURCE_HUMAN] * 15, True, seed=500 + i))
        for i in range(12)
    ]
    settings = QUICK | {"reweight_interventions": "always"}
    job = replace(first, recipe=recipe("habc", settings), work=tmp_path / "w", output=tmp_path / "o")
    assert run(replace(job, episodes=[*job.episodes[:10], *finished]))["interventions_reweighted"] == 0
    seen = replace(job, episodes=[*job.episodes, *finished], work=tmp_path / "w2", output=tmp_path / "o2")
    assert run(seen)["interventions_reweighted"] == 1


def test_interventions_are_weighted_by_the_gate_only_from_a_round_on(first: ImprovementJob, tmp_path: Path) -> None:
    finished = [
        write(tmp_path / "e", episode([SOURCE_POLICY] * 15 + [SOURCE_HUMAN] * 15, True, seed=500 + i))
        for i in range(12)
    ]

    def reweighted(round_: int, **settings: object) -> float:
        job = replace(
            first, recipe=recipe("habc", QUICK | {"reweight_interventions": "always"} | settings), round=round_,
            episodes=[*first.episodes, *finished], work=tmp_path / f"w{round_}", output=tmp_path / f"o{round_}",
        )  # fmt: skip
        return run(job)["interventions_reweighted"]

    assert [reweighted(round_, reweight_from_round=3) for round_ in (1, 2, 3, 4)] == [0, 0, 1, 1]
    shutil.rmtree(tmp_path / "o1")
    assert reweighted(1) == 1


def test_the_shipped_recipes_weight_interventions_from_round_3_on() -> None:
    for name in ("habc_plus", "habc_ir"):
        assert parse(HabcSettings, read_recipe(name).settings, name).reweight_from_round == 3
    paper = parse(HabcSettings, read_recipe("habc_paper").settings, "habc_paper")
    assert (paper.reweight_interventions, paper.reweight_from_round) == ("never", 1)


def test_every_decision_of_an_untouched_episode_gets_its_figures(first: ImprovementJob, tmp_path: Path) -> None:
    Habc().improve(replace(first, work=tmp_path / "w", output=tmp_path / "o"), lambda _: None)
    shown = [folder / "figures.json" for folder in first.episodes]
    assert [path.is_file() for path in shown] == [False] * 10 + [True] * 30
    metrics = json.loads(shown[-1].read_text())
    ticks = len(unpack((first.episodes[-1] / "arrays.npz").read_bytes()).action)
    assert {name: len(values) for name, values in metrics.items()} == dict.fromkeys(("p_v", "V_e", "g"), -(-ticks // 4))
    assert all(0 < g < 2 for g in metrics["g"])
    assert all(0 <= p <= 1 for p in metrics["p_v"])
    assert all(v <= 0 for v in metrics["V_e"])


def test_decisions_of_people_and_before_them_get_their_figures_too(first: ImprovementJob, tmp_path: Path) -> None:
    made = driven(77, expert=False, round_=1)
    source = made.arrays.source.copy()
    source[8:] = SOURCE_HUMAN
    chunk = np.where(source == SOURCE_HUMAN, -1, made.arrays.chunk).astype(np.int32)
    arrays = replace(made.arrays, source=source, chunk=chunk)
    helped = write(tmp_path / "helped", replace(made, supervised=True, success=True, arrays=arrays))
    # Windows begin at every third frame: what the decisions get does not hang on that.
    job = replace(first, episodes=[*first.episodes, helped], recipe=recipe("habc", QUICK | {"stride": 3}))
    Habc().improve(replace(job, work=tmp_path / "w", output=tmp_path / "o"), lambda _: None)
    metrics = json.loads((helped / "figures.json").read_text())
    assert {len(values) for values in metrics.values()} == {2 + int((chunk < 0).sum())}
    assert all(0 < g < 2 for g in metrics["g"])


def test_the_version_says_how_likely_success_is_and_acts_as_its_actor_alone(
    fresh_job: Callable[..., ImprovementJob],
) -> None:
    job = fresh_job(collect_temperature=2.0)
    run(job)
    foreseeing, alone = viability_policy.load(job.output), flow_policy.load(job.output)
    assert isinstance(foreseeing, PredictsSuccess)
    lanes = np.arange(5)
    state = np.random.default_rng(1).uniform(-1, 1, (5, 3)).astype(np.float32)
    seen = Observation(stamp_ns=0, state=state)
    for policy in (foreseeing, alone):
        for lane in lanes:
            policy.begin(int(lane), 3)
    np.testing.assert_array_equal(foreseeing.act(seen, lanes), alone.act(seen, lanes))
    settings = parse(HabcSettings, job.recipe["settings"], "test")
    round_data = collect_round_data(read_episodes(job.episodes), settings)
    actor = initial_training_state(job, settings, round_data.episodes)
    training, schedule = critic_training(job, settings, round_data, actor.scales[0])
    pretrain_critics(training, schedule)
    rows = torch.from_numpy(actor.scales[0].forward(state))
    with torch.no_grad():
        logits = training.critics.viability(training.critics.features(rows)).clamp(-6, 6)
    np.testing.assert_allclose(foreseeing.viability(seen, lanes), torch.sigmoid(logits).numpy(), atol=1e-5)
    collecting = foreseeing.collector
    assert isinstance(collecting, PredictsSuccess)
    assert collecting is not foreseeing
    np.testing.assert_array_equal(collecting.viability(seen, lanes), foreseeing.viability(seen, lanes))


def test_visits_are_drawn_more_often_where_p_v_is_low(fresh_job: Callable[..., ImprovementJob]) -> None:
    job = fresh_job(state_weights="visits")
    settings = parse(HabcSettings, job.recipe["settings"], "test")
    round_data = collect_round_data(read_episodes(job.episodes), settings)
    scale = initial_training_state(job, settings, round_data.episodes).scales[0]
    training, schedule = critic_training(job, settings, round_data, scale)
    prepare(job)
    pretrain_critics(training, schedule)
    training.update_gates(training.scaled_advantages(), WeightRule())
    p_v, windows = training.viability, round_data.windows
    drawn = WindowWeights(windows, training, WeightRule(), 1).sampling_weights
    own = windows.policy & windows.success
    assert np.corrcoef(drawn[own], 1 / p_v[own].clip(0.05))[0, 1] == pytest.approx(1, abs=1e-4)
    assert (drawn[windows.policy & ~windows.success] == 0).all()
    assert (drawn[windows.demonstration] == 1).all()
    training.data.targets.viability_rows = training.data.targets.viability_rows[:0]  # p_v is untrained
    assert (WindowWeights(windows, training, WeightRule(), 1).sampling_weights[own] == 1).all()
    with pytest.raises(FileProblem, match="state_weights: visits needs critics that train before the actor"):
        parse(HabcSettings, {"state_weights": "visits", "critic_beside": True, "label_ends": False}
              | {"on_divergence": "report"}, "test")  # fmt: skip


def test_the_critics_train_on_no_held_out_episode(first: ImprovementJob) -> None:
    settings = parse(HabcSettings, QUICK | {"label_ends": True}, "the test")
    data = collect_round_data(read_episodes(first.episodes), settings)
    held = np.unique(data.windows.episode[data.held_out])
    assert len(held) == 3, "every tenth of thirty episodes of the policy"
    assert data.held_out[np.isin(data.windows.episode, held)].all(), "whole episodes"
    assert not data.windows.demonstration[data.held_out].any()
    scale = initial_training_state(first, settings, data.episodes).scales[0]
    training, _ = critic_training(first, settings, data, scale)
    targets, windows = training.data.targets, data.windows
    ends = np.flatnonzero(windows.ends & (windows.cost == 0) & ~data.held_out)
    for rows in (targets.viability_rows, targets.efficiency_rows):
        of_windows = rows[rows < len(windows)]
        assert len(of_windows) > 20
        assert not data.held_out[of_windows].any()
        assert (rows - len(windows) < len(ends)).all(), "labelled last states are of training episodes, too"
    drawn = training._rows.numpy()
    assert np.isin(drawn[:, 0], targets.viability_rows).all()
    assert np.isin(drawn[:, 1] - targets.first_row[1], targets.efficiency_rows).all()
