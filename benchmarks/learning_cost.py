"""Cost of a gradient step: HABC against plain weighted cloning, and ACT against LeRobot's own training loop.

    python -m benchmarks.learning_cost              both comparisons, minutes
    python -m benchmarks.learning_cost --only habc  the first alone
    python -m benchmarks.learning_cost --only act   the second alone (needs LeRobot with accelerate)

All sides take turns in one run, on one thread. HABC's CPU seconds are those of its whole round divided by the actor's
gradient steps: critics, gates and the critics' outputs for each recorded decision (`figures.json`)
are included; the table also gives the ratio without `figures.json`. Reading the episodes and writing the version are
left out. The last column includes these, too: a round's cost over that of pure gradient steps. Plain weighted cloning
is the same training loop with fixed weights. LeRobot's samples per second are those that its loop logs by itself, data
loading included (`--num_workers=0`: in the same process).
Intervals: 95 %, t-intervals over the turns; each turn trains from a seed of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch

from benchmarks.improvement import Bench
from benchmarks.improvement_plans import Plan
from benchmarks.intervals import head, mean_by_seed
from benchmarks.machine import commit, describe
from benchmarks.measured import Measured, report
from benchmarks.rollouts import keep
from enpire.campaign.recipe import read_recipe
from enpire.datasets.lerobot_export import export_dataset
from enpire.files import parse
from enpire.interfaces import ImprovementJob, Progress
from enpire.types import SOURCE_EXPERT, SOURCE_POLICY
from policies.clone import initial_training_state, prepare, training_schedule, write_version
from policies.flow_training import AuxiliaryTraining, FlowBatches, train_actor
from policies.habc.critic_outputs import write_critic_outputs
from policies.habc.learner import (
    WindowWeights,
    collect_round_data,
    critic_training,
    evaluate_critics,
    viability_network,
)
from policies.habc.settings import HabcSettings
from policies.habc.train import pretrain_critics
from policies.habc.weights import WeightRule
from policies.lerobot_learner import LerobotHabc
from policies.training_data import read_episodes

MOST_COST, LEAST_SPEED = 1.3, 1.0
RECIPES = ("habc_plus", "habc_paper")
TURNS = 8


class Round:
    """One round's job: demonstrations of an expert, and rollouts of the same expert marked as the policy's."""

    def __init__(self, root: Path, demonstrations: int, rollouts: int) -> None:
        """Record this number of demonstrations, and of rollouts that are marked as the policy's."""
        self.bench = Bench(Plan(starts=1), 0, root, commit())
        starts = self.bench.starts(0, demonstrations + rollouts)
        shown = self.bench.collecting.run(self.bench.task.expert(0), starts, SOURCE_EXPERT)
        own = [
            replace(item, arrays=replace(item.arrays, source=np.full(item.ticks, SOURCE_POLICY, np.uint8)))
            for item in shown[demonstrations:]
        ]
        self.folders = keep(self.bench.store, shown[:demonstrations], "scripted:expert", 0, "shown")
        self.folders += keep(self.bench.store, own, "scripted:expert", 1, "own")

    def job(self, recipe: str, root: Path, seed: int) -> ImprovementJob:
        """A job in a folder of its own."""
        return ImprovementJob(
            recipe=read_recipe(recipe).mapping(), task=self.bench.plan.task, parent=None, episodes=self.folders,
            work=root / "work", output=root / "out", round=1, seed=seed,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of a round per gradient step of the actor."""

    learned: float
    """Critics, gates, the actor, and the critics' outputs for each decision."""
    trained: float
    """Without these outputs."""
    whole: float
    """With reading and cutting the episodes, and writing the version."""


def seconds_per_step(job: ImprovementJob, plain: bool) -> Cost:
    """What a round costs.

    With `plain` the weights are fixed before the first step and there are no critics.
    """
    settings = parse(HabcSettings, job.recipe["settings"], "the recipe")
    first = time.process_time()
    prepare(job)
    round_data = collect_round_data(read_episodes(job.episodes), settings)
    actor = initial_training_state(job, settings, round_data.episodes)
    began = time.process_time()
    training, schedule = critic_training(job, settings, round_data, actor.scales[0])
    rule = WeightRule()
    if not plain:
        pretrain_critics(training, schedule)
        if not settings.critic_beside:
            _, rule = evaluate_critics(round_data, training, actor.scales[1].spread, job.round)
    table = WindowWeights(round_data.windows, training, rule, job.round)
    batches = FlowBatches.of(round_data.windows, actor.network.shape, actor.scales, table.sampling_weights)
    schedule = training_schedule(job, settings, int((table.sampling_weights > 0).sum()))
    began = time.process_time() if plain else began
    weight_function = (lambda _, rows: table.ungated[rows]) if plain else table.weights
    for _ in train_actor(actor.network, batches, schedule, weight_function, AuxiliaryTraining() if plain else training):
        pass
    if settings.critic_beside and not plain:
        evaluate_critics(round_data, training, actor.scales[1].spread, job.round)
    trained = time.process_time()
    if not plain:
        write_critic_outputs(round_data.episodes, training, job.episodes)
    learned = time.process_time()
    write_version(actor.version(), job.output, viability_network(training))
    spent = (learned - began, trained - began, time.process_time() - first)
    return Cost(*(seconds / schedule.steps for seconds in spent))


def compare_habc(root: Path, turns: int, recipes: Sequence[str]) -> list[Measured]:
    """Print the first table; the ratio of each recipe."""
    round_ = Round(root / "round", 60, 300)
    head = f"{'recipe':12} {'ms per step':>12} {'plain':>8} {'ratio':>24}  at most {MOST_COST}"
    print(f"\n{head}  {'without figures.json':>22}  {'whole round':>22}")
    numbers: list[Measured] = []
    for recipe in recipes:
        found: list[tuple[float, float, float, float]] = []
        for turn in range(turns):
            spent: dict[bool, Cost] = {}
            for plain in (False, True) if turn % 2 else (True, False):
                folder = root / f"{recipe}-{turn}-{plain}"
                spent[plain] = seconds_per_step(round_.job(recipe, folder, turn), plain)
                shutil.rmtree(folder)
            ours = spent[False]
            found.append((ours.learned, ours.trained, ours.whole, spent[True].trained))
        ours, trained, whole, plain_s = np.array(found).T
        mean = f"{1e3 * ours.mean():12.2f} {1e3 * plain_s.mean():8.2f}"
        others = f"{_interval(trained / plain_s)}  {_interval(whole / plain_s)}"
        print(f"{recipe:12} {mean} {_interval(ours / plain_s)}  {others}", flush=True)
        numbers.append(_measured(f"gradient step of {recipe} / plain cloning", ours / plain_s, most=MOST_COST))
        numbers.append(_measured(f"round of {recipe} / plain gradient steps", whole / plain_s))
    return numbers


def compare_act(root: Path, turns: int) -> list[Measured]:
    """Print the second table: samples per second, state only, the same episodes, network and minibatch."""
    round_ = Round(root / "act", 40, 40)
    store, task = round_.bench.store, round_.bench.task
    data = root / "act" / "dataset"
    export_dataset((store.get(folder.name) for folder in round_.folders), task.spec, data)
    job = round_.job("lerobot_act", root / "act" / "base", 0)
    short = {"most_steps": 20, "least_steps": 20, "critic_steps": 20}
    job = replace(job, recipe={**job.recipe, "settings": {**_settings(job), **short}})
    LerobotHabc().improve(job, lambda _: None)
    found: list[tuple[float, float]] = []
    for turn in range(turns):
        if turn % 2:
            ours = our_speed(job, root / "ours")
            found.append((ours, their_speed(job, data)))
        else:
            theirs = their_speed(job, data)
            found.append((our_speed(job, root / "ours"), theirs))
    mine, others = np.array(found).T
    print(f"\n{'':12} {'samples/s':>12} {'LeRobot':>8} {'ratio':>24}  at least {LEAST_SPEED}")
    print(f"{'act':12} {mine.mean():12.0f} {others.mean():8.0f} {_interval(mine / others)}", flush=True)
    return [
        _measured("ACT, speed of HABC / LeRobot's training", mine / others, least=LEAST_SPEED),
        Measured(name="ACT, samples a second", value=float(mine.mean()), unit="samples/s"),
        Measured(name="ACT, samples a second", value=float(others.mean()), unit="samples/s", by="lerobot-train"),
    ]


def our_speed(job: ImprovementJob, root: Path) -> float:
    """Samples per wall-clock second of HABC on ACT, critics included, over a training run without its set-up."""
    more = {"most_steps": 600, "least_steps": 600, "critic_steps": 500}
    stamps: dict[str, float] = {}

    def report(progress: Progress) -> None:
        stamps.setdefault(progress.stage, time.perf_counter())
        stamps["end"] = time.perf_counter()

    settings = {**_settings(job), **more}
    run = replace(job, parent=job.output, recipe={**job.recipe, "settings": settings}, work=root, output=root / "out")
    LerobotHabc().improve(run, report)
    shutil.rmtree(root)
    return float(str(settings["batch"])) * more["most_steps"] / (stamps["end"] - stamps["begin"])


def their_speed(job: ImprovementJob, data: Path) -> float:
    """What `lerobot-train` logs as samples per second for the same policy on the same episodes."""
    with tempfile.TemporaryDirectory() as folder:
        asked = [
            sys.executable, "-m", "lerobot.scripts.lerobot_train", f"--policy.path={job.output}",
            "--policy.device=cpu", "--policy.push_to_hub=false", "--dataset.repo_id=enpire/cost",
            f"--dataset.root={data}", f"--batch_size={_settings(job)['batch']}", "--steps=60", "--log_freq=20",
            "--num_workers=0", "--save_checkpoint=false", "--wandb.enable=false", f"--output_dir={folder}/out",
        ]  # fmt: skip
        surroundings = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(asked, capture_output=True, text=True, env=surroundings, check=False)
    speeds = [float(text) for text in re.findall(r"smp/s:([0-9.]+)", done.stdout + done.stderr)]
    if done.returncode or len(speeds) < 2:
        raise RuntimeError(f"lerobot-train did not run: {done.stderr[-2000:]}")
    return float(np.mean(speeds[1:]))


def _settings(job: ImprovementJob) -> dict[str, object]:
    return dict(cast("Mapping[str, object]", job.recipe["settings"]))


def _measured(name: str, ratios: np.ndarray, *, most: float | None = None, least: float | None = None) -> Measured:
    found = mean_by_seed(list(ratios[:, None]))
    return Measured(name=name, value=found.mean, low=found.low, high=found.high, most=most, least=least)


def _interval(ratios: np.ndarray) -> str:
    found = mean_by_seed(list(ratios[:, None]))
    return f"{found.mean:8.2f} [{found.low:.2f}, {found.high:.2f}]"


def main() -> int:
    """Parse the command line and run; 1 when a ratio is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("habc", "act"), help="one of the two comparisons")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=RECIPES, help="of the first comparison")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{describe(range(given.turns))}\n{head(given.turns, 'steps', 'turn')}", flush=True)
    root = Path(tempfile.mkdtemp(prefix="learning-cost-"))
    numbers: list[Measured] = []
    try:
        if given.only != "act":
            numbers += compare_habc(root, given.turns, given.recipes)
        if given.only != "habc":
            numbers += compare_act(root, given.turns)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print()
    return report(numbers)


if __name__ == "__main__":
    sys.exit(main())
