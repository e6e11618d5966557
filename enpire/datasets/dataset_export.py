"""Exports episodes of a home as a dataset for other tools. Episodes from hidden starts are never exported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from enpire.datasets.cards import dataset_card
from enpire.datasets.episode_images import camera_images
from enpire.datasets.lerobot_export import CRITIC_OUTPUTS, CriticOutputs, EpisodeExtras, export_dataset
from enpire.errors import FileProblem, UsageError
from enpire.files import is_json_object
from enpire.home import Home
from enpire.parts import TASKS
from enpire.queries.campaigns import Records, campaigns, open_records
from enpire.store import durable
from enpire.store.episodes import FolderStore
from enpire.store.ledger import open_to_read
from enpire.store.pictures import Seen
from enpire.types import Episode


def wanted(records: Records, campaign_id: str, limit: int, named: Sequence[str] = ()) -> list[str]:
    """Ids of the newest recorded episodes of a campaign that may be exported, oldest first; or only the named ones.

    Raises:
        UsageError: a named one may not be exported.
    """
    found = records.reading.training_episodes(campaign_id)
    if refused := sorted(set(named) - set(found)):
        raise UsageError(
            f"Episode {refused[0]} is not exported: a dataset has recorded successes and failures on train starts "
            "alone, of demonstrations, collection and base measurement, because hidden starts stay hidden. Leave "
            "it out."
        )
    return sorted(set(named)) if named else found[-limit:]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """Result of an export."""

    written: int
    left_out: Mapping[str, str]
    """Episode -> why it has no camera images; empty when none were requested."""


def export_episodes(
    home: Home,
    order_ids: Sequence[str],
    target: Path,
    say: Callable[[int, int], None] = lambda done, total: None,
    cameras: bool = False,
) -> ExportResult:
    """Write episodes as one LeRobotDataset v3 at `target`.

    Args:
        home: the home that holds them.
        order_ids: the episodes to export.
        target: a folder that does not exist yet.
        say: called with (episodes written, episodes in all).
        cameras: include camera images, as recorded or from a replay of a simulated episode; episodes without
            either are left out.

    Raises:
        UsageError: no episode is left to export.
    """
    if not order_ids:
        raise UsageError("No recorded episode of this campaign may be exported; see `enpire episodes list`.")
    store = FolderStore(home.episodes)
    task = TASKS.make(store.get(order_ids[0]).order.task)
    images: dict[str, Iterator[Seen]] = {}
    left_out: dict[str, str] = {}

    def read() -> Iterator[Episode]:
        for done, order_id in enumerate(order_ids):
            say(done, len(order_ids))
            episode = store.get(order_id)
            if cameras:
                try:
                    images[order_id] = camera_images(home, ledger, episode)
                except UsageError as why:
                    left_out[order_id] = str(why)
                    continue
            yield episode
        say(len(order_ids), len(order_ids))
        if len(left_out) == len(order_ids):
            raise UsageError(f"There are no camera images of any of these episodes. {next(iter(left_out.values()))}")

    def critic_outputs(episode: Episode) -> CriticOutputs:
        return read_critic_outputs(store.folder(episode.order.order_id))

    extras = EpisodeExtras(critic_outputs=critic_outputs)
    if cameras:
        extras = EpisodeExtras(
            critic_outputs=critic_outputs, pictures=lambda episode: images.pop(episode.order.order_id)
        )
    ledger = open_to_read(home.ledger)
    try:
        written = export_dataset(read(), task.spec, target, extras)
    finally:
        ledger.close()
    kept = [one for one in order_ids if one not in left_out]
    durable.write(target / "README.md", _card(home, store, kept).encode())
    return ExportResult(written=written, left_out=left_out)


def _card(home: Home, store: FolderStore, order_ids: Sequence[str]) -> str:
    """The card of the exported episodes."""
    found = [store.get(one) for one in order_ids]
    with open_records(home.root) as records:
        names = {line.id: line.name for line in campaigns(records)}
    campaign = found[0].order.campaign_id
    rows = [(one.order.purpose, one.outcome, one.order.policy_id) for one in found]
    return dataset_card(f"{names.get(campaign, 'of another home')} ({campaign})", found[0].order.task, rows)


def read_critic_outputs(folder: Path) -> CriticOutputs:
    """The critics' outputs for each decision of an episode; empty where none were computed."""
    path = folder / "figures.json"
    if not path.is_file():
        return {}
    found: object = json.loads(path.read_text(encoding="utf-8"))
    outputs: dict[str, tuple[float, ...]] = {}
    for name in CRITIC_OUTPUTS:
        match found.get(name) if is_json_object(found) else None:
            case [*items] if len(numbers := [n for n in items if isinstance(n, int | float)]) == len(items):
                outputs[name] = tuple(numbers)
            case _:
                raise FileProblem(
                    f"{path} must hold {', '.join(CRITIC_OUTPUTS)}; delete it, the next round writes it again."
                )
    return outputs
