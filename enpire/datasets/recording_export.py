"""Exports single episodes as files for viewers: Rerun (.rrd) and Foxglove (.mcap). Hidden starts are never exported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from enpire.datasets.dataset_export import ExportResult
from enpire.datasets.episode_images import camera_images
from enpire.datasets.mcap_export import write_mcap
from enpire.datasets.rerun_export import write_rrd
from enpire.datasets.timelines import EncodedImages, Timeline, read_timeline, stored_images
from enpire.errors import UsageError
from enpire.home import Home
from enpire.ids import file_name
from enpire.parts import TASKS
from enpire.queries.campaigns import Records
from enpire.store import durable, pictures, removal
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger, open_to_read

WRITERS: Mapping[str, Callable[[Timeline, Iterable[tuple[int, EncodedImages]], Path], None]] = {
    "rrd": write_rrd,
    "mcap": write_mcap,
}
"""Ending of a file -> the function that writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerFiles:
    """Which files are written, and where."""

    target: Path
    """A folder that does not exist yet."""
    forms: Sequence[str]
    """Endings from `WRITERS`."""
    replay: bool = False
    """Whether simulated episodes without stored images are replayed for them; where that fails, the file has none."""


def viewable(records: Records, campaign_id: str, limit: int, order_id: str = "") -> list[str]:
    """Ids of the newest recorded episodes on train starts, of any outcome, oldest first; or only `order_id`.

    Raises:
        UsageError: `order_id` has no recording, or began from a hidden start.
    """
    found = records.reading.recorded_on_train_starts(campaign_id)
    if order_id and order_id not in found:
        raise UsageError(
            f"Episode {order_id} is not exported: only recorded episodes of the campaign on train starts are, because "
            "hidden starts stay hidden. `enpire episodes list` shows them; name another campaign with --campaign."
        )
    return [order_id] if order_id else found[-limit:]


def export_recordings(
    home: Home,
    order_ids: Sequence[str],
    files: ViewerFiles,
    say: Callable[[int, int], None] = lambda done, total: None,
) -> ExportResult:
    """Write a file EPISODE.rrd or EPISODE.mcap for every episode into a new folder, which appears when complete.

    Args:
        home: the home that holds them.
        order_ids: the episodes.
        files: which files, and where.
        say: called with (episodes written, episodes in all).

    Raises:
        UsageError: the folder exists, or there is no episode.
        MissingExtra: the package of a form is not installed.
    """
    target = files.target
    if target.exists():
        raise UsageError(f"{target} exists already: name a new folder for the recordings.")
    if not order_ids:
        raise UsageError("No recorded episode of this campaign may be exported; see `enpire episodes list`.")
    store, ledger = FolderStore(home.episodes), open_to_read(home.ledger)
    without_images: dict[str, str] = {}
    staged = durable.stage_folder(target)
    folder = staged / "recordings"
    try:
        durable.make_folder(folder)
        spec = TASKS.make(store.get(order_ids[0]).order.task).spec
        for done, order_id in enumerate(order_ids):
            say(done, len(order_ids))
            timeline = read_timeline(ledger, store, spec, order_id)
            images = list(stored_images(store, order_id, timeline.ticks))
            if files.replay and not images:
                try:
                    images = list(_replayed(home, ledger, timeline))
                except UsageError as why:
                    without_images[order_id] = str(why)
            for form in files.forms:
                WRITERS[form](timeline, images, folder / f"{file_name(order_id, 'an episode')}.{form}")
        for file in sorted(folder.iterdir()):
            durable.sync(file)
        durable.reveal([(folder, target)])
    finally:
        ledger.close()
        removal.remove(staged, target.parent)
    say(len(order_ids), len(order_ids))
    return ExportResult(written=len(order_ids), left_out=without_images)


def _replayed(home: Home, ledger: SqliteLedger, timeline: Timeline) -> Iterator[tuple[int, EncodedImages]]:
    episode = FolderStore(home.episodes).get(timeline.episode.order.order_id)
    for tick, seen in enumerate(camera_images(home, ledger, episode)):
        yield tick, {camera: pictures.jpeg(image) for camera, image in seen.items()}
