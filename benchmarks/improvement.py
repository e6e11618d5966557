"""Does a learner make the policy better? Base from demonstrations, then rounds, without the fleet and without a gate.

    python -m benchmarks.improvement                    minutes: habc_plus against filtered_bc, 1 seed
    python -m benchmarks.improvement --arms all         every arm, 1 seed
    python -m benchmarks.improvement --full             every arm, 3 seeds, 500 paired starts, half of the episodes
                                                        watched by a simulated operator
    python -m benchmarks.improvement --smoke            every arm once over, far too small to say anything

Every arm collects the same number of rollouts and is judged on the same starts; hil_serl, which learns while it acts,
learns ten times in a round. Every arm that trains the flow actor (clone, recap, habc) makes as many passes over its
windows, within the same limits, as the task's HABC does; the table says how many gradient steps that came to. They
begin from the base, as best_of_n and residual_td3 do. The arms that the table marks with a star begin from networks
(spiral_search: a program) of their own: of the base they have its demonstrations and the rollouts of the first round
alone (hil_serl: the first ten). Every candidate is adopted, no best one is picked. Success comes with its Wilson
interval.
With --keep FOLDER a cut run goes on where it stopped; the folder holds results.jsonl, table.txt and plot.svg, and each
result says its commit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

from benchmarks.improvement_plans import ARMS, QUICK, Plan
from benchmarks.improvement_table import Judged, curve, table
from benchmarks.improvement_viability import Foreseen, Looks
from benchmarks.machine import commit, describe
from benchmarks.rollouts import keep
from benchmarks.supervised import SupervisedLoop
from enpire.campaign.recipe import Recipe
from enpire.errors import LearningProblem, UsageError
from enpire.interfaces import ImprovementJob, Learner, Policy, PredictsSuccess, Task
from enpire.offline.rollouts import Rollout
from enpire.plugins import load
from enpire.store.episodes import FolderStore
from enpire.store.versions import manifest
from enpire.types import SOURCE_EXPERT, Start

SECRET = b"benchmark of improvement, seed "
EVALUATION, COLLECTION, FORESIGHT = 100_000, 1_000, 200_000
"""First indices of the starts: evaluation, collection and the test of p_v never share one."""
FORESIGHT_STARTS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What a learner leaves."""

    version: Path
    cpu_s: float = 0.0
    steps: int = 0
    """Gradient steps of the policy; 0 where the learner counts none."""
    gave_up: bool = False
    """It could not go on; `version` is the one before."""

    def then(self, more: Learned) -> Learned:
        """This and what was learned after it."""
        gave_up = self.gave_up or more.gave_up
        return replace(more, cpu_s=self.cpu_s + more.cpu_s, steps=self.steps + more.steps, gave_up=gave_up)


class Bench:
    """One seed: its rigs, its base, its arms. What is done lies in `root`/results.jsonl and is not done again."""

    def __init__(self, plan: Plan, seed: int, root: Path, at: str) -> None:
        """Build the rigs; the evaluation has one of its own, with another station's physics. `at`: the commit."""
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

    def base(self) -> Judged:
        """The expert's episodes, and the policy that is cloned from them."""
        if ("base", 0) in self.done:
            return self.done["base", 0]
        shown = self.collecting.run(
            self.task.expert(self.seed), self.starts(0, self.plan.demonstrations), SOURCE_EXPERT
        )
        taught = keep(self.store, shown, "scripted:expert", 0, "demonstrations")
        return self._judge("base", 0, self._learn(self.plan.recipe("base"), "base", taught, None, 0), taught)

    def arm(self, name: str) -> list[Judged]:
        """All rounds of one arm; the evaluation after each."""
        recipe, base = self.plan.recipe(name), self.base()
        found = [base]
        for round_ in range(1, self.plan.rounds + 1):
            if (name, round_) not in self.done:
                self._round(recipe, name, found, round_)
            found.append(self.done[name, round_])
        return found

    def foreseen(self, round_: int) -> Foreseen:
        """How well the viability head of habc_plus foresees after a round; from the file where that is done."""
        path = self.root / "habc_plus" / f"foreseen{round_}.json"
        if path.exists():
            return Foreseen(**json.loads(path.read_text(encoding="utf-8")))
        version, before = (
            Path((self.done["habc_plus", index] if index else self.base()).version) for index in (round_, round_ - 1)
        )
        head = _loaded(version)
        if not isinstance(head, PredictsSuccess):
            return Foreseen(seed=self.seed, round=round_, said=[], truth=[])
        count = min(FORESIGHT_STARTS, self.plan.starts)
        looks = Looks(self.task, self.task.rig(min(self.plan.lanes, count), 700 + self.seed), 700 + self.seed, head)
        looks.run(_loaded(before), self.starts(FORESIGHT, count))
        found = Foreseen(seed=self.seed, round=round_, said=looks.said, truth=looks.truth)
        path.write_text(json.dumps(asdict(found)), encoding="utf-8")
        return found

    def _round(self, recipe: Recipe, name: str, past: Sequence[Judged], round_: int) -> None:
        own = [Path(folder) for item in past[1:] for folder in item.episodes]
        taught = [Path(folder) for folder in past[0].episodes]
        learned, new = Learned(version=Path(past[-1].version)), list[Path]()
        turns, starts = self.plan.turns(name), self.starts(COLLECTION * round_, self.plan.episodes)
        for part in range(turns):
            turn = (round_ - 1) * turns + part + 1
            collected = self.collecting.run(_loaded(learned.version), starts[part::turns])
            new += keep(self.store, collected, learned.version.name, turn, name)
            parent = None if recipe.learner == "lerobot" and turn == 1 else learned.version
            try:
                more = self._learn(recipe, name, [*taught, *own, *new], parent, turn)
            except LearningProblem as problem:
                # A learner that gives up is a result of its arm: the version before stays, and the other arms go on.
                print(f"  {name} round {round_} gave up: {problem}", flush=True)
                more = Learned(version=learned.version, gave_up=True)
            learned = learned.then(more)
        self._judge(name, round_, learned, new)

    def _learn(self, recipe: Recipe, name: str, episodes: Sequence[Path], parent: Path | None, turn: int) -> Learned:
        folder = self.root / name
        # A round that was cut has collected other episodes: what it left is of no use.
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
        shown = ", ".join(f"{key} {value:.3g}" for key, value in metrics.items())
        print(f"  {name} round {turn}: {seconds:.1f} CPU s; {shown}", flush=True)
        return Learned(version=job.output, cpu_s=round(seconds, 2), steps=int(metrics.get("steps", 0)))

    def _judge(self, arm: str, round_: int, learned: Learned, new: Sequence[Path]) -> Judged:
        """The evaluation, always from the same starts; written down."""
        rollouts: list[Rollout] = self.judging.run(_loaded(learned.version), self.starts(EVALUATION, self.plan.starts))
        judged = Judged(
            seed=self.seed,
            arm=arm,
            round=round_,
            success=[item.success for item in rollouts],
            ticks=[item.ticks for item in rollouts],
            version=str(learned.version),
            episodes=[str(folder) for folder in new],
            learning_cpu_s=learned.cpu_s,
            steps=learned.steps,
            commit=self._at,
            gave_up=learned.gave_up,
        )
        with self._results.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(judged.mapping()) + "\n")
        self.done[arm, round_] = judged
        print(f"seed {self.seed} {arm} round {round_}: {judged.said()}", flush=True)
        return judged


def _loaded(version: Path) -> Policy:
    return cast("Callable[[Path], Policy]", load("policies", str(manifest(version)["kind"])))(version)


def read_results(path: Path) -> list[Judged]:
    """What is done; a last line that was cut does not count."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    return [Judged(**json.loads(line)) for line in lines if line.endswith("}")]


def check_commit(root: Path, at: str) -> None:
    """UsageError where the folder holds results of another commit than `at`."""
    there = {item.commit for path in root.glob("seed*/results.jsonl") for item in read_results(path)}
    if there - {at}:
        raise UsageError(
            f"{root} holds results of commit {', '.join(sorted(there - {at}))}, and this is {at}; give --keep another "
            "folder, or --mix to go on all the same: the table then names every commit."
        )


def check_plan(plan: Plan, root: Path) -> None:
    """Write the plan beside its results; UsageError where the folder holds those of another plan."""
    path, text = root / "plan.json", json.dumps(asdict(plan), indent=1, sort_keys=True) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise UsageError(f"{root} holds results of another plan ({path}); give --keep another folder.")
    path.write_text(text, encoding="utf-8")


def run(plan: Plan, arms: Sequence[str], seeds: Sequence[int], root: Path, mix: bool = False) -> str:
    """Run arms over seeds; the table, which also lies in `root` beside the plot. Without `mix`, of one commit only."""
    at = commit()
    check_plan(plan, root)
    if not mix:
        check_commit(root, at)
    print(describe(seeds), flush=True)
    found: dict[str, list[Judged]] = {name: [] for name in ("base", *arms)}
    foreseen: list[Foreseen] = []
    for seed in seeds:
        bench = Bench(plan, seed, root / f"seed{seed}", at)
        found["base"].append(bench.base())
        for name in arms:
            found[name] += bench.arm(name)[1:]
        if "habc_plus" in arms:
            foreseen += [bench.foreseen(round_) for round_ in sorted({1, plan.rounds})]
    head = (
        f"{plan.task}, after {plan.rounds} rounds of {plan.episodes} rollouts ({plan.supervised:.0%} supervised), "
        f"{len(seeds)} seed(s), {plan.starts} paired starts each"
    )
    commits = sorted({item.commit for items in found.values() for item in items})
    text = f"{describe(seeds, commits)}\n{head}\n{table(found, plan.rounds, foreseen)}"
    (root / "table.txt").write_text(text + "\n", encoding="utf-8")
    (root / "plot.svg").write_text(curve(found, head), encoding="utf-8")
    return text


def plan_of(given: argparse.Namespace) -> tuple[Plan, list[str], range]:
    """What the command line asks for."""
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
    return plan, names, range(given.first_seed, given.first_seed + (given.seeds or (3 if given.full else 1)))


def main() -> None:
    """Parse the command line and run."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--full", action="store_true", help="all arms, 3 seeds, 500 starts")
    words.add_argument("--smoke", action="store_true", help="all arms, one tiny round: does each one run?")
    words.add_argument("--arms", default="", help=f"all, or comma separated: {', '.join(ARMS)}")
    words.add_argument("--demonstrations", type=int)
    words.add_argument("--rounds", type=int)
    words.add_argument("--starts", type=int)
    words.add_argument("--episodes", type=int)
    words.add_argument("--supervised", type=float, help="share of the episodes that a simulated operator watches")
    words.add_argument("--seeds", type=int, default=0)
    words.add_argument("--first-seed", type=int, default=0, help="the first of the seeds: each has starts of its own")
    words.add_argument("--task", default="pin_insertion")
    words.add_argument("--keep", default="", help="folder for all that is made; a cut run goes on from there")
    words.add_argument("--mix", action="store_true", help="go on in a folder with results of other commits")
    given = words.parse_args()
    plan, names, seeds = plan_of(given)
    unknown = [name for name in names if name not in ARMS]
    if unknown:
        words.error(f"there is no arm called {unknown[0]}; there are: {', '.join(ARMS)}")
    root = Path(given.keep or tempfile.mkdtemp(prefix="improvement-"))
    root.mkdir(parents=True, exist_ok=True)
    try:
        print("\n" + run(plan, names, seeds, root, given.mix))
    finally:
        if not given.keep:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
