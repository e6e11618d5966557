"""The episode store: one folder per episode, there completely or not at all.

It has `episode.json`, `arrays.npz`, and, where cameras were recorded, `pictures.zip`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from enpire.codec import episode_of, order_fields, read_order, read_result, result_fields, result_of
from enpire.errors import EnpireError, FileProblem, UnknownName
from enpire.fields import Fields
from enpire.store import arrays, durable, pictures
from enpire.types import Episode

FACTS = "episode.json"
ARRAYS = "arrays.npz"
PICTURES = pictures.NAME
_SCHEMA = 1
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What `put_many` keeps of one episode."""

    episode: Episode
    arrays_file: bytes
    """Empty when nothing was recorded; the episode's `sha256` is empty then too."""
    pictures: Path | None = None
    """The file of the episode's `pictures_sha256`, durable and checked, on the disk of the store, which takes it."""


class FolderStore:
    """Episodes below one root: `root/<campaign_id>/<order_id>/`. One process writes; any number read."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, episode: Episode, arrays_file: bytes) -> Path:
        """Make one episode durable; putting the same id again is a no-op. StorageFull when the disk refuses.

        FileProblem when the bytes are not those of `episode.sha256`, or when the id is taken by other bytes.
        """
        return self.put_many([Recording(episode=episode, arrays_file=arrays_file)])[0]

    def put_many(self, recordings: Iterable[Recording]) -> list[Path]:
        """Make several episodes durable and return their folders; each parent folder is synced once per batch.

        Each episode appears whole or not at all; when one is refused, none of the batch appears.
        """
        batch: dict[Path, Recording] = {}
        folders: list[Path] = []
        for recording in recordings:
            folder = self._place(recording.episode)
            _check_bytes(recording)
            earlier = batch.setdefault(folder, recording).episode
            _check_same(self.facts(folder) if folder.is_dir() else earlier, recording.episode)
            folders.append(folder)
        self._reveal({folder: recording for folder, recording in batch.items() if not folder.is_dir()})
        return folders

    def get(self, order_id: str) -> Episode:
        """The episode with its arrays (None when nothing was recorded); its bytes are checked against the hash."""
        folder = self.folder(order_id)
        episode = self.facts(folder)
        if not episode.sha256:
            return episode
        data = self.arrays_file(folder)
        if hashlib.sha256(data).hexdigest() != episode.sha256:
            raise FileProblem(
                f"{folder / ARRAYS} was changed after it was recorded: its bytes are not those of {episode.sha256}. "
                "The episode cannot be used; restore the file from a copy."
            )
        return replace(episode, arrays=arrays.unpack(data))

    def facts(self, folder: Path) -> Episode:
        """What `episode.json` in a folder says, without arrays; FileProblem when it is not that episode's."""
        path = folder / FACTS
        try:
            content: object = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise FileProblem(f"Cannot read {path}: {error}. The episode cannot be used.") from error
        fields = Fields(content, str(path), FileProblem)
        if fields.whole("schema") != _SCHEMA:
            raise fields.refuse("schema", str(_SCHEMA))
        order = read_order(fields.get("order"), FileProblem)
        episode = episode_of(read_result(fields.get("episode"), FileProblem), order)
        if (order.order_id, order.campaign_id) != (folder.name, folder.parent.name):
            raise FileProblem(f"{path} is of order {order.order_id}: the folder was renamed or swapped with another.")
        return episode

    def arrays_file(self, folder: Path) -> bytes:
        """The bytes of the arrays file in a folder, unchecked; FileProblem when it is missing."""
        try:
            return (folder / ARRAYS).read_bytes()
        except OSError as error:
            raise FileProblem(f"Cannot read {folder / ARRAYS}: {error.strerror}.") from error

    def folder(self, order_id: str, campaign_id: str = "") -> Path:
        """Where an episode lies; with its campaign named, where it would lie. UnknownName when it is nowhere."""
        _check_name(order_id)
        if campaign_id:
            _check_name(campaign_id)
            return self.root / campaign_id / order_id
        for campaign in reversed(self._campaigns()):
            if (campaign / order_id).is_dir():
                return campaign / order_id
        raise UnknownName(f"No episode {order_id} lies below {self.root}; `ids()` lists those that do.")

    def ids(self) -> Iterator[str]:
        """Every complete episode on the disk, campaign by campaign, oldest first."""
        for campaign in self._campaigns():
            yield from sorted(folder.name for folder in campaign.iterdir() if _NAME.fullmatch(folder.name))

    def sweep(self) -> list[str]:
        """Remove what a killed writer left half-written; returns the names. For the one writer, at its start."""
        return [name for campaign in self._campaigns() for name in durable.sweep(campaign)]

    def _campaigns(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        return sorted(entry for entry in self.root.iterdir() if entry.is_dir() and _NAME.fullmatch(entry.name))

    def _reveal(self, batch: Mapping[Path, Recording]) -> None:
        staged: dict[Path, Path] = {}
        try:
            for folder in batch:
                staged[folder] = durable.stage_folder(folder)
            durable.fill_folders({staged[folder]: _files(recording) for folder, recording in batch.items()})
            for folder, recording in batch.items():
                if recording.pictures is not None:
                    durable.adopt(recording.pictures, staged[folder] / PICTURES)
        except EnpireError:
            for hidden in staged.values():
                shutil.rmtree(hidden, ignore_errors=True)
            raise
        durable.reveal((hidden, folder) for folder, hidden in staged.items())

    def _place(self, episode: Episode) -> Path:
        order = episode.order
        _check_name(order.campaign_id)
        return self.folder(order.order_id, order.campaign_id)


def same_files(one: Episode, other: Episode) -> bool:
    """Whether two episodes name the same recorded files, by their hashes."""
    return (one.sha256, one.pictures_sha256) == (other.sha256, other.pictures_sha256)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise FileProblem(f"{name!r} cannot name a folder: letters, digits, '-', '_' and '.', not first, at most 128.")


def _check_bytes(recording: Recording) -> None:
    episode, data = recording.episode, recording.arrays_file
    found = hashlib.sha256(data).hexdigest() if data else ""
    if found != episode.sha256:
        raise FileProblem(
            f"The arrays file of order {episode.order.order_id} ({len(data)} bytes) is not the one that the station "
            f"recorded: its sha256 is {found or 'missing'}, the episode says {episode.sha256 or 'none'}."
        )
    if bool(episode.pictures_sha256) != (recording.pictures is not None):
        raise FileProblem(
            f"The pictures of order {episode.order.order_id} are {recording.pictures or 'missing'}, its episode names "
            f"{episode.pictures_sha256 or 'none'}."
        )
    if data:
        arrays.unpack(data)


def _check_same(kept: Episode, episode: Episode) -> None:
    if not same_files(kept, episode):
        raise FileProblem(
            f"Order {episode.order.order_id} has another recording already: an id is used once. Nothing was changed."
        )


def _files(recording: Recording) -> dict[str, bytes]:
    episode = recording.episode
    facts = {
        "schema": _SCHEMA,
        "order": order_fields(episode.order),
        "episode": result_fields(result_of(episode)),
    }
    files = {FACTS: (json.dumps(facts, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()}
    return files | ({ARRAYS: recording.arrays_file} if recording.arrays_file else {})
