"""Policy improvement: a base from demonstrations, then rounds of each learner, without the fleet and without a gate.

    python -m benchmarks.improvement                    minutes: habc_plus against filtered_bc, 1 seed, on the
                                                        task fragile_insertion, where care and speed conflict
    python -m benchmarks.improvement --arms all         every arm, 1 seed
    python -m benchmarks.improvement --full             every arm, 5 fresh seeds, 500 paired starts, half of the
                                                        episodes supervised by a simulated operator
    python -m benchmarks.improvement --smoke            every arm, one tiny round: too small for results

Every arm collects the same number of rollouts and is evaluated on the same starts. hil_serl, which learns while it
acts, learns ten times in a round. Every arm that trains the flow actor (clone, recap, habc) makes as many passes over
its windows as the task's HABC, within the same limits; the table gives the gradient steps. These arms start from the
base, as best_of_n and residual_td3 do. The arms with a star in the table start from networks (spiral_search: a program)
of their own: from the base they have only its demonstrations and the rollouts of the first round (hil_serl: the first
ten). Every candidate is adopted; no best one is selected. Intervals are clustered by seed; those of one seed cover its
starts alone.
With --keep FOLDER an interrupted run resumes; the folder holds results.jsonl, table.txt and plot.svg, and each result
has its commit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

from benchmarks.improvement_plans import ARMS, FIRST_FRESH_SEED, QUICK, Plan, tuning
from benchmarks.improvement_table import Evaluation, curve, success_of_arms, table
from benchmarks.improvement_viability import ViabilityProbe, ViabilitySample
from benchmarks.intervals import LEAST_SEEDS
from benchmarks.intervals import head as intervals_line
from benchmarks.machine import commit, describe
from benchmarks.measured import report
from benchmarks.rollouts import keep
from benchmarks.supervised import SupervisedLoop
from enpire.campaign.recipe import Recipe
from enpire.errors import LearningProblem, UsageError
from enpire.interfaces import ImprovementJob, Learner, Policy, PredictsSuccess, Task
from enpire.offline.rollouts import Rollout
from enpire.plugins import load
from enpire.policy_calls import collector_of, explores
from enpire.store.episodes import FolderStore
from enpire.store.versions import manifest
from enpire.types import SOURCE_EXPERT, Start
from sim.operator import BranchRig

SECRET = b"benchmark of improvement, seed "
EVALUATION, COLLECTION, VIABILITY = 100_000, 1_000, 200_000
"""First indices of the starts: evaluation, collection and the test of p_v never share one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedVersion:
    """The result of a training run."""

    version: Path
    cpu_s: float = 0.0
    steps: int = 0
    """Gradient steps of the actor; 0 if the learner reports none."""
    gave_up: bool = False
    """The learner failed; `version` is the one before."""

    def followed_by(self, more: TrainedVersion) -> TrainedVersion:
        """The result of this run and one after it."""
        gave_up = self.gave_up or more.gave_up
        return replace(more, cpu_s=self.cpu_s + more.cpu_s, steps=self.steps + more.steps, gave_up=gave_up)


class Bench:
    """One seed: its rigs, its base and its arms. Finished evaluations are in `root`/results.jsonl, not repeated."""

    def __init__(self, plan: Plan, seed: int, root: Path, at: str) -> None:
        """Build the rigs; the evaluation's rig has other physical parameters. `at`: the commit."""
        self.plan, self.seed, self.root, self._at = plan, seed, root, at
        self.task = cast("type[Task]", load("tasks", plan.task))()
        lanes = min(plan.lanes, max(plan.episodes, plan.starts))
        self.collecting = SupervisedLoop(self.task, self.task.rig(lanes, 10 + seed), 10 + seed, plan.supervised)
        self.judging = SupervisedLoop(self.task, self.task.rig(lanes, 500 + seed), 500 + seed, 0.0)
        self.store = FolderStore(root / "episodes")
        root.mkdir(parents=True, exist_ok=True)
        self._results = root / "results.jsonl"
        self.done = {(found.arm, found.round): found for found in read_results(self._results)}

    def starts(self, first: int, count: int) -> list[Start]:
        """Train starts by index; seeds differ in their indices."""
        shift = first + 1_000_000 * self.seed
        return [self.task.start("train", shift + index, SECRET + str(self.seed).encode()) for index in range(count)]

    def base(self) -> Evaluation:
        """Evaluate the policy that is cloned from the expert's episodes."""
        if ("base", 0) in self.done:
            return self.done["base", 0]
        rollouts = self.collecting.run(
            self.task.expert(self.seed), self.starts(0, self.plan.demonstrations), SOURCE_EXPERT
        )
        demonstrations = keep(self.store, rollouts, "scripted:expert", 0, "demonstrations")
        return self._evaluate(
            "base", 0, self._learn(self.plan.recipe("base"), "base", demonstrations, None, 0), demonstrations
        )

    def arm(self, name: str) -> list[Evaluation]:
        """Run all rounds of one arm; returns the evaluation after each."""
        recipe, base = self.plan.recipe(name), self.base()
        found = [base]
        for round_ in range(1, self.plan.rounds + 1):
            if (name, round_) not in self.done:
                self._round(recipe, name, found, round_)
            found.append(self.done[name, round_])
        return found

    def viability(self, round_: int) -> ViabilitySample:
        """Predictions of habc_plus's viability head after a round, with branch rollouts; from the file if finished."""
        path = self.root / "habc_plus" / f"foreseen{round_}.json"
        if path.exists():
            return ViabilitySample.read(path)
        version, before = (
            Path((self.done["habc_plus", index] if index else self.base()).version) for index in (round_, round_ - 1)
        )
        head = _loaded(version)
        if not isinstance(head, PredictsSuccess):
            return ViabilitySample(seed=self.seed, round=round_, predicted=[], measured=[])
        count = min(self.plan.viability_starts, self.plan.starts)
        rig = self.task.rig(min(self.plan.lanes, count), 700 + self.seed)
        if not isinstance(rig, BranchRig):
            # Branches need copies of a scene, which environments of other packages do not offer.
            return ViabilitySample(seed=self.seed, round=round_, predicted=[], measured=[])
        probe = ViabilityProbe(self.task, rig, 700 + self.seed, head)
        policy = _loaded(before)
        probe.run(collector_of(policy) or policy, self.starts(VIABILITY, count))
        found = ViabilitySample(seed=self.seed, round=round_, predicted=probe.predicted, measured=probe.measured)
        found.write(path)
        return found

    def _round(self, recipe: Recipe, name: str, past: Sequence[Evaluation], round_: int) -> None:
        own = [Path(folder) for item in past[1:] for folder in item.episodes]
        demonstrations = [Path(folder) for folder in past[0].episodes]
        trained, new = TrainedVersion(version=Path(past[-1].version)), list[Path]()
        turns, starts = self.plan.turns(name), self.starts(COLLECTION * round_, self.plan.episodes)
        for part in range(turns):
            turn = (round_ - 1) * turns + part + 1
            new += self._collect(trained.version, starts[part::turns], turn, name)
            parent = None if recipe.learner == "lerobot" and turn == 1 else trained.version
            try:
                more = self._learn(recipe, name, [*demonstrations, *own, *new], parent, turn)
            except LearningProblem as problem:
                # A failure is a result of the arm: the version before stays, and the other arms continue.
                print(f"  {name} round {round_} gave up: {problem}", flush=True)
                more = TrainedVersion(version=trained.version, gave_up=True)
            trained = trained.followed_by(more)
        self._evaluate(name, round_, trained, new)

    def _collect(self, version: Path, starts: Sequence[Start], turn: int, arm: str) -> list[Path]:
        """Roll out as stations do, most rollouts with the version's collector; returns the kept episodes."""
        policy = _loaded(version)
        other = collector_of(policy)
        if other is None:
            rollouts = self.collecting.run(policy, starts)
        else:
            deployed = [start for start in starts if not explores("collect", start, turn)]
            explored = [start for start in starts if explores("collect", start, turn)]
            rollouts = self.collecting.run(policy, deployed)
            rollouts += [replace(item, explored=True) for item in self.collecting.run(other, explored)]
        return keep(self.store, rollouts, version.name, turn, arm)

    def _learn(
        self, recipe: Recipe, name: str, episodes: Sequence[Path], parent: Path | None, turn: int
    ) -> TrainedVersion:
        folder = self.root / name
        # An interrupted round has collected other episodes, so its files are deleted.
        for left in (folder / f"work{turn}", folder / f"version{turn}"):
            shutil.rmtree(left, ignore_errors=True)
        job = ImprovementJob(
            recipe=recipe.mapping(),
            task=self.plan.task,
            parent=parent,
            episodes=episodes,
            work=folder / f"work{turn}",
            output=folder / f"version{turn}",
            round=turn,
            seed=1000 * self.seed + turn,
        )
        began = time.process_time()
        metrics = cast("type[Learner]", load("learners", recipe.learner))().improve(job, lambda _: None)
        seconds = time.process_time() - began
        rollouts = ", ".join(f"{key} {value:.3g}" for key, value in metrics.items())
        print(f"  {name} round {turn}: {seconds:.1f} CPU s; {rollouts}", flush=True)
        return TrainedVersion(version=job.output, cpu_s=round(seconds, 2), steps=int(metrics.get("steps", 0)))

    def _evaluate(self, arm: str, round_: int, trained: TrainedVersion, new: Sequence[Path]) -> Evaluation:
        """Evaluate a version from the fixed starts and append the result to the file."""
        rollouts: list[Rollout] = self.judging.run(_loaded(trained.version), self.starts(EVALUATION, self.plan.starts))
        evaluation = Evaluation(
            seed=self.seed,
            arm=arm,
            round=round_,
            success=[item.success for item in rollouts],
            ticks=[item.ticks for item in rollouts],
            version=str(trained.version),
            episodes=[str(folder) for folder in new],
            learning_cpu_s=trained.cpu_s,
            steps=trained.steps,
            commit=self._at,
            gave_up=trained.gave_up,
        )
        with self._results.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(evaluation.mapping()) + "\n")
        self.done[arm, round_] = evaluation
        print(f"seed {self.seed} {arm} round {round_}: {evaluation.text()}", flush=True)
        return evaluation


def _loaded(version: Path) -> Policy:
    return cast("Callable[[Path], Policy]", load("policies", str(manifest(version)["kind"])))(version)


def read_results(path: Path) -> list[Evaluation]:
    """The finished evaluations of a file; an incomplete last line is ignored."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    return [Evaluation(**json.loads(line)) for line in lines if line.endswith("}")]


def check_commit(root: Path, at: str) -> None:
    """UsageError where the folder holds results of another commit than `at`."""
    kept = {item.commit for path in root.glob("seed*/results.jsonl") for item in read_results(path)}
    if kept - {at}:
        raise UsageError(
            f"{root} holds results of commit {', '.join(sorted(kept - {at}))}, and this is {at}; give --keep another "
            "folder, or --mix to continue with both: the table then names every commit."
        )


def check_plan(plan: Plan, root: Path) -> None:
    """Write the plan beside its results; UsageError where the folder holds those of another plan."""
    path, text = root / "plan.json", json.dumps(asdict(plan), indent=1, sort_keys=True) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise UsageError(f"{root} holds results of another plan ({path}); give --keep another folder.")
    path.write_text(text, encoding="utf-8")


def run(plan: Plan, arms: Sequence[str], seeds: Sequence[int], root: Path, mix: bool = False) -> int:
    """Run arms over seeds and print the table, which also lies in `root` beside the plot; 1 when a claim fails.

    Without `mix`, of one commit only.
    """
    at = commit()
    check_plan(plan, root)
    if not mix:
        check_commit(root, at)
    print(describe(seeds), flush=True)
    found: dict[str, list[Evaluation]] = {name: [] for name in ("base", *arms)}
    viability: list[ViabilitySample] = []
    for seed in seeds:
        bench = Bench(plan, seed, root / f"seed{seed}", at)
        found["base"].append(bench.base())
        for name in arms:
            found[name] += bench.arm(name)[1:]
        if "habc_plus" in arms:
            viability += [bench.viability(round_) for round_ in range(1, plan.rounds + 1)]
    limit = cast("type[Task]", load("tasks", plan.task))().spec.limit_ticks
    head = (
        f"{plan.task}, success within {limit} commands, after {plan.rounds} rounds of {plan.episodes} rollouts "
        f"({plan.supervised:.0%} supervised), {len(seeds)} seed(s), {plan.starts} paired starts each"
    )
    commits = sorted({item.commit for items in found.values() for item in items})
    notes = f"{intervals_line(len(seeds))}\n{tuning(plan.task, seeds)}"
    shown = table(found, plan.rounds, viability)
    text = f"{describe(seeds, commits)}\n{notes}\n{head}\n{shown}"
    (root / "table.txt").write_text(text + "\n", encoding="utf-8")
    (root / "plot.svg").write_text(curve(found, head), encoding="utf-8")
    print(f"\n{text}\n")
    # The table names the claims that fail; with few seeds or starts none passes or fails.
    return max(report(success_of_arms(found, plan.rounds)), int("  FAIL " in shown))


def plan_of(given: argparse.Namespace) -> tuple[Plan, list[str], range]:
    """Plan, arms and seeds of the command line."""
    plan = Plan.of(given.task, 0.5 if given.full or given.smoke else 0.0)
    if given.full:
        plan = replace(plan, starts=500)
    if given.smoke:
        plan = replace(plan, rounds=1, demonstrations=8, episodes=8, starts=8, lanes=8, most_steps=20)
    for name in ("demonstrations", "rounds", "starts", "episodes", "supervised"):
        if getattr(given, name) is not None:
            plan = replace(plan, **{name: getattr(given, name)})
    names: list[str] = list(QUICK)
    if given.arms == "all" or (not given.arms and (given.full or given.smoke)):
        names = list(ARMS)
    elif given.arms:
        names = str(given.arms).split(",")
    first = given.first_seed if given.first_seed is not None else FIRST_FRESH_SEED if given.full else 0
    return plan, names, range(first, first + (given.seeds or (LEAST_SEEDS if given.full else 1)))


def main() -> int:
    """Parse the command line and run; 1 when a claim fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all arms, 5 fresh seeds, 500 starts")
    parser.add_argument("--smoke", action="store_true", help="all arms, one tiny round")
    parser.add_argument("--arms", default="", help=f"all, or comma separated: {', '.join(ARMS)}")
    parser.add_argument("--demonstrations", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--starts", type=int)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--supervised", type=float, help="share of the episodes that a simulated operator supervises")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument(
        "--first-seed",
        type=int,
        help="the first seed (0; with --full the first fresh one); each has its own starts",
    )
    parser.add_argument(
        "--task", default="fragile_insertion", help="default: fragile_insertion, where haste breaks a pin"
    )
    parser.add_argument("--keep", default="", help="folder for all results; an interrupted run resumes from it")
    parser.add_argument("--mix", action="store_true", help="continue in a folder with results of other commits")
    given = parser.parse_args()
    plan, names, seeds = plan_of(given)
    unknown = [name for name in names if name not in ARMS]
    if unknown:
        parser.error(f"there is no arm called {unknown[0]}; there are: {', '.join(ARMS)}")
    root = Path(given.keep or tempfile.mkdtemp(prefix="improvement-"))
    root.mkdir(parents=True, exist_ok=True)
    try:
        return run(plan, names, seeds, root, given.mix)
    finally:
        if not given.keep:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
