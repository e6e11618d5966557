"""Made-up regimes and their training runs, for `benchmarks.pretend_branches`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from enpire.campaign.recipe import Recipe
from enpire.interfaces import ImprovementJob, Progress
from enpire.processes.training_process import TrainingProcess
from tests.fakes.fake_fleet import COIN_KIND

LEARNING_S = 15.0
"""Virtual time of a training run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """A made-up regime: how good its versions become, and where its best settings lie in the unit square."""

    ceiling: float
    """Success of its best versions."""
    per_turn: float
    """Share of the distance to the ceiling that a turn covers."""
    best: tuple[float, float]
    width: float
    """Distance from the best settings at which half of the ceiling is left."""
    ticks: int

    def chance(self, settings: Mapping[str, object], before: float) -> float:
        """Success of a version that a training run makes from one with success `before`."""
        away = math.dist(self.best, [float(str(settings[name])) for name in ("one", "two")])
        reach = self.ceiling * 0.5 ** ((away / self.width) ** 2)
        return before + self.per_turn * (reach - before) if reach > before else max(reach, 0.8 * before)


REGIMES: Mapping[str, Regime] = {
    "imitate": Regime(ceiling=0.60, per_turn=1.0, best=(0.5, 0.5), width=0.8, ticks=90),
    "weigh": Regime(ceiling=0.85, per_turn=0.6, best=(0.3, 0.6), width=0.5, ticks=80),
    "reinforce": Regime(ceiling=0.995, per_turn=0.5, best=(0.7, 0.2), width=0.4, ticks=50),
}


def recipes() -> Mapping[str, Recipe]:
    """The recipes of the regimes; all begin in the middle of their space."""
    space: dict[str, Any] = dict.fromkeys(("one", "two"), (0.0, 1.0, "linear"))
    return {
        name: Recipe(
            name=name, learner=f"{__name__}:Learner", settings={"regime": name, "one": 0.5, "two": 0.5}, space=space,
            turn_rollouts=40,
        )
        for name in REGIMES
    }  # fmt: skip


class Learner:
    """The learner of all three regimes; `parent_kinds` is any."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Write a version that says how good it is."""
        settings = cast("Mapping[str, object]", job.recipe["settings"])
        before = json.loads((job.parent / "policy.json").read_text())["chance"] if job.parent else 0.3
        regime = REGIMES[str(settings["regime"])]
        version = {"kind": COIN_KIND, "chance": regime.chance(settings, before), "round": job.round, "seed": job.seed}
        job.work.mkdir(parents=True, exist_ok=True)
        staged = job.work / "staged"
        staged.mkdir()
        (staged / "policy.json").write_text(json.dumps({**version, "ticks": regime.ticks}))
        staged.rename(job.output)
        return {}


class PretendTraining(TrainingProcess):
    """A training run that ends when the virtual clock says so."""

    def __init__(self, job: ImprovementJob, clock: Callable[[], float]) -> None:
        super().__init__(folder=job.work, process=cast("Any", None))
        self._clock, self._ends_s = clock, clock() + LEARNING_S
        Learner().improve(job, lambda _: None)

    def progress(self) -> Progress | None:
        """No report."""
        return None

    def metrics(self) -> Mapping[str, float] | None:
        """None until it has ended."""
        return {} if self._clock() >= self._ends_s else None

    def was_killed(self) -> bool:
        """Never."""
        return False

    def failure(self) -> str:
        """None."""
        return ""

    def cpu_s(self) -> float:
        """As long as it took."""
        return LEARNING_S

    def end(self) -> None:
        """It has no process."""
