"""What the cameras saw at each window: read from beside the episodes, or taken while simulated ones run again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np

from enpire.errors import FileProblem, LearningProblem
from enpire.interfaces import ImprovementJob, Progress, Task
from enpire.plugins import load, make
from enpire.store import pictures
from enpire.store.episodes import FolderStore
from enpire.store.pictures import Pictures, Seen
from enpire.types import Episode, ImageArray, IntArray
from policies.habc.segments import Windows
from policies.training_data import RecordedEpisode

_KEPT_BYTES = 300e6
"""Of pictures that stay in memory: 2000 of 224 x 224, 325 of 640 x 480."""
_OPEN = 2048
"""Episodes whose directories of pictures stay in memory, about 40 kB each."""


class ImageWindows:
    """The pictures of a round's windows. Those of simulated episodes lie in the job's folder until `close`."""

    def __init__(self, job: ImprovementJob, windows: Windows, episodes: Sequence[RecordedEpisode]) -> None:
        """`episodes` are those that have windows, in their order."""
        self._job, self._windows = job, windows
        self._made = job.work / "album"
        place = {folder.name: folder for folder in job.episodes}
        names = [item.order_id for item in episodes]
        self._folder = {int(index): place[name] for index, name in zip(np.unique(windows.episode), names, strict=True)}
        self._open = lru_cache(maxsize=_OPEN)(lambda folder: Pictures(folder / pictures.NAME))
        self._read = self._picture

    def collect(self, cameras: Sequence[str], report: Callable[[Progress], None]) -> None:
        """See that there is a picture of every camera for every window, in the order of the episodes.

        LearningProblem names the episode that has none and cannot run again.
        """
        if not cameras:
            return
        for done, (index, folder) in enumerate(sorted(self._folder.items())):
            ticks = self._windows.tick[self._windows.episode == index]
            if not set(cameras) <= set(pictures.cameras_of(folder)):
                self._folder[index] = self._taken(folder, cameras, ticks)
            self._check(self._folder[index], cameras, ticks)
            report(Progress(stage="pictures", done=done + 1, total=len(self._folder), metrics={}))
        first = self._picture(int(self._windows.episode[0]), cameras[0], int(self._windows.tick[0]))
        self._read = lru_cache(maxsize=max(1, int(_KEPT_BYTES / first.nbytes)))(self._picture)

    def at(self, camera: str, rows: IntArray) -> ImageArray:
        """(B, height, width, 3) of these windows."""
        where = [(int(self._windows.episode[row]), int(self._windows.tick[row])) for row in rows]
        seen = [self._read(index, camera, tick) for index, tick in where]
        for (index, _), image in zip(where, seen, strict=True):
            if image.shape != seen[0].shape:
                raise LearningProblem(
                    f"Camera {camera} gave pictures of {seen[0].shape[:2]} in episode {self._folder[where[0][0]].name} "
                    f"and of {image.shape[:2]} in {self._folder[index].name}; leave out those of the other size."
                )
        return np.stack(seen)

    def close(self) -> None:
        """Remove what was made for this job."""
        shutil.rmtree(self._made, ignore_errors=True)

    def _picture(self, index: int, camera: str, tick: int) -> ImageArray:
        return self._open(self._folder[index]).picture(camera, tick)

    def _check(self, folder: Path, cameras: Sequence[str], ticks: IntArray) -> None:
        found = self._open(folder)
        for camera in cameras:
            if lacks := [int(tick) for tick in ticks if not found.has(camera, int(tick))]:
                raise LearningProblem(
                    f"The pictures of episode {folder.name} lack what {camera} saw before command {lacks[0]}; leave "
                    "that episode out."
                )

    def _taken(self, folder: Path, cameras: Sequence[str], ticks: IntArray) -> Path:
        made, wanted = self._made / folder.name, frozenset((0, *(int(tick) for tick in ticks)))
        if set(cameras) <= set(pictures.cameras_of(made)):
            return made
        store = FolderStore(folder.parent.parent)
        episode = store.get(folder.name)
        station = episode.order.station
        if station not in self._job.station_seeds:
            raise LearningProblem(
                f"Episode {folder.name} has no pictures of {', '.join(cameras)}, which this policy looks at, and its "
                f"station {station} is no simulation of this campaign; leave it out, and say `record: all` for that "
                "station."
            )
        frames = cast("Callable[[Task, int, Episode], Iterator[Seen]]", load("replay_images", "mujoco"))
        task = cast("Task", make("tasks", self._job.task))
        seen = frames(task, self._job.station_seeds[station], episode)
        made.mkdir(parents=True, exist_ok=True)
        pictures.keep(
            made / pictures.NAME, (_only(now, cameras) if at in wanted else {} for at, now in enumerate(seen))
        )
        return made


def _only(seen: Seen, cameras: Sequence[str]) -> Mapping[str, ImageArray]:
    missing = [camera for camera in cameras if camera not in seen]
    if missing:
        raise FileProblem(f"This policy looks through {missing[0]!r}; the station has {sorted(seen)}.")
    return {camera: seen[camera] for camera in cameras}
