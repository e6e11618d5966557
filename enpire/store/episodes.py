"""The episode store: one folder per episode, which exists completely or not at all.

A folder holds `episode.json`, `arrays.npz` if arrays were recorded, and `pictures.zip` if cameras were recorded.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from enpire.codec import episode_of, order_fields, read_order, read_result, result_fields, result_of
from enpire.errors import EnpireError, FileProblem, UnknownName
from enpire.field_reader import Fields
from enpire.ids import file_name, is_file_name
from enpire.store import arrays, durable, pictures, removal
from enpire.types import Episode

FACTS = "episode.json"
ARRAYS = "arrays.npz"
PICTURES = pictures.NAME
_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One episode with its recorded files, as `put_many` stores it."""

    episode: Episode
    arrays_file: bytes
    """Bytes of `arrays.npz`; empty, as the episode's `sha256` is, when nothing was recorded."""
    pictures: Path | None = None
    """The durable, checked file of camera images whose hash is `pictures_sha256`, below the store's root. `put_many`
    moves it."""
    checked: bool = False
    """Whether the caller has checked that the bytes are an arrays file with the hash of the episode."""


class FolderStore:
    """Episodes under one root: `root/<campaign_id>/<order_id>/`. One process writes, any number of processes read."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, episode: Episode, arrays_file: bytes) -> Path:
        """Store one episode durably and return its folder; storing the same episode again changes nothing.

        Raises:
            FileProblem: the bytes do not have the hash `episode.sha256`, or the id has another recording already.
            StorageFull: the disk refuses.
        """
        return self.put_many([Recording(episode=episode, arrays_file=arrays_file)])[0]

    def put_many(self, recordings: Iterable[Recording]) -> list[Path]:
        """Store several episodes durably and return their folders; each parent folder is synced once per batch.

        Each episode is stored completely or not at all. When one is refused, none of the batch is stored.

        Raises:
            FileProblem: the files of an episode do not have its hashes, or its id has another recording already.
            StorageFull: the disk refuses.
        """
        batch: dict[Path, Recording] = {}
        folders: list[Path] = []
        for recording in recordings:
            order = recording.episode.order
            folder = self.folder(order.order_id, file_name(order.campaign_id, "a campaign"))
            _check_bytes(recording)
            if self.holds(order.order_id, order.campaign_id):
                _check_same(self.facts(folder), recording.episode)
            else:
                _check_same(batch.setdefault(folder, recording).episode, recording.episode)
            folders.append(folder)
        self._reveal(batch)
        return folders

    def get(self, order_id: str) -> Episode:
        """The episode with its arrays, which must have its hash; `arrays` is None when nothing was recorded.

        Raises:
            UnknownName: the store has no such episode.
            FileProblem: a file is missing, malformed, or was changed after it was recorded.
        """
        folder = self.folder(order_id)
        episode = self.facts(folder)
        if not episode.sha256:
            return episode
        data = self.arrays_file(folder)
        if hashlib.sha256(data).hexdigest() != episode.sha256:
            raise FileProblem(
                f"{folder / ARRAYS} was changed after it was recorded: its sha256 is not {episode.sha256}. "
                "The episode cannot be used; restore the file from a copy."
            )
        return replace(episode, arrays=arrays.unpack(data))

    def facts(self, folder: Path) -> Episode:
        """The episode in a folder's `episode.json`, without arrays; FileProblem when it belongs to another folder."""
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
            raise FileProblem(
                f"{path} belongs to order {order.order_id}: the folder was renamed or swapped. Restore it from a copy."
            )
        return episode

    def arrays_file(self, folder: Path) -> bytes:
        """The bytes of the arrays file in a folder, not checked; FileProblem when it is missing."""
        try:
            return (folder / ARRAYS).read_bytes()
        except OSError as error:
            raise FileProblem(f"Cannot read {folder / ARRAYS}: {error.strerror}.") from error

    def folder(self, order_id: str, campaign_id: str = "") -> Path:
        """The folder of a stored episode, else UnknownName; with `campaign_id`, its path whether stored or not."""
        checked = file_name(order_id, "an episode")
        if campaign_id:
            return Path(f"{self.root}/{file_name(campaign_id, 'a campaign')}/{checked}")
        for campaign in reversed(self._campaigns()):
            if (folder := campaign / checked).is_dir():
                return folder
        raise UnknownName(
            f"There is no episode {order_id} under {self.root}; `enpire episodes list` shows the episodes."
        )

    def holds(self, order_id: str, campaign_id: str) -> bool:
        """Whether the episode of an order is stored; FileProblem when an id cannot be a file name."""
        path = f"{self.root}/{file_name(campaign_id, 'a campaign')}/{file_name(order_id, 'an episode')}"
        return os.path.isdir(path)  # noqa: PTH112 - a Path takes five times as long, and it is asked for each episode

    def ids(self, campaign_id: str = "") -> Iterator[str]:
        """Order ids of all complete episodes, or of those of one campaign; campaign by campaign, oldest first."""
        for campaign in (folder for folder in self._campaigns() if campaign_id in ("", folder.name)):
            yield from sorted(folder.name for folder in campaign.iterdir() if is_file_name(folder.name))

    def sweep(self) -> list[str]:
        """Remove incomplete folders of a killed writer; returns their names. The writing process calls it at start."""
        return [name for campaign in self._campaigns() for name in durable.sweep(campaign)]

    def _campaigns(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        return sorted(entry for entry in self.root.iterdir() if entry.is_dir() and is_file_name(entry.name))

    def _reveal(self, batch: Mapping[Path, Recording]) -> None:
        staged: dict[Path, Path] = {}
        try:
            for folder in batch:
                staged[folder] = durable.stage_folder(folder)
            durable.fill_folders({staged[folder]: _files(recording) for folder, recording in batch.items()})
            for folder, recording in batch.items():
                if recording.pictures is not None:
                    durable.adopt(recording.pictures, staged[folder] / PICTURES, self.root)
        except EnpireError:
            for hidden in staged.values():
                removal.try_remove(hidden, self.root)
            raise
        durable.reveal((hidden, folder) for folder, hidden in staged.items())


def same_files(one: Episode, other: Episode) -> bool:
    """Whether the recorded files of two episodes have the same hashes."""
    return (one.sha256, one.pictures_sha256) == (other.sha256, other.pictures_sha256)


def _check_bytes(recording: Recording) -> None:
    episode, data = recording.episode, recording.arrays_file
    if bool(episode.pictures_sha256) != (recording.pictures is not None):
        raise FileProblem(
            f"The camera images of order {episode.order.order_id} are {recording.pictures or 'missing'}, its episode "
            f"names {episode.pictures_sha256 or 'none'}."
        )
    if recording.checked:
        return
    found = hashlib.sha256(data).hexdigest() if data else ""
    if found != episode.sha256:
        raise FileProblem(
            f"The arrays file of order {episode.order.order_id} ({len(data)} bytes) is not the one that the station "
            f"recorded: its sha256 is {found or 'missing'}, the episode names {episode.sha256 or 'none'}."
        )
    if data:
        arrays.unpack(data)


def _check_same(kept: Episode, episode: Episode) -> None:
    if not same_files(kept, episode):
        raise FileProblem(
            f"Order {episode.order.order_id} has another recording already; an id is used once. Nothing was changed."
        )


def _files(recording: Recording) -> dict[str, bytes]:
    episode = recording.episode
    facts = {
        "schema": _SCHEMA,
        "order": order_fields(episode.order),
        "episode": result_fields(result_of(episode)),
    }
    # On one line: with an indent, Python encodes JSON ten times more slowly.
    files = {FACTS: (json.dumps(facts, sort_keys=True, allow_nan=False) + "\n").encode()}
    return files | ({ARRAYS: recording.arrays_file} if recording.arrays_file else {})
