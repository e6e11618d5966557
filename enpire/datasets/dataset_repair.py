"""Makes a whole LeRobotDataset of one that a crash left broken, in a new folder; the broken one stays as it is.

LeRobot writes the data of an episode at once, but the table of contents of each parquet file, and the rows of
meta/episodes, only later. After a kill the frames are there and cannot be read. They are recovered
(`parquet_recovery`), and the table of episodes and the statistics are made anew from them with LeRobot's own writer
(`lerobot_rewrite`). An episode is kept when all its frames and all its videos are whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from enpire.datasets.dataset_files import below, finish, memory_limit, parquet_files, video_name
from enpire.datasets.lerobot_rewrite import Clip, Features, Part, features_of, rewrite
from enpire.datasets.lerobot_tables import DatasetInfo, episode_rows, read_dataset_info
from enpire.datasets.lerobot_video import CameraFiles, VideoSegment
from enpire.datasets.parquet_recovery import recover
from enpire.errors import FileProblem, MissingExtra, UsageError
from enpire.store import durable, removal

_MOST_EPISODES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """The result of a repair."""

    episodes: int
    frames: int
    recovered: tuple[str, ...]
    """Data files that could not be read as they were."""
    lost: tuple[str, ...]
    """Each episode that is not in the new dataset, as a sentence."""


@dataclass(slots=True, kw_only=True)
class _Places:
    """Where the videos of the episodes lie."""

    rate_hz: float
    clips: Mapping[str, Sequence[Clip]]
    """Key of a camera -> its files, in order."""
    known: Mapping[tuple[int, str], VideoSegment]
    """(episode, key) -> its part of a video, where meta/episodes can be read."""
    found: dict[tuple[int, str], tuple[Clip, int]] = field(default_factory=dict[tuple[int, str], tuple[Clip, int]])
    """(episode, key) -> file, and the first frame in it."""

    def place(self, episode: int, frames: int) -> bool:
        """Find the videos of the next episode; False where one is missing or ends early."""
        found: dict[tuple[int, str], tuple[Clip, int]] = {}
        for key, clips in self.clips.items():
            clip = self._named(episode, key, clips) or next((one for one in clips if one.used < one.frames), None)
            if clip is None or clip.used + frames > clip.frames:
                return False
            found[episode, key] = clip, clip.used
        for clip, _ in found.values():
            clip.used += frames
        self.found |= found
        return True

    def _named(self, episode: int, key: str, clips: Sequence[Clip]) -> Clip | None:
        segment = self.known.get((episode, key))
        clip = next((one for one in clips if segment is not None and one.video == segment.video), None)
        if clip is not None and segment is not None:
            clip.used = round(segment.begin_s * self.rate_hz)
        return clip


def repair_dataset(root: Path, target: Path) -> Repaired:
    """Write the whole episodes of a broken LeRobotDataset v3 to `target`, which appears when it is complete.

    Args:
        root: folder of the dataset; it is only read.
        target: new folder.

    Raises:
        UsageError: `target` exists, or the dataset is whole.
        FileProblem: meta/info.json or meta/tasks.parquet cannot be read, or no episode is whole.
        MissingExtra: LeRobot is not installed.
    """
    if target.exists():
        raise UsageError(f"{target} exists already: name a new folder for the repaired dataset.")
    info = read_dataset_info(root)
    staged = durable.stage_folder(target)
    try:
        with memory_limit(root):
            made = _repair(root, info, staged)
        finish(staged / "dataset")
        durable.reveal([(staged / "dataset", target)])
    finally:
        removal.remove(staged, target.parent)
    return made


def _repair(root: Path, info: DatasetInfo, staged: Path) -> Repaired:
    features = features_of(root, info)
    recovered: list[str] = []
    lost: list[str] = []
    parts = list(_parts(root, features, staged, recovered))
    numbers, known = _readable_rows(root, info)
    clips = {key: list(_clips(root, info, key)) for key in features.videos}
    places = _Places(rate_hz=info.rate_hz, clips=clips, known=known)
    kept: list[Part] = []
    for part in parts:
        why = _fault(part, len(kept) + len(lost))
        if not why and not places.place(part.episode, part.table.num_rows):
            why = "its video ends early or is missing"
        if why:
            lost.append(f"Episode {part.episode}: {why}.")
        else:
            kept.append(part)
    promised = info.info.get("total_episodes")
    seen = len(kept) + len(lost)
    if isinstance(promised, int) and seen < promised <= seen + _MOST_EPISODES:
        lost += [f"Episode {n}: its frames are in no file." for n in range(seen, promised)]
    if not kept:
        raise FileProblem(f"No episode of {root} is whole. {' '.join(lost[:3])}".rstrip())
    if not recovered and not lost and len(kept) == promised and numbers == set(range(len(kept))):
        raise UsageError(f"{root} is whole, with {len(kept)} episodes: there is nothing to repair.")
    frames = rewrite(root, info, features, staged / "dataset", kept, places.found)
    return Repaired(episodes=len(kept), frames=frames, recovered=tuple(recovered), lost=tuple(lost))


def _parts(root: Path, features: Features, staged: Path, recovered: list[str]) -> Iterator[Part]:
    """The episodes whose frames can be read, in the order of the files; names of recovered files go to `recovered`."""
    try:
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Repairing needs LeRobot ({error}): pip install 'enpire[lerobot]'.") from error
    arrow: Any = pyarrow
    reader: Any = parquet
    for number, file in enumerate(parquet_files(root, "data")):
        readable = file
        try:
            reader.ParquetFile(file).close()
        except (arrow.ArrowException, OSError):
            readable = staged / f"recovered-{number}.parquet"
            recovered.append(str(file.relative_to(root.resolve())))
            if not recover(file, features.schema, readable):
                continue
        with reader.ParquetFile(readable) as opened:
            groups = list(_groups(opened, arrow.ArrowException, features, file))
        yield from _episodes(arrow.concat_tables(groups), file) if groups else ()


def _groups(opened: Any, broken: type[Exception], features: Features, file: Path) -> Iterator[Any]:
    """The row groups of a file, up to the first that cannot be read."""
    for group in range(opened.num_row_groups):
        try:
            table = opened.read_row_group(group, use_threads=False)
            table.validate(full=True)
        except (broken, OSError, ValueError):
            return
        if set(table.schema.names) != set(features.schema.names):
            raise FileProblem(f"{file} has other columns than meta/info.json describes.")
        yield table


def _episodes(table: Any, file: Path) -> Iterator[Part]:
    numbers = table["episode_index"].to_numpy()
    borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for begin, end in pairwise(borders):
        if end > begin:
            yield Part(episode=int(numbers[begin]), file=file, table=table.slice(begin, end - begin))


def _fault(part: Part, expected: int) -> str:
    """What is wrong with the frames of an episode; empty when they are whole."""
    if part.episode != expected:
        return "an episode before it is missing"
    frames = part.table["frame_index"].to_numpy()
    return "" if np.array_equal(frames, np.arange(len(frames))) else "some of its frames are missing"


def _readable_rows(root: Path, info: DatasetInfo) -> tuple[set[object], Mapping[tuple[int, str], VideoSegment]]:
    """The episodes that meta/episodes names, and where their videos lie; nothing where it cannot be read."""
    try:
        rows = list(episode_rows(root))
        return {row.get("episode_index") for row in rows}, CameraFiles.of(root, info.info, rows).places
    except FileProblem:
        return set(), {}


def _clips(root: Path, info: DatasetInfo, key: str) -> Iterator[Clip]:
    """The videos of a camera, in order."""
    pattern, size = str(info.info.get("video_path")), info.info.get("chunks_size")
    for number in count():
        chunk, file = divmod(number, size if isinstance(size, int) and size > 0 else 1000)
        video = video_name(pattern, key, chunk, file)
        if not (root / video).exists():
            return
        yield Clip(video=video, chunk=chunk, file=file, frames=_frames(below(root, video)))


def _frames(path: Path) -> int:
    """Images in a video; 0 where it cannot be read."""
    try:
        import av
        from av.error import FFmpegError
    except ModuleNotFoundError as missing:
        raise MissingExtra(f"Videos need PyAV ({missing}): pip install 'enpire[lerobot]'.") from missing
    frames = 0
    with contextlib.suppress(FFmpegError, OSError, ValueError, IndexError), av.open(str(path), format="mp4") as video:
        frames = sum(1 for packet in video.demux(video=0) if packet.size)
    return frames
