"""Camera images of episodes: as the station recorded them, or from a replay of a simulated episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from enpire.campaign.events import kinds_of
from enpire.campaign.ledger import Ledger
from enpire.campaign.session_events import CampaignStarted
from enpire.errors import EnpireError, UsageError
from enpire.files import parse
from enpire.fleet.local import station_files
from enpire.home import Home
from enpire.interfaces import Task
from enpire.parts import TASKS, PartGroup
from enpire.station.station_file import StationFile
from enpire.store import pictures
from enpire.store.episodes import FolderStore
from enpire.types import Episode


class ReplayResult(Protocol):
    """Result of a replay plug-in; see sim/replay.py."""

    pictures: Mapping[int, pictures.Seen]
    largest_difference: float
    why: str


REPLAYS: PartGroup[[Task, int, Episode], ReplayResult] = PartGroup("replays")
"""Called with the task, the seed of the simulated station and the recorded episode."""
REPLAY_IMAGES: PartGroup[[Task, int, Episode], Iterator[pictures.Seen]] = PartGroup("replay_images")
"""The same; gives camera -> image before every command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedImages:
    """The camera images of one replayed episode."""

    path: Path
    """File of the images."""
    count: int
    largest_difference: float
    """Largest difference of a sensor value between recording and replay; 0 when equal."""
    why: str
    """Why there are no images; empty when there are."""


def replay_images(home: Home, ledger: Ledger, order_id: str) -> ReplayedImages:
    """Replay one episode of a simulated station and keep the images next to its arrays.

    Raises:
        UsageError: a real robot recorded it, so that it cannot be replayed.
    """
    store = FolderStore(home.episodes)
    episode = store.get(order_id)
    driver, seed = _simulation(ledger, home, episode)
    task = TASKS.make(episode.order.task)
    again = REPLAYS.load(driver)(task, seed, episode)
    path = store.folder(order_id, episode.order.campaign_id) / pictures.TAKEN_AGAIN
    if again.pictures:
        pictures.keep(path, again.pictures, "jpg")
    count = sum(len(seen) for seen in again.pictures.values())
    return ReplayedImages(path=path, count=count, largest_difference=again.largest_difference, why=again.why)


def camera_images(home: Home, ledger: Ledger, episode: Episode) -> Iterator[pictures.Seen]:
    """Camera -> image, uint8 (height, width, 3), before every command: as recorded, or from a replay in simulation.

    Raises:
        UsageError: it has no recorded images, and cannot be replayed to the same sensor values.
    """
    folder = FolderStore(home.episodes).folder(episode.order.order_id, episode.order.campaign_id)
    if episode.pictures_sha256:
        recorded = pictures.Pictures(folder / pictures.NAME)
        return (
            {camera: recorded.picture(camera, tick) for camera in recorded.cameras} for tick in range(episode.ticks)
        )
    driver, seed = _simulation(ledger, home, episode)
    return REPLAY_IMAGES.load(driver)(TASKS.make(episode.order.task), seed, episode)


def replay_or_reason(home: Home, ledger: Ledger, order_id: str) -> str:
    """Replay an episode and keep its images; returns why there are none, or an empty text."""
    try:
        return replay_images(home, ledger, order_id).why
    except EnpireError as problem:
        return str(problem)


def _simulation(ledger: Ledger, home: Home, episode: Episode) -> tuple[str, int]:
    driver, seed = _station(ledger, home, episode)
    if driver != "mujoco":
        raise UsageError(
            f"Episode {episode.order.order_id} was recorded by a {driver} robot, not a simulation: "
            "it cannot be replayed."
        )
    return driver, seed


def station_seeds(ledger: Ledger, home: Home, campaign_id: str) -> Mapping[str, int]:
    """Station -> seed of the simulated stations that a campaign started itself; empty for unknown campaigns."""
    return {file.name: file.seed for file in _stations(ledger, home, campaign_id) if file.driver == "mujoco"}


def _station(ledger: Ledger, home: Home, episode: Episode) -> tuple[str, int]:
    """(driver, seed) of the station that recorded an episode, from its campaign."""
    for file in _stations(ledger, home, episode.order.campaign_id):
        if file.name == episode.order.station:
            return file.driver, file.seed
    raise UsageError(
        f"Episode {episode.order.order_id} was recorded by {episode.order.station}, which its campaign did not start "
        "itself, so its seed is unknown and it cannot be replayed."
    )


def _stations(ledger: Ledger, home: Home, campaign_id: str) -> list[StationFile]:
    from enpire.campaign.campaign import Campaign

    for entry in ledger.events(kinds=kinds_of(CampaignStarted)):
        if entry.campaign_id == campaign_id and isinstance(entry.event, CampaignStarted):
            return station_files(parse(Campaign, entry.event.campaign, "The campaign in the ledger"), home)
    return []
