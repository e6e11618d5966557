"""Does a learner make the policy better? Base from demonstrations, then rounds, without the fleet and without a gate.

    python -m benchmarks.improvement                    about four minutes: habc_plus against filtered_bc
    python -m benchmarks.improvement --full             all arms, 3 seeds, 500 paired evaluation starts

Every arm begins from the same base, collects the same number of rollouts, trains under the same rule for its steps, and
is judged on the same starts; every candidate is adopted, no best one is picked. Success comes with its Wilson interval.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.rollouts import Loop, Rollout, keep
from enpire.interfaces import ImprovementJob, Learner, Policy, Task
from enpire.intervals import wilson
from enpire.plugins import load
from enpire.recipe import Recipe, read_recipe
from enpire.store.episodes import FolderStore
from enpire.types import SOURCE_EXPERT, Start
from policies import flow_policy

SECRET = b"benchmark of improvement, seed "
EVALUATION, COLLECTION = 100_000, 1_000
"""First indices of the starts: evaluation and collection never share one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to improve: a shipped recipe with some settings changed."""

    recipe: str
    changes: Mapping[str, object]

    def made(self) -> Recipe:
        """The recipe with the changes."""
        shipped = read_recipe(self.recipe)
        settings = {**shipped.settings, **self.changes}
        return Recipe(name=shipped.name, learner=shipped.learner, settings=cast("dict[str, float]", settings))


ARMS: Mapping[str, Arm] = {
    "sft": Arm(recipe="clone_demonstrations", changes={}),
    "filtered_bc": Arm(recipe="filtered_bc", changes={}),
    "habc_plus": Arm(recipe="habc_plus", changes={}),
    "habc_paper": Arm(recipe="habc_paper", changes={}),
    "habc_v": Arm(recipe="habc_plus", changes={"gate": "viability"}),
    "fixed_gate": Arm(recipe="habc_plus", changes={"gate": "fixed"}),
    "hard_gate": Arm(recipe="habc_plus", changes={"gate": "hard"}),
    "naive_labels": Arm(recipe="habc_plus", changes={"partition": False}),
    "no_cooling": Arm(recipe="habc_plus", changes={"cooling": 1.0}),
}
QUICK = ("habc_plus", "filtered_bc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is run."""

    task: str = "pin_insertion"
    demonstrations: int = 80
    rounds: int = 4
    episodes: int = 100
    starts: int = 200
    lanes: int = 32


class Bench:
    """One seed: its rigs, its base, its arms."""

    def __init__(self, plan: Plan, seed: int, root: Path) -> None:
        """Build the rigs; the evaluation has one of its own, with another station's physics."""
        self.plan, self.seed, self.root = plan, seed, root
        self.task = cast("type[Task]", load("tasks", plan.task))()
        self.collecting = Loop(self.task, self.task.rig(plan.lanes, 10 + seed))
        self.judging = Loop(self.task, self.task.rig(plan.lanes, 500 + seed))
        self.store = FolderStore(root / "episodes")

    def starts(self, first: int, count: int) -> list[Start]:
        """Train starts by index; seeds differ in their indices."""
        shift = first + 1_000_000 * self.seed
        return [self.task.start("train", shift + index, SECRET + str(self.seed).encode()) for index in range(count)]

    def demonstrations(self) -> list[Path]:
        """The expert's episodes, in the store."""
        expert = self.task.expert(self.seed)
        shown = self.collecting.run(expert, self.starts(0, self.plan.demonstrations), SOURCE_EXPERT)
        print(f"seed {self.seed}: {_said(shown)} by the demonstrating expert", flush=True)
        return keep(self.store, shown, "scripted:expert", 0, "demonstrations")

    def judge(self, policy: Policy) -> list[Rollout]:
        """The evaluation, always from the same starts."""
        return self.judging.run(policy, self.starts(EVALUATION, self.plan.starts))

    def learn(self, recipe: Recipe, name: str, episodes: Sequence[Path], parent: Path | None, round_: int) -> Path:
        """One training run; returns the version's folder."""
        job = ImprovementJob(
            recipe=recipe.mapping(),
            task=self.plan.task,
            parent=parent,
            episodes=episodes,
            work=self.root / name / f"work{round_}",
            output=self.root / name / f"version{round_}",
            round=round_,
            seed=1000 * self.seed + round_,
        )
        began = time.process_time()
        figures = cast("type[Learner]", load("learners", recipe.learner))().improve(job, lambda _: None)
        shown = ", ".join(f"{key} {value:.3g}" for key, value in figures.items())
        print(f"  {name} round {round_}: {time.process_time() - began:.1f} CPU s; {shown}", flush=True)
        return job.output

    def arm(self, name: str, base: Path, taught: Sequence[Path]) -> list[list[Rollout]]:
        """All rounds of one arm; the evaluation after each."""
        recipe, version = ARMS[name].made(), base
        own: list[Path] = []
        results: list[list[Rollout]] = []
        for round_ in range(1, self.plan.rounds + 1):
            starts = self.starts(COLLECTION * round_, self.plan.episodes)
            collected = self.collecting.run(flow_policy.load(version), starts)
            own += keep(self.store, collected, version.name, round_, name)
            fresh = own[-recipe_window(recipe) * self.plan.episodes :]
            parent = None if name == "sft" else version
            version = self.learn(recipe, name, [*taught, *([] if name == "sft" else fresh)], parent, round_)
            results.append(self.judge(flow_policy.load(version)))
            print(f"seed {self.seed} {name} round {round_}: {_said(results[-1])}", flush=True)
        return results


def recipe_window(recipe: Recipe) -> int:
    """Rounds whose episodes the arm may see."""
    return int(cast(int, recipe.settings.get("window_rounds", 4)))


def run(plan: Plan, arms: Sequence[str], seeds: Sequence[int], root: Path) -> None:
    """Run arms over seeds and print the table."""
    final: dict[str, list[Rollout]] = {name: [] for name in ("base", *arms)}
    for seed in seeds:
        bench = Bench(plan, seed, root / f"seed{seed}")
        taught = bench.demonstrations()
        base = bench.learn(read_recipe("clone_demonstrations"), "base", taught, None, 0)
        final["base"] += (judged := bench.judge(flow_policy.load(base)))
        print(f"seed {seed} base: {_said(judged)}", flush=True)
        for name in arms:
            final[name] += bench.arm(name, base, taught)[-1]
    print(f"\nafter {plan.rounds} rounds of {plan.episodes} rollouts, {len(seeds)} seed(s):")
    for name, rollouts in final.items():
        print(f"  {name:14} {_said(rollouts)}")
    for name in arms:
        _compare(name, final[name], final["base"])
        if name != "filtered_bc" and "filtered_bc" in final:
            _compare(name, final[name], final["filtered_bc"], "filtered_bc")


def _said(rollouts: Sequence[Rollout]) -> str:
    found = wilson(sum(item.success for item in rollouts), len(rollouts))
    ticks = [item.ticks for item in rollouts if item.success]
    median = f"{np.median(ticks):.0f}" if ticks else "-"
    return f"{found.rate:6.1%} [{found.low:.1%}, {found.high:.1%}] of {len(rollouts)}, median {median} ticks"


def _compare(name: str, ours: Sequence[Rollout], theirs: Sequence[Rollout], other: str = "base") -> None:
    """Paired bootstrap of the difference in success and of the ticks where both succeed."""
    random = np.random.default_rng(0)
    gain = np.array([float(a.success) - float(b.success) for a, b in zip(ours, theirs, strict=True)])
    both = [a.ticks - b.ticks for a, b in zip(ours, theirs, strict=True) if a.success and b.success]
    means = gain[random.integers(len(gain), size=(2000, len(gain)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    shorter = f"{np.mean(both):+.0f} ticks where both succeed ({len(both)})" if both else "no common success"
    print(f"  {name} - {other}: {gain.mean():+.1%} [{low:+.1%}, {high:+.1%}], {shorter}")


def main() -> None:
    """Parse the command line and run."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--full", action="store_true", help="all arms, 3 seeds, 500 starts")
    words.add_argument("--arms", default="", help=f"comma separated: {', '.join(ARMS)}")
    words.add_argument("--rounds", type=int, default=Plan.__dataclass_fields__["rounds"].default)
    words.add_argument("--starts", type=int, default=0)
    words.add_argument("--seeds", type=int, default=0)
    words.add_argument("--task", default="pin_insertion")
    words.add_argument("--keep", default="", help="folder for episodes and versions; otherwise they are removed")
    given = words.parse_args()
    names = given.arms.split(",") if given.arms else list(ARMS if given.full else QUICK)
    plan = Plan(task=given.task, rounds=given.rounds, starts=given.starts or (500 if given.full else 200))
    root = Path(given.keep or tempfile.mkdtemp(prefix="improvement-"))
    try:
        run(plan, names, range(given.seeds or (3 if given.full else 1)), root)
    finally:
        if not given.keep:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
