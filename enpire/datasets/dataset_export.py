"""Episodes of a home as a dataset for other tools. What ran from hidden starts stays here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from enpire.datasets.episode_images import frames
from enpire.datasets.lerobot_export import CRITIC_OUTPUTS, CriticOutputs, EpisodeExtras, export_dataset
from enpire.errors import FileProblem, UsageError
from enpire.home import Home
from enpire.interfaces import Task
from enpire.plugins import make
from enpire.queries.campaigns import Records
from enpire.store.episodes import FolderStore
from enpire.store.ledger import open_to_read
from enpire.store.pictures import Seen
from enpire.types import Episode


def wanted(records: Records, campaign_id: str, limit: int) -> list[str]:
    """Ids of the newest recorded episodes of a campaign that may leave the lab, oldest first."""
    return records.reading.training_episodes(campaign_id)[-limit:]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """What an export did."""

    written: int
    left_out: Mapping[str, str]
    """Episode -> why there are no pictures of it; empty when none were asked for."""


def export_episodes(
    home: Home,
    order_ids: Sequence[str],
    target: Path,
    say: Callable[[int, int], None] = lambda done, total: None,
    cameras: bool = False,
) -> ExportResult:
    """Write episodes as one LeRobotDataset v3 at `target`.

    Args:
        home: where they lie.
        order_ids: which; UsageError when there are none.
        target: a new folder.
        say: hears how many are written, and of how many.
        cameras: with what the cameras saw: as recorded, or taken while a simulated episode runs again; episodes
            without either are left out, and UsageError says why when that leaves none.
    """
    if not order_ids:
        raise UsageError("No recorded episode of this campaign may be exported; see `enpire episodes list`.")
    store = FolderStore(home.episodes)
    task = cast("Task", make("tasks", store.get(order_ids[0]).order.task))
    filmed: dict[str, Iterator[Seen]] = {}
    left_out: dict[str, str] = {}

    def read() -> Iterator[Episode]:
        for done, order_id in enumerate(order_ids):
            say(done, len(order_ids))
            episode = store.get(order_id)
            if cameras:
                try:
                    filmed[order_id] = frames(home, ledger, episode)
                except UsageError as why:
                    left_out[order_id] = str(why)
                    continue
            yield episode
        say(len(order_ids), len(order_ids))
        if len(left_out) == len(order_ids):
            raise UsageError(f"There are no pictures of any of these episodes. {next(iter(left_out.values()))}")

    def figures(episode: Episode) -> CriticOutputs:
        return read_critic_outputs(store.folder(episode.order.order_id))

    beside = EpisodeExtras(figures=figures)
    if cameras:
        beside = EpisodeExtras(figures=figures, pictures=lambda episode: filmed.pop(episode.order.order_id))
    ledger = open_to_read(home.ledger)
    try:
        written = export_dataset(read(), task.spec, target, beside)
    finally:
        ledger.close()
    return ExportResult(written=written, left_out=left_out)


def read_critic_outputs(folder: Path) -> CriticOutputs:
    """What the critics thought of an episode's decisions; empty where nobody asked them."""
    path = folder / "figures.json"
    if not path.is_file():
        return {}
    found: object = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not all(name in found for name in CRITIC_OUTPUTS):
        raise FileProblem(f"{path} must hold {', '.join(CRITIC_OUTPUTS)}; remove it, the next round writes it again.")
    return {name: tuple(cast("Sequence[float]", found[name])) for name in CRITIC_OUTPUTS}
