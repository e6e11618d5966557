"""The pictures of a LeRobotDataset v3: cut out of its videos, or taken from the column that holds them one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from enpire.errors import FileProblem, MissingExtra
from enpire.store import pictures
from enpire.store.pictures import Seen
from enpire.types import ImageArray

IMAGES = "observation.images."
"""LeRobot's keys of pictures begin so; the rest is the camera."""
Pictures = Callable[[], Iterator[Seen]]
"""Opens the files and gives camera -> picture, instant by instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Films:
    """Where a dataset keeps what its cameras saw."""

    root: Path
    rate_hz: float
    pattern: str
    """Path of a video, with `video_key`, `chunk_index` and `file_index` to fill in."""
    videos: tuple[str, ...]
    """Keys of cameras that were filmed."""
    images: tuple[str, ...]
    """Keys of cameras whose pictures lie one by one in a column of the data."""
    places: Mapping[int, Mapping[str, Any]]
    """Episode -> its row in meta/episodes: which video, from which second."""

    @classmethod
    def of(cls, root: Path, info: Mapping[str, Any], places: Mapping[int, Mapping[str, Any]]) -> Films:
        """From `meta/info.json` and the rows of `meta/episodes`; depth pictures are not read."""
        kinds: dict[str, tuple[str, ...]] = {"video": (), "image": ()}
        for key, feature in cast("Mapping[str, Mapping[str, Any]]", info.get("features", {})).items():
            if key.startswith(IMAGES) and feature.get("dtype") in kinds and 3 in feature.get("shape", ()):
                kinds[str(feature["dtype"])] += (key,)
        return cls(
            root=root, rate_hz=float(info.get("fps", 0)), pattern=str(info.get("video_path") or ""),
            videos=kinds["video"], images=kinds["image"], places=places,
        )  # fmt: skip

    def pictures(self, episode: int, column: Mapping[str, Any], count: int) -> Pictures | None:
        """The `count` instants of one episode, whose rows of the data are in `column`; None without a camera."""
        if not self.videos and not self.images:
            return None

        def read() -> Iterator[Seen]:
            filmed = {key: self._clip(episode, key, count) for key in self.videos}
            for tick in range(count):
                seen = {key: next(clip) for key, clip in filmed.items()}
                seen |= {key: self._single(column[key][tick], key) for key in self.images}
                yield {key.removeprefix(IMAGES): image for key, image in seen.items()}

        return read

    def _clip(self, episode: int, key: str, count: int) -> Iterator[ImageArray]:
        place = self.places.get(episode, {})
        asked = [place.get(f"videos/{key}/{name}") for name in ("chunk_index", "file_index", "from_timestamp")]
        if None in asked or not self.pattern:
            raise FileProblem(f"{self.root}/meta does not say in which video {key} of episode {episode} is.")
        chunk, file, begin_s = asked
        path = self.root / self.pattern.format(video_key=key, chunk_index=chunk, file_index=file)
        return _decoded(path, float(cast("float", begin_s)), count, self.rate_hz)

    def _single(self, cell: object, key: str) -> ImageArray:
        data = cast("Mapping[str, Any]", cell).get("bytes") if isinstance(cell, dict) else None
        try:
            return pictures.opened(cast("bytes", data or b""))
        except OSError as error:
            raise FileProblem(f"A picture of {key} in {self.root} cannot be read: {error}.") from error


def _decoded(path: Path, begin_s: float, count: int, rate_hz: float) -> Iterator[ImageArray]:
    """`count` pictures (height, width, 3) from the second `begin_s` on."""
    try:
        import av
        from av.error import FFmpegError
    except ModuleNotFoundError as missing:
        raise MissingExtra(f"Videos need PyAV ({missing}): pip install 'enpire[lerobot]'.") from missing
    found = 0
    try:
        with av.open(str(path)) as film:
            stream = film.streams.video[0]
            film.seek(int(begin_s / float(stream.time_base or 1)), stream=stream)
            for frame in film.decode(stream):
                if found < count and (frame.time or 0.0) > begin_s - 0.5 / rate_hz:
                    yield cast("ImageArray", frame.to_ndarray(format="rgb24"))
                    found += 1
                if found == count:
                    return
    except (FFmpegError, OSError, ValueError, IndexError) as error:
        raise FileProblem(f"The video {path} cannot be read: {error}.") from error
    raise FileProblem(f"The video {path} has {found} pictures from second {begin_s:g} on, the episode {count} frames.")
