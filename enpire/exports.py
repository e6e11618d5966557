"""Episodes of a home as a dataset for other tools. What ran from hidden starts stays here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

from enpire.errors import FileProblem, UsageError
from enpire.home import Home
from enpire.interfaces import Task
from enpire.plugins import make
from enpire.store.episodes import FolderStore
from enpire.store.lerobot_export import FIGURES, Figures, export_dataset
from enpire.types import Episode
from enpire.views import Records


def wanted(records: Records, campaign_id: str, limit: int) -> list[str]:
    """Ids of the newest recorded episodes of a campaign that may leave the lab, oldest first."""
    return records.reading.training_episodes(campaign_id)[-limit:]


def export_episodes(
    home: Home, order_ids: Sequence[str], target: Path, say: Callable[[int, int], None] = lambda done, total: None
) -> int:
    """Write episodes as one LeRobotDataset v3 at `target`; returns how many. UsageError when there are none.

    `say` hears how many are written, and of how many.
    """
    if not order_ids:
        raise UsageError("No recorded episode of this campaign may be exported; see `enpire episodes list`.")
    store = FolderStore(home.episodes)
    first = store.get(order_ids[0])
    task = cast("Task", make("tasks", first.order.task))

    def read() -> Iterator[Episode]:
        for done, order_id in enumerate(order_ids):
            say(done, len(order_ids))
            yield store.get(order_id)
        say(len(order_ids), len(order_ids))

    def figures(episode: Episode) -> Figures:
        return read_figures(store.folder(episode.order.order_id))

    return export_dataset(read(), task.spec, target, figures)


def read_figures(folder: Path) -> Figures:
    """What the critics thought of an episode's decisions; empty where nobody asked them."""
    path = folder / "figures.json"
    if not path.is_file():
        return {}
    found: object = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not all(name in found for name in FIGURES):
        raise FileProblem(f"{path} must hold {', '.join(FIGURES)}; remove it, the next round writes it again.")
    return {name: tuple(cast("Sequence[float]", found[name])) for name in FIGURES}
