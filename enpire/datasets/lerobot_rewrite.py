"""Writes the frames of a LeRobotDataset as a new one: the data and videos as they are, all else anew by LeRobot."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from enpire.datasets.dataset_files import below
from enpire.datasets.lerobot_tables import DatasetInfo, read_instructions
from enpire.datasets.lerobot_video import IMAGES, CameraFiles, VideoSegment
from enpire.errors import FileProblem, MissingExtra
from enpire.store import durable

_IN_EVERY = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_CAMERA = re.compile(re.escape(IMAGES) + r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The columns of a dataset."""

    described: Any
    """As LeRobot describes them: name -> {dtype, shape, names}, shapes as tuples."""
    schema: Any
    """pyarrow schema of a data file."""
    videos: tuple[str, ...]
    """Keys of cameras with videos."""
    images: tuple[str, ...]
    """Keys of cameras whose images are cells of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The frames of one episode, and where they lie."""

    episode: int
    file: Path
    table: Any
    """pyarrow table."""


@dataclass(slots=True, kw_only=True)
class Clip:
    """A video file, and how many of its frames episodes have used."""

    video: str
    """Its name in the dataset."""
    chunk: int
    file: int
    frames: int
    used: int = 0


def features_of(root: Path, info: DatasetInfo) -> Features:
    """The columns that meta/info.json describes.

    Raises:
        FileProblem: a column of every dataset is missing, or a camera is not supported.
        MissingExtra: LeRobot is not installed.
    """
    try:
        from lerobot.datasets import feature_utils  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Repairing needs LeRobot ({error}): pip install 'enpire[lerobot]'.") from error
    listed: Any = info.info["features"]
    described: Any = {key: {**one, "shape": tuple(one.get("shape") or ())} for key, one in listed.items()}
    missing = [key for key in _IN_EVERY if key not in described]
    if missing:
        raise FileProblem(f"{root}/meta/info.json lacks the features {', '.join(missing)}, which every dataset has.")
    kinds = {
        kind: tuple(key for key, one in described.items() if one.get("dtype") == kind) for kind in ("video", "image")
    }
    for key in (*kinds["video"], *kinds["image"]):
        if not _CAMERA.fullmatch(key) or 3 not in described[key]["shape"]:
            raise FileProblem(
                f"{root} has the camera {key[:80]!r}; only colour images named {IMAGES}NAME are repaired."
            )
    lerobot: Any = feature_utils
    try:
        schema = lerobot.get_hf_features_from_features(described).arrow_schema
    except (ValueError, TypeError, KeyError) as error:
        raise FileProblem(f"{root}/meta/info.json describes columns that LeRobot does not know: {error}.") from error
    return Features(described=described, schema=schema, videos=kinds["video"], images=kinds["image"])


def rewrite(  # noqa: PLR0913 - what is written, and where to
    root: Path,
    info: DatasetInfo,
    features: Features,
    target: Path,
    parts: Sequence[Part],
    found: Mapping[tuple[int, str], tuple[Clip, int]],
) -> int:
    """Write episodes as a new dataset.

    Args:
        root: the dataset from which the frames are.
        info: its meta/info.json.
        features: its columns.
        target: new folder.
        parts: the episodes, which are numbered anew.
        found: (episode, key of a camera) -> video and first frame.

    Returns:
        Number of frames.

    Raises:
        FileProblem: tasks or a video cannot be read.
    """
    instructions = read_instructions(root)
    meta = _created(root, info, features, target)
    meta.save_episode_tasks(list(dict.fromkeys(instructions.values())))
    cameras = CameraFiles(
        root=root, rate_hz=info.rate_hz, videos=features.videos, images=features.images,
        places={
            at: VideoSegment(video=clip.video, begin_s=first / info.rate_hz) for at, (clip, first) in found.items()
        },
    )  # fmt: skip
    frames, writers = 0, _Writers(target=target, pattern=meta.data_path, open={})
    try:
        for number, part in enumerate(parts):
            table, tasks = _renumbered(part, number, frames, instructions, meta)
            where: dict[str, object] = writers.write(part.file, table)
            for key in features.videos:
                clip, first = found[part.episode, key]
                where |= {
                    f"videos/{key}/chunk_index": clip.chunk, f"videos/{key}/file_index": clip.file,
                    f"videos/{key}/from_timestamp": first / info.rate_hz,
                    f"videos/{key}/to_timestamp": (first + table.num_rows) / info.rate_hz,
                }  # fmt: skip
            meta.save_episode(number, table.num_rows, tasks, _statistics(part, table, features, cameras), where)
            frames += table.num_rows
    finally:
        writers.close()
        meta.finalize()
    for key, clip in {(key, clip.video): (key, clip) for (_, key), (clip, _) in found.items()}.values():
        copy = target / meta.video_path.format(video_key=key, chunk_index=clip.chunk, file_index=clip.file)
        durable.make_folder(copy.parent)
        shutil.copyfile(below(root, clip.video), copy)
    return frames


def _created(root: Path, info: DatasetInfo, features: Features, target: Path) -> Any:
    """LeRobot's writer of everything but the data."""
    from lerobot.datasets.dataset_metadata import (  # pyright: ignore[reportMissingTypeStubs]
        LeRobotDatasetMetadata,
    )

    maker: Any = LeRobotDatasetMetadata
    kept = ("robot_type", "chunks_size", "data_files_size_in_mb", "video_files_size_in_mb")
    return maker.create(
        f"enpire/{root.name}", round(info.rate_hz), features.described, root=target, use_videos=bool(features.videos),
        **{name: info.info.get(name) for name in kept},
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writers:
    """Writes data files under the numbers of the files from which the frames are."""

    target: Path
    pattern: str
    open: dict[Path, Any]

    def write(self, file: Path, table: Any) -> dict[str, object]:
        """Append an episode; returns where it is, as meta/episodes says it."""
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

        writer: Any = parquet
        found = re.fullmatch(r"chunk-(\d{1,6})/file-(\d{1,6})\.parquet", f"{file.parent.name}/{file.name}")
        if found is None:
            raise FileProblem(f"{file} must be named data/chunk-000/file-000.parquet.")
        chunk, number = int(found[1]), int(found[2])
        if file not in self.open:
            path = self.target / self.pattern.format(chunk_index=chunk, file_index=number)
            durable.make_folder(path.parent)
            self.open[file] = writer.ParquetWriter(path, schema=table.schema, compression="snappy")
        self.open[file].write_table(table)
        return {"data/chunk_index": chunk, "data/file_index": number}

    def close(self) -> None:
        """Finish the files."""
        for writer in self.open.values():
            writer.close()


def _renumbered(
    part: Part, number: int, begin: int, instructions: Mapping[int, str], meta: Any
) -> tuple[Any, list[str]]:
    """The frames of an episode under its new number, and its instructions."""
    import pyarrow  # pyright: ignore[reportMissingTypeStubs]

    arrow: Any = pyarrow
    table, rows = part.table, part.table.num_rows
    old: list[int] = table["task_index"].to_pylist()
    unknown = sorted({index for index in old if index not in instructions})
    if unknown:
        raise FileProblem(f"meta/tasks.parquet has no task {unknown[0]}, which episode {part.episode} names.")
    new = (
        ("episode_index", [number] * rows), ("index", list(range(begin, begin + rows))),
        ("task_index", [int(meta.get_task_index(instructions[index])) for index in old]),
    )  # fmt: skip
    for name, values in new:
        at = table.schema.get_field_index(name)
        kind = table.schema.field(at)
        table = table.set_column(at, kind, arrow.array(values, type=kind.type))
    return table, list(dict.fromkeys(instructions[index] for index in old))


def _statistics(part: Part, table: Any, features: Features, cameras: CameraFiles) -> Any:
    """The statistics of an episode as LeRobot computes them; those of images over some of the frames, as there."""
    from lerobot.datasets import compute_stats  # pyright: ignore[reportMissingTypeStubs]

    lerobot: Any = compute_stats
    numbers = {
        key: np.array(table[key].to_pylist(), dtype=one["dtype"]) for key, one in features.described.items()
        if one.get("dtype") not in {"video", "image", "string", "language"}
    }  # fmt: skip
    found: Any = lerobot.compute_episode_stats(numbers, features.described)
    cells = {key: np.array(table[key].to_pylist(), dtype=object) for key in cameras.images}
    read = cameras.pictures(part.episode, cells, table.num_rows)
    if read is None:
        return found
    chosen = set(lerobot.sample_indices(table.num_rows))
    seen = [one for n, one in enumerate(read()) if n in chosen]
    for camera in seen[0]:
        images = np.stack([lerobot.auto_downsample_height_width(one[camera].transpose(2, 0, 1)) for one in seen])
        stats = lerobot.get_feature_stats(images, axis=(0, 2, 3), keepdims=True)
        found[f"{IMAGES}{camera}"] = {
            name: value if name == "count" else np.squeeze(value / 255, axis=0) for name, value in stats.items()
        }
    return found
