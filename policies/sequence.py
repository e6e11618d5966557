"""A recipe that is a sequence of recipes, each for a number of rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, cast

from enpire.campaign.recipe import Recipe, read_recipe, require_learner, settings_of
from enpire.errors import FileProblem
from enpire.interfaces import ImprovementJob, Learner, Progress
from enpire.plugins import load


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceSettings:
    """Settings of a recipe for a sequence."""

    stages: str
    """Recipes in order with their rounds, such as `filtered_bc 2, habc_plus`. The last one has no limit of rounds. In a
    branch, its turns count instead of rounds."""

    def __post_init__(self) -> None:
        """Refuse a list that cannot be parsed with ValueError."""
        for _ in self.parsed():
            pass

    def parsed(self) -> list[tuple[str, int]]:
        """(recipe, rounds) in order; ValueError if the list cannot be parsed."""
        found: list[tuple[str, int]] = []
        for part in self.stages.split(","):
            match part.split():
                case [name]:
                    found.append((name, 1))
                case [name, rounds] if rounds.isdigit() and int(rounds) > 0:
                    found.append((name, int(rounds)))
                case _:
                    raise ValueError(
                        f"stages holds {part.strip()!r}; write recipes and their rounds: 'filtered_bc 2, habc_plus'."
                    )
        return found

    def at(self, round_: int) -> str:
        """The recipe of a round. Rounds count from 1; round 0 (the base policy) uses the first recipe."""
        left = max(1, round_)
        stages = self.parsed()
        for name, rounds in stages[:-1]:
            if left <= rounds:
                return name
            left -= rounds
        return stages[-1][0]


class Sequence:
    """The learner of sequences."""

    settings: ClassVar = SequenceSettings

    def check(self, recipe: Mapping[str, object]) -> None:
        """FileProblem for a stage that is a sequence or that its own learner refuses."""
        for name, _ in settings_of(self.settings, recipe).parsed():
            require_learner(_stage(name))

    def stage(self, recipe: Recipe, turn_or_round: int) -> Recipe:
        """The recipe of a round, or of a turn of a branch."""
        return _stage(settings_of(self.settings, recipe.mapping()).at(turn_or_round))

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Run the learner of the recipe of this round, or of this turn of a branch; returns its metrics."""
        recipe = _stage(settings_of(self.settings, job.recipe).at(job.turn_or_round))
        learner = cast("Callable[[], Learner]", load("learners", recipe.learner))()
        return learner.improve(replace(job, recipe=recipe.mapping()), report)


def _stage(name: str) -> Recipe:
    recipe = read_recipe(name)
    if load("learners", recipe.learner) is Sequence:
        raise FileProblem(
            f"The stage {name} is a sequence itself, and a sequence cannot contain a sequence; name its stages instead."
        )
    return recipe
