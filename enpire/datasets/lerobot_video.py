"""Reads the camera images of a LeRobotDataset v3, from its videos or from a column of single images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy.typing as npt

from enpire.datasets.dataset_files import MOST_INDEX, below, video_name
from enpire.errors import FileProblem, MissingExtra
from enpire.files import shown
from enpire.store import pictures
from enpire.store.pictures import Seen
from enpire.types import ImageArray

IMAGES = "observation.images."
"""Prefix of LeRobot's image keys; the camera name follows."""
_LONGEST_S = 1e9
Pictures = Callable[[], Iterator[Seen]]
"""Opens the files and yields camera -> image, uint8 (height, width, 3), frame by frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoSegment:
    """The part of a video that shows one episode from one camera."""

    video: str
    """Name of the file in the dataset, not checked yet."""
    begin_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraFiles:
    """Where a dataset keeps its camera images."""

    root: Path
    rate_hz: float
    videos: tuple[str, ...]
    """Keys of cameras with videos."""
    images: tuple[str, ...]
    """Keys of cameras whose images are single cells of a data column."""
    places: Mapping[tuple[int, str], VideoSegment]
    """(episode, key of a camera with videos) -> part of a video."""

    @classmethod
    def of(cls, root: Path, info: Mapping[str, object], rows: Iterable[Mapping[str, object]]) -> CameraFiles:
        """From `meta/info.json` and the rows of `meta/episodes`. Depth images are not read."""
        features = cast("Mapping[str, Mapping[str, object]]", info.get("features", {}))
        coloured = {
            key: feature.get("dtype")
            for key, feature in features.items()
            if key.startswith(IMAGES) and 3 in cast("Sequence[object]", _listed(feature.get("shape")))
        }
        videos = tuple(key for key, kind in coloured.items() if kind == "video")
        pattern = str(info.get("video_path"))
        listed = [(_whole(row, "episode_index"), row) for row in rows] if videos else []
        return cls(
            root=root, rate_hz=float(cast("float", info.get("fps", 1))), videos=videos,
            images=tuple(key for key, kind in coloured.items() if kind == "image"),
            places={
                (episode, key): _place(pattern, row, key)
                for episode, row in listed for key in videos if f"videos/{key}/from_timestamp" in row
            },
        )  # fmt: skip

    def pictures(self, episode: int, columns: Mapping[str, npt.NDArray[Any]], count: int) -> Pictures | None:
        """Reader of the `count` frames of one episode, data rows in `columns`, each (count,); None without a camera."""
        if not self.videos and not self.images:
            return None

        def read() -> Iterator[Seen]:
            clips = {key: self._clip(episode, key, count) for key in self.videos}
            for tick in range(count):
                seen = {key: next(clip) for key, clip in clips.items()}
                seen |= {key: self._single(columns[key][tick], key) for key in self.images}
                yield {key.removeprefix(IMAGES): image for key, image in seen.items()}

        return read

    def _clip(self, episode: int, key: str, count: int) -> Iterator[ImageArray]:
        place = self.places.get((episode, key))
        if place is None:
            raise FileProblem(
                f"{self.root}/meta/episodes has no video of {key} for episode {episode}; the dataset is incomplete."
            )
        return _decoded(self.root, place, count, self.rate_hz)

    def _single(self, cell: object, key: str) -> ImageArray:
        data = cast("Mapping[str, object]", cell).get("bytes") if isinstance(cell, dict) else None
        try:
            return pictures.opened(cast("bytes", data or b""))
        except OSError as error:
            raise FileProblem(f"An image of {key} in {self.root} cannot be read: {error}.") from error


def _place(pattern: str, row: Mapping[str, object], key: str) -> VideoSegment:
    begin_s, where = row[f"videos/{key}/from_timestamp"], f"videos/{key}"
    if not isinstance(begin_s, int | float) or not 0 <= begin_s < _LONGEST_S:
        raise FileProblem(f"meta/episodes has {shown(begin_s)} as {where}/from_timestamp; it must be 0 s or more.")
    chunk, file = (_whole(row, f"{where}/{name}") for name in ("chunk_index", "file_index"))
    return VideoSegment(video=video_name(pattern, key, chunk, file), begin_s=float(begin_s))


def _whole(row: Mapping[str, object], name: str) -> int:
    value = row.get(name)
    if not isinstance(value, int) or not 0 <= value <= MOST_INDEX:
        raise FileProblem(f"meta/episodes has {shown(value)} as {name}; allowed are whole numbers to {MOST_INDEX}.")
    return value


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _decoded(root: Path, place: VideoSegment, count: int, rate_hz: float) -> Iterator[ImageArray]:
    """`count` images, uint8 (height, width, 3), from the begin of a segment."""
    try:
        import av
        from av.error import FFmpegError
    except ModuleNotFoundError as missing:
        raise MissingExtra(f"Videos need PyAV ({missing}): pip install 'enpire[lerobot]'.") from missing
    path, begin_s, found = below(root, place.video), place.begin_s, 0
    try:
        # The format is fixed: others, such as playlists, name further files and addresses, which FFmpeg would open.
        with av.open(str(path), format="mp4") as video:
            stream = video.streams.video[0]
            video.seek(int(begin_s / float(stream.time_base or 1)), stream=stream)
            for frame in video.decode(stream):
                if frame.width * frame.height > pictures.MOST_PIXELS:
                    raise ValueError(f"{frame.width} x {frame.height} pixels are more than {pictures.MOST_PIXELS}")
                if found < count and (frame.time or 0.0) > begin_s - 0.5 / rate_hz:
                    yield cast("ImageArray", frame.to_ndarray(format="rgb24"))
                    found += 1
                if found == count:
                    return
    except (FFmpegError, OSError, ValueError, IndexError) as error:
        raise FileProblem(f"The video {path} cannot be read: {error}.") from error
    raise FileProblem(
        f"The video {path} has {found} images from second {begin_s:g} on, the episode has {count} frames."
    )
