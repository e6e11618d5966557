"""Runs a learner outside a campaign, on the recorded episodes of a campaign; keeps the version that it makes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from enpire.campaign.recipe import Recipe, read_recipe
from enpire.datasets.episode_images import station_seeds
from enpire.errors import LearningProblem, UsageError
from enpire.home import Home, open_home
from enpire.ids import mint, version_id
from enpire.interfaces import ImprovementJob, Progress
from enpire.offline.compare import find_version
from enpire.parts import LEARNERS
from enpire.processes.version_check import require_acting
from enpire.queries import campaigns
from enpire.queries.campaigns import Records
from enpire.store import versions
from enpire.store.episodes import FolderStore


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedVersion:
    """The version that a run made."""

    policy_id: str
    folder: str
    parent: str
    recipe_hash: str
    episodes: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedData:
    """The recorded episodes of a campaign that training may use."""

    task: str
    episodes: tuple[Path, ...]
    """Folders of the episode store, oldest first; at least one."""
    rounds: int
    """Rounds that began, with round 0."""
    seed: int
    """Seed of the campaign."""
    station_seeds: Mapping[str, int]
    """Simulated station -> its seed."""

    @property
    def digest(self) -> str:
        """Hash of the ids of the episodes."""
        return hashlib.sha256("".join(folder.name for folder in self.episodes).encode()).hexdigest()


def recorded_data(home: Home, records: Records, campaign_id: str) -> RecordedData:
    """The recorded episodes of a campaign.

    Raises:
        LearningProblem: there is none that training may use.
    """
    view, store = campaigns.campaign_view(records, campaign_id), FolderStore(home.episodes)
    ids = records.reading.training_episodes(campaign_id)
    folders = tuple(folder for item in ids if (folder := store.folder(item, campaign_id)).is_dir())
    if not folders:
        raise LearningProblem(f"Campaign {campaign_id} has no recorded episode that training may use.")
    return RecordedData(
        task=view.task, episodes=folders, rounds=len(view.rounds), seed=view.seed,
        station_seeds=station_seeds(records.ledger, home, campaign_id),
    )  # fmt: skip


def sample_episodes(home: Home, task: str, campaign: str, count: int) -> tuple[Path, ...]:
    """Folders of at most `count` recorded episodes of a task, evenly chosen; empty if the home has none.

    Args:
        home: holds campaigns.
        task: of the episodes.
        campaign: id, beginning of an id, or name; empty: the latest campaign of the task.
        count: at least 1.

    Raises:
        UnknownName: there is no such campaign.
        UsageError: it is of another task.
    """
    with campaigns.open_records(home.root) as records:
        if campaign:
            found = campaigns.find_campaign(records, campaign)
            own = campaigns.history(records, found).task
            if own != task:
                raise UsageError(f"Campaign {found} is of the task {own}, not {task}: name a campaign of {task}.")
        else:
            found = next((line.id for line in campaigns.campaigns(records) if line.task == task), "")
        ids = records.reading.training_episodes(found) if found else []
    folders = [folder for item in ids if (folder := FolderStore(home.episodes).folder(item, found)).is_dir()]
    step = max(1, len(folders) // count)
    return tuple(folders[::step][:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """One training run outside a campaign."""

    recipe: Recipe
    parent: Path | None
    """Folder of the version to start from; None for a base."""
    work: Path
    """Folder for checkpoints and, below `version`, the version; a run with the same folder resumes."""
    seed: int


def train(data: RecordedData, run: TrainingRun, report: Callable[[Progress], None]) -> Mapping[str, float]:
    """Train a version in `run.work / "version"`, and check that it acts; returns the metrics.

    Raises:
        LearningProblem: the learner cannot continue, or its version cannot act on recorded observations.
    """
    run.work.mkdir(parents=True, exist_ok=True)
    job = ImprovementJob(
        recipe=run.recipe.mapping(), task=data.task, parent=run.parent, episodes=data.episodes, work=run.work,
        output=run.work / "version", round=max(1, data.rounds) if run.parent else 0, seed=run.seed,
        station_seeds=data.station_seeds,
    )  # fmt: skip
    metrics = LEARNERS.make(run.recipe.learner).improve(job, report)
    require_acting(job)
    return metrics


def learn(
    home: Path, recipe_name: str, parent: str, campaign: str, report: Callable[[Progress], None]
) -> TrainedVersion:
    """Train on every recorded episode of a campaign that training may use.

    Args:
        home: holds campaigns and versions.
        recipe_name: name or path of the recipe.
        parent: version to start from; empty for none.
        campaign: id of the campaign, or its beginning.
        report: called with the progress.

    Raises:
        LearningProblem: the campaign has no such episode, or the version cannot act on recorded observations.
    """
    recipe, place = read_recipe(recipe_name), open_home(home)
    with campaigns.open_records(home) as records:
        data = recorded_data(place, records, campaigns.find_campaign(records, campaign))
    before = find_version(place, parent) if parent else None
    run = TrainingRun(recipe=recipe, parent=before, work=place.learning / mint(), seed=data.seed)
    metrics = train(data, run, report)
    policy_id = versions.publish(run.work / "version", place.versions)
    return TrainedVersion(
        policy_id=policy_id, folder=str(place.versions / version_id(policy_id)), parent=before.name if before else "",
        recipe_hash=recipe.hash, episodes=len(data.episodes), metrics=dict(metrics),
    )  # fmt: skip
