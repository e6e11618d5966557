"""Runs a learner outside a campaign, on the recorded episodes of a campaign; keeps the version that it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from enpire.campaign.recipe import read_recipe
from enpire.datasets.episode_images import station_seeds
from enpire.errors import LearningProblem
from enpire.home import open_home
from enpire.ids import mint, version_id
from enpire.interfaces import ImprovementJob, Progress
from enpire.offline.compare import find_version
from enpire.parts import LEARNERS
from enpire.processes.version_check import require_acting
from enpire.queries import campaigns
from enpire.store import versions
from enpire.store.episodes import FolderStore
from enpire.store.ledger import open_to_read


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedVersion:
    """The version that a run made."""

    policy_id: str
    folder: str
    parent: str
    recipe_hash: str
    episodes: int
    metrics: Mapping[str, float]


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
        campaign_id = campaigns.find_campaign(records, campaign)
        view = campaigns.campaign_view(records, campaign_id)
        ids = records.reading.training_episodes(campaign_id)
    store = FolderStore(place.episodes)
    folders = tuple(folder for item in ids if (folder := store.folder(item, campaign_id)).is_dir())
    if not folders:
        raise LearningProblem(f"Campaign {campaign_id} has no recorded episode that training may use.")
    ledger = open_to_read(place.ledger)
    try:
        seeds = station_seeds(ledger, place, campaign_id)
    finally:
        ledger.close()
    before = find_version(place, parent) if parent else None
    work = place.learning / mint()
    work.mkdir(parents=True)
    job = ImprovementJob(
        recipe=recipe.mapping(), task=view.task, parent=before, episodes=folders, work=work, output=work / "version",
        round=max(1, len(view.rounds)) if parent else 0, seed=view.seed,
        station_seeds=seeds,
    )  # fmt: skip
    metrics = LEARNERS.make(recipe.learner).improve(job, report)
    require_acting(job)
    policy_id = versions.publish(job.output, place.versions)
    return TrainedVersion(
        policy_id=policy_id, folder=str(place.versions / version_id(policy_id)), parent=before.name if before else "",
        recipe_hash=recipe.hash, episodes=len(folders), metrics=dict(metrics),
    )  # fmt: skip
