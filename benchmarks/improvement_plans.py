"""Arms and sizes of the benchmark of improvement, and the settings of single tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import cast

from benchmarks.tuning_seeds import freshness, listed
from enpire.campaign.recipe import Recipe, Setting, read_recipe
from policies.clone import RoundSettings
from policies.program_search import ProgramSearch

TRAIN_THE_ACTOR = frozenset({"clone", "habc", "recap"})
"""Learners whose recipes set how the flow actor is built and trained."""
COOLING = frozenset({"cooling", "least_temperature", "collect_temperature"})
"""Settings of the actor that belong to a recipe: only those that cool like habc_plus take them over from the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """Recipes and sizes of one task."""

    base: str = "clone_demonstrations"
    """Recipe of the base policy."""
    habc: str = "habc_plus"
    """The task's own recipe for HABC."""
    demonstrations: int = 60
    rounds: int = 4
    episodes: int = 100
    viability_starts: int = 48
    """Starts of the rollouts from whose states p_v is compared with branch rollouts."""

    def training(self, shipped: Recipe) -> Mapping[str, Setting]:
        """The task's changes to habc_plus, which every arm that trains the actor takes over.

        Arms without HABC's critics take over only the settings of the actor. A recipe with its own cooling keeps it.
        """
        if shipped.learner not in TRAIN_THE_ACTOR or shipped.name == read_recipe(self.base).name:
            return {}
        plain = read_recipe("habc_plus").settings
        changed = {name: value for name, value in read_recipe(self.habc).settings.items() if plain.get(name) != value}
        actor = {item.name for item in fields(RoundSettings)}
        cools_itself = any(shipped.settings.get(name) != plain.get(name) for name in COOLING)
        own = COOLING if cools_itself else frozenset[str]()
        taken = changed.keys() - own if shipped.learner == "habc" else changed.keys() & (actor - COOLING)
        return {name: value for name, value in changed.items() if name in taken}

    @property
    def cooling(self) -> Mapping[str, Setting]:
        """How the task's HABC cools its versions."""
        return {name: value for name, value in read_recipe(self.habc).settings.items() if name in COOLING}


TASKS: Mapping[str, TaskPlan] = {
    "gym:benchmarks/outside/pusht.yaml": TaskPlan(
        base="benchmarks/outside/clone_pusht.yaml",
        habc="benchmarks/outside/habc_pusht.yaml",
        demonstrations=2000,
        rounds=3,
        episodes=250,
    ),
    "fragile_insertion": TaskPlan(rounds=3),
    "fragile_ziptie": TaskPlan(
        base="clone_fragile_ziptie",
        habc="habc_fragile_ziptie",
        demonstrations=200,
        rounds=4,
        episodes=300,
        viability_starts=12,
    ),
    "push_t": TaskPlan(base="clone_push_t", habc="habc_push_t", demonstrations=1000, rounds=4, episodes=250),
}
"""Tasks with sizes of their own."""

DEVELOPMENT: Mapping[str, frozenset[int]] = {
    "benchmarks.development_tasks:BrittlePin": frozenset({900, *range(902, 916)}),
    "fragile_ziptie": frozenset({150, 151, 152, 153, 154, 155, 158, 900}),
    "gym:benchmarks/outside/car.yaml": frozenset({900}),
    "gym:benchmarks/outside/lander.yaml": frozenset({900}),
    "gym:benchmarks/outside/pusht.yaml": frozenset({131, 900}),
    "gym:benchmarks/outside/reacher.yaml": frozenset({900}),
    "pin_insertion": frozenset({0, 1, 2, 77, 78, 79, 80, 81}),
    "pin_insertion_blind": frozenset({0, 1, 2, 77, 78, 79}),
    "push_t": frozenset({0, 1, 3, 4, 6, 7, 8, 77, 78}),
}
"""Task -> seeds on which settings of shipped recipes were chosen."""
REPORTED: Mapping[str, frozenset[int]] = {
    "fragile_insertion": frozenset(
        {*range(100, 105), *range(120, 125), *range(150, 155), *range(200, 215), *range(225, 230)}
    ),
    "fragile_ziptie": frozenset({100, 120, 121, *range(125, 129), *range(160, 187)}),
    "gym:benchmarks/outside/car.yaml": frozenset(range(100, 105)),
    "gym:benchmarks/outside/lander.yaml": frozenset(range(100, 105)),
    "gym:benchmarks/outside/pusht.yaml": frozenset({130}),
    "gym:benchmarks/outside/reacher.yaml": frozenset(range(100, 105)),
    "pin_insertion": frozenset({*range(100, 105), *range(120, 125), *range(150, 155), *range(220, 225)}),
}
"""Task -> seeds whose results were published. No setting was chosen on them, but later recipes were written with these
results known, so a new table needs other seeds."""
FIRST_FRESH_SEED = 230
"""First seed of `--full`. A table of seeds from here on is fresh once: then they belong into `REPORTED`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One arm: a shipped recipe with some settings changed."""

    recipe: str
    changes: Mapping[str, object]
    cooled: bool = False
    """Whether its versions cool as those of the task's HABC."""
    turns: int = 1
    """Training runs in a round, each after its share of the rollouts; above 1 for those that learn while they act."""

    def made(self, task: TaskPlan, most_steps: int = 0) -> Recipe:
        """The recipe with the task's and the arm's changes; `most_steps` above 0 shortens training (--smoke)."""
        shipped = read_recipe(self.recipe)
        cooling = task.cooling if self.cooled else {}
        settings = {**shipped.settings, **task.training(shipped), **cooling, **self.changes}
        if most_steps and shipped.learner == "program_search":
            settings |= ProgramSearch.smoke
        elif most_steps and shipped.learner == "best_of_n":
            settings |= {"critic_steps": most_steps, "score_steps": most_steps}
        elif most_steps and shipped.learner != "sequence":
            settings |= {"most_steps": most_steps, "least_steps": most_steps}
            settings |= {name: most_steps for name in ("critic_steps", "value_steps") if settings.get(name)}
        return Recipe(name=shipped.name, learner=shipped.learner, settings=cast("dict[str, float]", settings))


ARMS: Mapping[str, Arm] = {
    "sft": Arm(recipe="sft", changes={}),
    "filtered_bc": Arm(recipe="filtered_bc", changes={}),
    "filtered_bc_cooled": Arm(recipe="filtered_bc", changes={}, cooled=True),
    "imit_dagger": Arm(recipe="imit_dagger", changes={}),
    "imit_recap": Arm(recipe="imit_recap", changes={}),
    "recap": Arm(recipe="recap", changes={}),
    "habc_paper": Arm(recipe="habc_paper", changes={}),
    "habc_plus": Arm(recipe="habc_plus", changes={}),
    "habc_v": Arm(recipe="habc_v", changes={}),
    "habc_ir": Arm(recipe="habc_ir", changes={}),
    "fixed_gate": Arm(recipe="habc_fixed_gate", changes={}),
    "soft_gate": Arm(recipe="habc_soft_gate", changes={}),
    "hard_gate": Arm(recipe="habc_hard_gate", changes={}),
    "naive_labels": Arm(recipe="habc_naive_labels", changes={}),
    "no_cooling": Arm(recipe="habc_plus", changes={"cooling": 1.0}),
    "no_visits": Arm(recipe="habc_plus", changes={"state_weights": "successes"}),
    "best_of_n": Arm(recipe="best_of_n", changes={}),
    "filtered_then_habc": Arm(recipe="filtered_then_habc", changes={}),
    "residual_td3": Arm(recipe="residual_td3", changes={}),
    "hil_serl": Arm(recipe="hil_serl", changes={}, turns=10),
    "awac": Arm(recipe="awac", changes={}),
    "iql": Arm(recipe="iql", changes={}),
    "lerobot_act": Arm(recipe="lerobot_act", changes={}),
    "spiral_search": Arm(recipe="spiral_search", changes={}),
    "touch_search": Arm(recipe="touch_search", changes={}),
    "spiral_search_12": Arm(recipe="spiral_search", changes={"follow_starts": 12}),
}
QUICK = ("habc_plus", "filtered_bc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Sizes of one run of the benchmark."""

    task: str = "pin_insertion"
    demonstrations: int = 60
    rounds: int = 4
    episodes: int = 100
    starts: int = 200
    lanes: int = 32
    supervised: float = 0.0
    """Share of the episodes that the simulated operator supervises, in [0, 1]."""
    viability_starts: int = 48
    most_steps: int = 0
    """Gradient steps of every training; 0 leaves the recipes unchanged."""

    @classmethod
    def of(cls, task: str, supervised: float) -> Plan:
        """The default sizes for a task."""
        own = TASKS.get(task, TaskPlan())
        return cls(
            task=task, demonstrations=own.demonstrations, rounds=own.rounds, episodes=own.episodes,
            supervised=supervised, viability_starts=own.viability_starts,
        )  # fmt: skip

    def turns(self, arm: str) -> int:
        """Training runs of an arm in a round, at most one for each rollout."""
        return min(ARMS[arm].turns, self.episodes)

    def recipe(self, arm: str) -> Recipe:
        """The recipe of an arm, or of `base`."""
        own = TASKS.get(self.task, TaskPlan())
        wanted = Arm(recipe=own.base, changes={}) if arm == "base" else ARMS[arm]
        return wanted.made(own, self.most_steps)


def tuning(task: str, seeds: Sequence[int]) -> str:
    """The line of a table's head that says how settings were chosen, and which of its seeds are fresh."""
    chosen = "; ".join(f"{name} (seeds {listed(used)})" for name, used in sorted(DEVELOPMENT.items()))
    fresh = freshness(seeds, DEVELOPMENT.get(task, frozenset()), REPORTED.get(task, frozenset()))
    held = "" if task in DEVELOPMENT else f"{task} is a held-out task; "
    return f"settings  chosen on {chosen}; {held}{fresh}"
