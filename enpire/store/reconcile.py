"""Comparison of the ledger with the episode store at start. It reports differences and changes nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path

from enpire.errors import FileProblem
from enpire.store.episodes import PICTURES, FolderStore, same_files
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


def compare(reading: Reading, store: FolderStore, deep: bool = False) -> Differences:
    """Compare every episode folder with the ledger, and every ended order with its folder.

    `deep` also reads and hashes arrays and camera images; otherwise only `episode.json` is read.
    """
    unrecorded: list[str] = []
    unordered: list[str] = []
    altered: list[str] = []
    on_disk: set[str] = set()
    for order_id in store.ids():
        on_disk.add(order_id)
        row = reading.order(order_id)
        if row is None:
            unordered.append(order_id)
        elif row.episode is None or (row.episode.outcome == "unknown" and not row.episode.sha256):
            unrecorded.append(order_id)
        elif not _agrees(store, order_id, row.episode, deep):
            altered.append(order_id)
    missing = [order_id for order_id in reading.recorded() if order_id not in on_disk]
    return Differences(
        unrecorded=tuple(unrecorded), unordered=tuple(unordered), missing=tuple(missing), altered=tuple(altered)
    )


def _agrees(store: FolderStore, order_id: str, row: Episode, deep: bool) -> bool:
    try:
        folder: Path = store.folder(order_id)
        kept = store.get(order_id) if deep else store.facts(folder)
    except FileProblem:
        return False
    return same_files(kept, row) and (not deep or kept.pictures_sha256 == _sha256(folder / PICTURES))


def _sha256(path: Path) -> str:
    """The sha256 of a file; empty when there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
