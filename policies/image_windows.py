"""The camera images of windows: read from the episodes' folders, or rendered by replaying simulated episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from enpire.errors import FileProblem, LearningProblem
from enpire.interfaces import ImprovementJob, Progress, Task
from enpire.plugins import load, make
from enpire.store import pictures, removal
from enpire.store.episodes import FolderStore
from enpire.store.pictures import Pictures, Seen
from enpire.types import Episode, ImageArray, IntArray
from policies.training_data import RecordedEpisode

_KEPT_BYTES = 300e6
"""Memory for decoded images, in bytes: 2000 images of 224 x 224, or 325 of 640 x 480."""
_OPEN = 2048
"""Episodes whose image index stays in memory, about 40 kB each."""


class Frames(Protocol):
    """Frames of episodes, one for each of N windows."""

    @property
    def episode(self) -> IntArray:
        """(N,) int, index of the episode."""
        ...

    @property
    def tick(self) -> IntArray:
        """(N,) int, frame of the episode."""
        ...


class ImageWindows:
    """The camera images of a round's windows. Rendered images are kept in the job's folder until `close`."""

    def __init__(self, job: ImprovementJob, windows: Frames, episodes: Sequence[RecordedEpisode]) -> None:
        """`episodes`: those that have windows, in the order of their windows."""
        self._job, self._windows = job, windows
        self._rendered = job.work / "images"
        folder_of = {folder.name: folder for folder in job.episodes}
        names = [item.order_id for item in episodes]
        self._folder = {
            int(index): folder_of[name] for index, name in zip(np.unique(windows.episode), names, strict=True)
        }
        self._open = lru_cache(maxsize=_OPEN)(lambda folder: Pictures(folder / pictures.NAME))
        self._read = self._picture

    def collect(self, cameras: Sequence[str], report: Callable[[Progress], None]) -> None:
        """Make sure that every window has an image of every camera; replay simulated episodes that lack them.

        Raises:
            LearningProblem: an episode has no images and cannot be replayed; the sentence names it.
        """
        if not cameras:
            return
        for done, (index, folder) in enumerate(sorted(self._folder.items())):
            ticks = self._windows.tick[self._windows.episode == index]
            if not set(cameras) <= set(pictures.cameras_of(folder)):
                self._folder[index] = self._render(folder, cameras, ticks)
            self._check(self._folder[index], cameras, ticks)
            report(Progress(stage="pictures", done=done + 1, total=len(self._folder), metrics={}))
        first = self._picture(int(self._windows.episode[0]), cameras[0], int(self._windows.tick[0]))
        self._read = lru_cache(maxsize=max(1, int(_KEPT_BYTES / first.nbytes)))(self._picture)

    def at(self, camera: str, rows: IntArray) -> ImageArray:
        """Images (B, height, width, 3) uint8 RGB of the windows `rows` (B,). LearningProblem if their sizes differ."""
        where = [(int(self._windows.episode[row]), int(self._windows.tick[row])) for row in rows]
        seen = [self._read(index, camera, tick) for index, tick in where]
        for (index, _), image in zip(where, seen, strict=True):
            if image.shape != seen[0].shape:
                raise LearningProblem(
                    f"Camera {camera} has images of {seen[0].shape[:2]} in episode {self._folder[where[0][0]].name} "
                    f"and of {image.shape[:2]} in {self._folder[index].name}; leave out the episodes of one size."
                )
        return np.stack(seen)

    def close(self) -> None:
        """Delete the rendered images."""
        removal.try_remove(self._rendered, self._job.work)

    def _picture(self, index: int, camera: str, tick: int) -> ImageArray:
        return self._open(self._folder[index]).picture(camera, tick)

    def _check(self, folder: Path, cameras: Sequence[str], ticks: IntArray) -> None:
        found = self._open(folder)
        for camera in cameras:
            if missing := [int(tick) for tick in ticks if not found.has(camera, int(tick))]:
                raise LearningProblem(
                    f"Episode {folder.name} has no image of camera {camera} before command {missing[0]}; leave this "
                    "episode out."
                )

    def _render(self, folder: Path, cameras: Sequence[str], ticks: IntArray) -> Path:
        made, needed = self._rendered / folder.name, frozenset((0, *(int(tick) for tick in ticks)))
        if set(cameras) <= set(pictures.cameras_of(made)):
            return made
        store = FolderStore(folder.parent.parent)
        episode = store.get(folder.name)
        station = episode.order.station
        if station not in self._job.station_seeds:
            raise LearningProblem(
                f"Episode {folder.name} has no images of {', '.join(cameras)}, which this policy needs, and its "
                f"station {station} is no simulation of this campaign; leave the episode out, and set `record: all` "
                "for that station."
            )
        frames = cast("Callable[[Task, int, Episode], Iterator[Seen]]", load("replay_images", "mujoco"))
        task = cast("Task", make("tasks", self._job.task))
        seen = frames(task, self._job.station_seeds[station], episode)
        made.mkdir(parents=True, exist_ok=True)
        pictures.keep(
            made / pictures.NAME, (_only(now, cameras) if at in needed else {} for at, now in enumerate(seen))
        )
        return made


def _only(seen: Seen, cameras: Sequence[str]) -> Mapping[str, ImageArray]:
    missing = [camera for camera in cameras if camera not in seen]
    if missing:
        raise FileProblem(
            f"This policy needs the camera {missing[0]!r}; the station has {sorted(seen)}. Use a station with it."
        )
    return {camera: seen[camera] for camera in cameras}
