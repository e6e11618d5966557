"""Which kept changes of a campaign raised success: trains with each set of changes, tries all on the same starts.

A kept change of regime replaces the recipe as a whole, and what its version learned by acting cannot be trained again
from records. So it is represented by the version that the gate promoted. The change of a set that was kept last says
what the set is worth, as it did in the campaign: a regime by its version, a change of settings by a version that is
trained with the set's changes of settings. A version contains what it was trained from. So it counts only in sets with
all kept changes that made its ancestors; in other sets, the change that was kept before it decides. Shapley
values hold for any such value of sets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from enpire.campaign.proposed import Experiment
from enpire.campaign.recipe import Recipe
from enpire.errors import UsageError
from enpire.files import canonical, parse, plain
from enpire.gate.intervals import wilson
from enpire.home import Home
from enpire.ids import file_name, is_version_id, version_id
from enpire.interfaces import Progress, Task
from enpire.offline.attribution import Effects, Outcomes, Subset, attributed, is_exact, orders_of, subsets_of
from enpire.offline.rollouts import RolloutLoop
from enpire.offline.train import RecordedData, TrainingRun, recorded_data, train
from enpire.parts import TASKS
from enpire.queries import campaigns
from enpire.queries.campaign_history import History
from enpire.store import durable, versions
from enpire.store.load_version import AllowedKinds, load_version
from enpire.types import Start

FIRST_START = 10**6
"""Train starts from here on; no campaign collects there."""
LANES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionPlan:
    """What to attribute, and how exactly."""

    campaign: str = ""
    """Id, beginning of an id, or name; empty: the latest."""
    starts: int = 200
    """Fresh train starts on which every version is tried."""
    permutations: int | None = None
    """Orders of the changes that are drawn; None: all up to four changes, two for each change beyond."""
    seed: int = 0
    """Of the starts, the permutations, the training and the bootstrap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One kept experiment, and what it contributed."""

    experiment: str
    changes: Mapping[str, bool | int | float | str]
    effects: Effects
    regime: str = ""
    """Of a change of regime: its recipe; empty for a change of settings of the campaign's recipe."""
    version: str = ""
    """Of a change of regime: the version that represents it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSet:
    """One set of changes, and the success of the version that was trained with it."""

    changes: tuple[int, ...]
    """Places in `Attribution.changes`."""
    recipe_hash: str
    successes: int
    n: int
    low: float
    """Wilson 95 % interval of the success rate."""
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The changes of a campaign and what each contributed to success."""

    campaign: str
    base: str
    episodes: int
    """Recorded episodes from which every version learned."""
    starts: int
    first_start: int
    """Number of the first train start; the others follow it."""
    seed: int
    exact: bool
    """Whether all orders of the changes were taken."""
    orders: tuple[tuple[int, ...], ...]
    """The drawn orders; empty if all were taken."""
    changes: tuple[Change, ...]
    sets: tuple[TriedSet, ...]
    left_out: tuple[str, ...]
    """Kept experiments that are not attributed, each with its reason."""


def attribute(home: Home, plan: AttributionPlan, report: Callable[[Progress], None]) -> Attribution:
    """Train from the base with every needed set of kept changes, and measure all versions on the same starts.

    A set whose last kept change is one of regime is not trained: the promoted version of that regime is measured.

    What was trained and tried is kept in the home: the same call continues after an interruption.

    Raises:
        UsageError: the campaign kept no change, or it ran on other robots than simulated ones.
        LearningProblem: a training run failed.
    """
    with campaigns.open_records(home.root) as records:
        campaign_id = campaigns.find_campaign(records, plan.campaign)
        past = campaigns.history(records, campaign_id)
        data = recorded_data(home, records, campaign_id)
    _require_simulation(past)
    recipe, base = _own_recipe(past), past.champions[0][1] if past.champions else ""
    players, left_out = _players(past, recipe, home)
    runs = _Runs(home=home, data=data, base=home.versions / version_id(base), plan=plan, report=report)
    orders = orders_of(len(players), plan.permutations, plan.seed)
    runs.total = len(subsets_of(orders))
    hashes: dict[Subset, str] = {}

    def evaluate(subset: Subset) -> Outcomes:
        chosen = [players[index] for index in sorted(subset) if players[index].needs <= subset]
        if chosen and chosen[-1].version:
            hashes[subset] = chosen[-1].experiment.recipe_hash
            return runs.of_version(chosen[-1].version)
        trained = with_changes(recipe, [one.experiment.changes for one in chosen if not one.version])
        hashes[subset] = trained.hash
        return runs.outcomes(trained)

    effects, outcomes = attributed(len(players), plan.permutations, plan.seed, evaluate)
    exact = is_exact(orders)
    return Attribution(
        campaign=campaign_id, base=base, episodes=len(data.episodes), starts=plan.starts,
        first_start=first_start(plan.seed), seed=plan.seed, exact=exact, orders=() if exact else orders,
        changes=tuple(
            Change(
                experiment=one.experiment.experiment_id, changes=dict(one.experiment.changes), effects=found,
                regime=one.regime, version=one.version,
            )
            for one, found in zip(players, effects, strict=True)
        ),
        sets=tuple(_tried(subset, hashes[subset], found) for subset, found in outcomes.items()),
        left_out=left_out,
    )  # fmt: skip


def keep_attribution(home: Home, found: Attribution) -> None:
    """Keep the newest attribution of a campaign in its home, for the page."""
    durable.make_folder(home.reports)
    durable.write(_file(home, found.campaign), json.dumps(plain(found)).encode())


def kept_attribution(home: Home, campaign_id: str) -> Attribution | None:
    """The newest attribution of a campaign that the home keeps; None if there is none.

    Raises:
        FileProblem: the file is damaged.
    """
    path = _file(home, campaign_id)
    if not path.is_file():
        return None
    return parse(Attribution, json.loads(path.read_bytes()), f"The attribution {path}")


def _file(home: Home, campaign_id: str) -> Path:
    return home.reports / f"attribution-{file_name(campaign_id, 'a campaign')}.json"


def first_start(seed: int) -> int:
    """Number of the first train start that a seed tries."""
    return FIRST_START * (1 + seed % 1000)


def with_changes(recipe: Recipe, changes: Sequence[Mapping[str, bool | int | float | str]]) -> Recipe:
    """The recipe with several changes of settings, the later ones over the earlier ones."""
    settings = dict(recipe.settings)
    for one in changes:
        settings |= one
    return replace(recipe, settings=settings)


def _require_simulation(past: History) -> None:
    drivers = {str(past.section("stations").get("driver", "mujoco"))}
    drivers |= {station.facts["driver"] for station in past.stations.values() if "driver" in station.facts}
    if others := sorted(drivers - {"mujoco"}):
        raise UsageError(
            f"Campaign {past.campaign_id} ran on robots with the driver {', '.join(others)}: attribution tries every "
            "set of changes on fresh starts, for which it needs simulated robots (driver mujoco)."
        )


def _own_recipe(past: History) -> Recipe:
    """The campaign's own recipe, as its first round without an experiment used it, or as it was declared to agents."""
    if past.proposals.declared is not None:
        return past.proposals.declared.without_space()
    runs = (run.started for run in past.learners.values())
    own = next((run.recipe for run in runs if run.round and not run.experiment_id), None)
    if own is None:
        raise UsageError(f"Campaign {past.campaign_id} trained no candidate by its own recipe: nothing to attribute.")
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class _Player:
    """One kept change."""

    experiment: Experiment
    regime: str = ""
    version: str = ""
    """Of a change of regime: the version that represents it."""
    needs: Subset = frozenset()
    """Of a change of regime: places of the kept changes from whose versions its own was trained."""


def _with_ancestors(players: Sequence[_Player], past: History) -> list[_Player]:
    """The players, each with the kept changes whose versions its own was trained from, directly or not."""
    places = {one.experiment.policy_id: place for place, one in enumerate(players) if one.experiment.policy_id}
    found: list[_Player] = []
    for one in players:
        ancestors = past.branches.lineage(one.version)[1:] if one.version else ()
        found.append(replace(one, needs=frozenset(places[version] for version in ancestors if version in places)))
    return found


def _players(past: History, recipe: Recipe, home: Home) -> tuple[list[_Player], tuple[str, ...]]:
    """(the kept changes in the order in which they were kept, sentences about those that are left out)."""
    deployed = [policy_id for _, policy_id in past.champions]

    def place(one: Experiment) -> int:
        return deployed.index(one.policy_id) if one.policy_id in deployed else len(deployed)

    players: list[_Player] = []
    left_out: list[str] = []
    for one in sorted((x for x in past.proposals.experiments.values() if x.decision == "keep"), key=place):
        made = one.recipe
        if made is not None and made.learner == recipe.learner and set(one.changes) <= set(recipe.settings):
            players.append(_Player(experiment=one))
        elif one.commit:
            left_out.append(f"{one.experiment_id} is code of an agent, which runs in a room alone")
        elif is_version_id(one.policy_id) and (home.versions / version_id(one.policy_id)).is_dir():
            regime = one.regime or (made.name if made is not None else recipe.name)
            players.append(_Player(experiment=one, regime=regime, version=one.policy_id))
        else:
            left_out.append(
                f"{one.experiment_id} is of another recipe than {recipe.name!r}, and its version is missing"
            )
    if not players:
        raise UsageError(
            f"Campaign {past.campaign_id} kept no change that can be attributed"
            + (f" ({'; '.join(left_out)})" if left_out else "")
            + ". `enpire campaign show` lists its experiments."
        )
    return _with_ancestors(players, past), tuple(left_out)


@dataclass(slots=True, kw_only=True)
class _Runs:
    """Trains and tries recipes, each once."""

    home: Home
    data: RecordedData
    base: Path
    plan: AttributionPlan
    report: Callable[[Progress], None]
    total: int = 0
    done: int = 0

    def outcomes(self, recipe: Recipe) -> Outcomes:
        """(starts,): whether the version of this recipe succeeds on each start."""
        key = canonical(
            {"recipe": recipe.hash, "base": self.base.name, "data": self.data.digest, "seed": self.plan.seed}
        )
        folder = self.home.learning / f"attribution-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        durable.make_folder(folder)
        trained = folder / "trained.json"
        if not trained.is_file():
            run = TrainingRun(recipe=recipe, parent=self.base, work=folder, seed=self.plan.seed)
            metrics = train(self.data, run, self._report)
            durable.write(trained, json.dumps({"recipe": recipe.mapping(), "metrics": dict(metrics)}).encode())
        return self._outcomes(folder, folder / "version")

    def of_version(self, policy_id: str) -> Outcomes:
        """(starts,): whether a version of the home succeeds on each start."""
        folder = self.home.learning / f"attribution-of-{version_id(policy_id)}"
        durable.make_folder(folder)
        return self._outcomes(folder, self.home.versions / version_id(policy_id))

    def _outcomes(self, folder: Path, version: Path) -> Outcomes:
        found = self._tried(folder, version)
        self.done += 1
        return np.array(found, np.bool_)

    def _tried(self, folder: Path, version: Path) -> list[bool]:
        """Outcomes of a version, kept in a folder; only starts that were not tried before are run."""
        file = folder / f"outcomes-{self.plan.seed}.json"
        known: list[bool] = json.loads(file.read_bytes()) if file.is_file() else []
        if len(known) < self.plan.starts:
            task = TASKS.make(self.data.task)
            kind = str(versions.manifest(version)["kind"])  # its learner's code ran here already
            policy = load_version(version, folder.name, AllowedKinds(kinds=(kind,)))
            rig = task.rig(LANES, self.plan.seed)
            try:
                loop = RolloutLoop(task, rig)
                known += [one.success for one in loop.run(policy, self._starts(task, len(known)))]
            finally:
                rig.close()
            durable.write(file, json.dumps(known).encode())
        return known[: self.plan.starts]

    def _starts(self, task: Task, known: int) -> list[Start]:
        first = first_start(self.plan.seed)
        return [task.start("train", first + index, b"") for index in range(known, self.plan.starts)]

    def _report(self, progress: Progress) -> None:
        """Report one training run as a stage of the whole."""
        self.report(replace(progress, stage=f"set {self.done + 1} of {self.total}, {progress.stage}"))


def _tried(subset: Subset, recipe_hash: str, outcomes: Outcomes) -> TriedSet:
    interval = wilson(int(outcomes.sum()), len(outcomes))
    return TriedSet(
        changes=tuple(sorted(subset)), recipe_hash=recipe_hash, successes=interval.successes, n=interval.n,
        low=interval.low, high=interval.high,
    )  # fmt: skip
