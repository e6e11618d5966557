"""Tunes the parameters of a program with CMA-ES (Hansen, arXiv 1604.00772) in the learner's own simulation of the task.

For tasks such as `pin_insertion_blind`, where imitating the successful episodes does not help. The rollouts use train
starts and rigs with their own physical parameters. The metrics count them, because they are a cost.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from enpire.campaign.recipe import settings_of
from enpire.files import canonical
from enpire.interfaces import ImprovementJob, Progress, Rig, Task
from enpire.offline.rollouts import RolloutLoop
from enpire.plugins import load
from enpire.shares import require_share
from enpire.store import durable, versions
from enpire.types import Start
from policies import program
from policies.bounds import at_least
from policies.program import ProgramVersion

FIRST_START = 10_000_000
"""Train starts from this index on are used by searches only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Settings of a recipe for a program search."""

    program: str = "pin_spiral"
    generations: int = 8
    population: int = 10
    starts: int = 12
    """Rollouts of each candidate; all candidates of a generation have the same starts."""
    follow_starts: int = 48
    """The same when the search starts from a parent's values. Such candidates seldom fail: with few rollouts nearly all
    of them seem equally good, and the search prefers haste."""
    spread: float = 0.25
    """Initial standard deviation, as a share of each parameter's interval."""
    follow_spread: float = 0.1
    """The initial standard deviation when the search starts from a parent's values."""
    time_price: float = 0.2
    """Cost of an episode of full length; a failure costs 1."""
    rigs: int = 2
    """Number of simulated rigs, used in turn."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        if min(self.generations, self.starts, self.follow_starts, self.rigs) < 1 or self.population < 4:
            raise ValueError("generations, starts, follow_starts and rigs must be at least 1, population at least 4.")
        require_share("spread", self.spread, "(0, 1]")
        require_share("follow_spread", self.follow_spread, "(0, 1]")
        at_least(0, self, "time_price")
        program.parameters(self.program)


class ProgramSearch:
    """The learner of program parameters."""

    settings: ClassVar = SearchSettings
    parent_kinds: ClassVar = frozenset({"program"})
    smoke: ClassVar = {"generations": 1, "population": 4, "starts": 2, "follow_starts": 2}

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Run the search; the version is the mean of the last generation, not its best candidate."""
        settings = settings_of(self.settings, job.recipe)
        durable.make_folder(job.work)
        task = cast("Callable[[], Task]", load("tasks", job.task))()
        search = _Search(job, settings, task)
        for done in range(1, settings.generations + 1):
            best = search.generation(done - 1)
            report(Progress(stage="search", done=done, total=settings.generations, metrics={"best_cost": best}))
        version = search.version(search.centre())
        staged = durable.stage_folder(job.output)
        durable.fill_folders({staged: {"policy.json": program.manifest_bytes(version)}})
        durable.reveal([(staged, job.output)])
        return search.metrics()


class _Search:
    """CMA-ES over the unit cube. Finished generations are saved, and a killed search replays them."""

    def __init__(self, job: ImprovementJob, settings: SearchSettings, task: Task) -> None:
        self._settings, self._task, self._seed = settings, task, job.seed
        about = {"recipe": job.recipe, "parent": job.parent and job.parent.name, "seed": job.seed, "round": job.round}
        self._digest, self._file = canonical(about), job.work / "generations.json"
        self._costs: list[list[float]] = self._finished()
        self._rigs: dict[int, Rig] = {}
        self._rollouts = 0
        self._round = job.turn_or_round
        parent = _parent(job, settings)
        self._count = settings.starts if parent is None else settings.follow_starts
        self._strategy = _strategy(settings, _first(parent, settings), job.seed)

    def generation(self, index: int) -> float:
        """Run or replay one generation; returns its lowest cost."""
        asked = [np.asarray(point, np.float64) for point in self._strategy.ask()]
        if index == len(self._costs):
            self._costs.append([self._cost(point, index) for point in asked])
            durable.write(self._file, json.dumps({"job": self._digest, "costs": self._costs}).encode())
        costs = self._costs[index]
        self._rollouts += len(costs) * self._count
        self._strategy.tell(asked, costs)
        return min(costs)

    def centre(self) -> np.ndarray:
        return np.asarray(self._strategy.mean, np.float64)

    def version(self, point: np.ndarray) -> ProgramVersion:
        name = self._settings.program
        values = program.values_at(name, point.astype(np.float32))
        return ProgramVersion(program=name, values=values, period_s=self._task.spec.period_s)

    def metrics(self) -> dict[str, float]:
        first, last = self._costs[0], self._costs[-1]
        values = self.version(self.centre()).values
        return {
            "rollouts": float(self._rollouts),
            "median_cost_first": float(np.median(first)),
            "median_cost_last": float(np.median(last)),
        } | {f"value_{name}": value for name, value in values.items()}

    def _cost(self, point: np.ndarray, index: int) -> float:
        settings = self._settings
        rig = self._rig(index % settings.rigs)
        policy = program.policy_of(self.version(point))
        rollouts = RolloutLoop(self._task, rig).run(policy, self._starts(index))
        duration = np.mean([item.ticks for item in rollouts]) / self._task.spec.limit_ticks
        return float(np.mean([not item.success for item in rollouts]) + settings.time_price * duration)

    def _starts(self, generation: int) -> Sequence[Start]:
        count = self._count
        first = FIRST_START + ((1000 * self._round + generation) + 100_000 * self._seed % 7_000_000) * count
        return [self._task.start("train", first + index, b"") for index in range(count)]

    def _rig(self, which: int) -> Rig:
        if which not in self._rigs:
            self._rigs[which] = self._task.rig(self._count, 7_000 + 10 * self._seed + which)
        return self._rigs[which]

    def _finished(self) -> list[list[float]]:
        if not self._file.exists():
            return []
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
            return [[float(cost) for cost in costs] for costs in found["costs"]] if found["job"] == self._digest else []
        except (ValueError, KeyError, TypeError):
            # A damaged file is not an error: the search starts again.
            return []


def _parent(job: ImprovementJob, settings: SearchSettings) -> ProgramVersion | None:
    """The version to start from, if that is the same program."""
    if job.parent is None or versions.manifest(job.parent)["kind"] != "program":
        return None
    found = program.read(job.parent)
    return found if found.program == settings.program else None


def _first(parent: ProgramVersion | None, settings: SearchSettings) -> tuple[list[float], float]:
    """Start point and standard deviation: the middle of every interval, or the parent's values."""
    if parent is None:
        return [0.5] * len(program.parameters(settings.program)), settings.spread
    return program.point_of(parent.program, parent.values), settings.follow_spread


def _strategy(settings: SearchSettings, first: tuple[list[float], float], seed: int) -> Any:
    with warnings.catch_warnings():
        # On import it warns that it cannot plot.
        warnings.simplefilter("ignore", UserWarning)
        import cma  # pyright: ignore[reportMissingTypeStubs]

    random = np.random.default_rng((seed, 17))
    options = {
        "popsize": settings.population,
        "bounds": [0.0, 1.0],
        "randn": lambda *shape: random.standard_normal(shape),
        "seed": np.nan,
        "verbose": -9,
        "verb_log": 0,
        "maxiter": settings.generations + 1,
    }
    return cma.CMAEvolutionStrategy(first[0], first[1], options)  # pyright: ignore[reportUnknownMemberType]
