"""Comparison of the ledger with the episode store. It reports differences and changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from enpire.codec import order_fields, result_fields, result_of
from enpire.errors import FileProblem
from enpire.store.episodes import ARRAYS, PICTURES, FolderStore
from enpire.store.reading import Reading
from enpire.types import Episode


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Ids of orders for which the ledger and the episode store differ; all empty when they agree."""

    unrecorded: tuple[str, ...] = ()
    """Orders that are open or unknown but have an episode folder: a crash came between the file and the ledger row.
    Recording the episode again is safe."""
    unordered: tuple[str, ...] = ()
    """Episode folders of orders that this ledger never issued: they come from another home."""
    missing: tuple[str, ...] = ()
    """Orders that ended with a recording whose folder is missing."""
    altered: tuple[str, ...] = ()
    """Episode folders whose files differ from the ledger: edited, swapped or unreadable."""

    @property
    def none(self) -> bool:
        """Whether ledger and store agree."""
        return not any(getattr(self, field.name) for field in fields(self))

    def sentence(self) -> str:
        """The differences in one message for an operator."""
        if self.none:
            return "The ledger and the episode store agree."
        counts = [f"{len(getattr(self, field.name))} {field.name}" for field in fields(self)]
        return (
            f"The ledger and the episode store differ: {', '.join(counts)}. ENPIRE records the unrecorded "
            "episodes again; restore the others from a copy of the home folder. The ledger counts where they differ."
        )


def compare(
    reading: Reading,
    store: FolderStore,
    deep: bool = False,
    campaign_id: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Differences:
    """Compare every episode folder with the ledger, and every ended order with its folder.

    Args:
        reading: of the ledger.
        store: of the same home.
        deep: also read and hash arrays and camera images; otherwise only `episode.json` is read.
        campaign_id: the only campaign to compare; empty for all.
        progress: receives the number of compared folders and the number of all folders.
    """
    unrecorded: list[str] = []
    unordered: list[str] = []
    altered: list[str] = []
    on_disk = list(store.ids(campaign_id))
    for number, order_id in enumerate(on_disk, start=1):
        row = reading.order(order_id)
        if row is None:
            unordered.append(order_id)
        elif row.episode is None or (row.episode.outcome == "unknown" and not row.episode.sha256):
            unrecorded.append(order_id)
        elif not _agrees(store, row.episode) or (deep and not _whole(store, row.episode)):
            altered.append(order_id)
        progress(number, len(on_disk))
    present = set(on_disk)
    missing = [order_id for order_id in reading.recorded(campaign_id) if order_id not in present]
    return Differences(
        unrecorded=tuple(unrecorded), unordered=tuple(unordered), missing=tuple(missing), altered=tuple(altered)
    )


def has_hashes(folder: Path, arrays_sha256: str, pictures_sha256: str) -> bool:
    """Whether the arrays and the camera images in a folder have these hashes; empty for a file that must not be there.

    Raises:
        OSError: a file cannot be read.
    """
    return (_sha256(folder / ARRAYS), _sha256(folder / PICTURES)) == (arrays_sha256, pictures_sha256)


def _agrees(store: FolderStore, episode: Episode) -> bool:
    """Whether `episode.json` says what the ledger says."""
    try:
        return _content(store.facts(_folder(store, episode))) == _content(episode)
    except FileProblem:
        return False


def _whole(store: FolderStore, episode: Episode) -> bool:
    return has_hashes(_folder(store, episode), episode.sha256, episode.pictures_sha256)


def _content(episode: Episode) -> tuple[object, object]:
    """An episode as it is stored, where a value that was not measured equals itself."""
    return order_fields(episode.order), result_fields(result_of(episode))


def _folder(store: FolderStore, episode: Episode) -> Path:
    return store.folder(episode.order.order_id, episode.order.campaign_id)


def _sha256(path: Path) -> str:
    """The sha256 of a file; empty when there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
