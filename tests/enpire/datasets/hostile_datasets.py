"""Datasets that try to leave their folder, to block, to fill the memory or to move a robot out of its bounds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim.tasks.pin_insertion import PinInsertion
from tests.enpire.datasets.foreign_dataset import Columns, columns, written

SPEC = PinInsertion.spec
CAMERA = "observation.images.top"


def of_the_task(**changed: object) -> Columns:
    """Two honest episodes of the task, with some columns replaced."""
    return columns(SPEC.state_dim, SPEC.action_dim) | changed


def with_video(root: Path, video_path: object, **row: object) -> Path:
    """A dataset with one camera, whose videos are at `video_path`."""
    from pyarrow import parquet, table

    feature = {"dtype": "video", "shape": [48, 64, 3]}
    written(root, of_the_task(), info={"video_path": video_path, "features": {CAMERA: feature}})
    cells: dict[str, Any] = {
        "episode_index": [0, 1], f"videos/{CAMERA}/chunk_index": [0, 0], f"videos/{CAMERA}/file_index": [0, 0],
        f"videos/{CAMERA}/from_timestamp": [0.0, 0.0],
    }  # fmt: skip
    (root / "meta" / "episodes").mkdir()
    cells |= {f"videos/{CAMERA}/{name}": [value] * 2 for name, value in row.items()}
    parquet.write_table(table(cells), root / "meta" / "episodes" / "file-000.parquet")
    return root


def _video(pattern: object, **row: object) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        with_video(root, pattern, **row)
        (root.parent / "outside.mp4").write_bytes(b"")

    return change


def _cells(**changed: object) -> Callable[[Path], object]:
    return lambda root: written(root, of_the_task(**changed))


def _info(data: bytes) -> Callable[[Path], object]:
    return lambda root: (written(root, of_the_task()) / "meta" / "info.json").write_bytes(data)


def _about(**keys: object) -> Callable[[Path], object]:
    return _info(json.dumps({"codebase_version": "v3.0", "features": {}, "fps": 30, **keys}).encode())


def _replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        with_video(root, "videos/clip.mp4")
        (root / "videos").mkdir()
        path = root / name
        path.unlink(missing_ok=True)
        make(path)

    return change


def _outside(path: Path) -> None:
    secret = path.parents[2] / "outside"
    secret.write_bytes(b"secret")
    path.symlink_to(secret)


def _playlist(path: Path) -> None:
    path.write_text("ffconcat version 1.0\nfile /etc/hostname\n")


def _many_rows(root: Path) -> None:
    """A parquet file of some kilobytes with very many rows, all alike."""
    import pyarrow
    from pyarrow import parquet

    written(root, of_the_task())
    column = pyarrow.array(np.zeros(2**25 + 1, np.int8))
    parquet.write_table(pyarrow.table({"episode_index": column}), root / "data" / "file-000.parquet")


def big(root: Path, mebibytes: int) -> Path:
    """A dataset of less than 10 MB whose column of instructions takes so many MiB."""
    import pyarrow
    from pyarrow import parquet

    written(root, of_the_task())
    rows = mebibytes // 8
    text = pyarrow.DictionaryArray.from_arrays(pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), rows), ["x" * 2**23])
    table = pyarrow.table({"task_index": list(range(rows)), "task": text})
    parquet.write_table(table.replace_schema_metadata(None), root / "meta" / "tasks.parquet", compression="zstd")
    return root


ATTACKS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "a video above": (_video("../outside.mp4"), "outside the dataset"),
    "an absolute video": (_video("/etc/passwd"), "outside the dataset"),
    "a device as video": (_video("/dev/zero"), "outside the dataset"),
    "a field that is evaluated": (_video("{video_key.__class__.__mro__}"), "no other braces"),
    "a field that is indexed": (_video("{video_key[0]}"), "no other braces"),
    "a field that converts": (_video("{file_index!r:>9999999999}"), "no other braces"),
    "a width": (_video("{file_index:0999999999d}"), "no other braces"),
    "a field of numbers": (_video("{0}"), "no other braces"),
    "an open brace": (_video("{"), "no other braces"),
    "no path": (_video(None), "No such file"),
    "a NUL": (_video("videos/\0.mp4"), "cannot be read"),
    "a very long name": (_video("x" * 100_000), "cannot be read"),
    "an index of text": (_video("v-{file_index}.mp4", file_index="../../x"), "whole numbers to"),
    "a negative index": (_video("v-{file_index}.mp4", file_index=-1), "whole numbers to"),
    "an infinite time": (_video("v.mp4", from_timestamp=float("inf")), "0 s or more"),
    "no time": (_video("v.mp4", from_timestamp=float("nan")), "0 s or more"),
    "a video that is a pipe": (_replaced("videos/clip.mp4", os.mkfifo), "not a regular file"),
    "a video that is a link": (_replaced("videos/clip.mp4", _outside), "outside the dataset"),
    "a video that is a folder": (_replaced("videos/clip.mp4", Path.mkdir), "not a regular file"),
    "a playlist as video": (_replaced("videos/clip.mp4", _playlist), "cannot be read"),
    "information that is a pipe": (_replaced("meta/info.json", os.mkfifo), "not a regular file"),
    "tasks that are a pipe": (_replaced("meta/tasks.parquet", os.mkfifo), "not a regular file"),
    "data that are a pipe": (_replaced("data/file-000.parquet", os.mkfifo), "not a regular file"),
    "data that are a link": (_replaced("data/file-000.parquet", _outside), "outside the dataset"),
    "data that are a device": (_replaced("data/z.parquet", lambda path: path.symlink_to("/dev/zero")), "outside"),
    "episodes that are a pipe": (_replaced("meta/episodes/file-000.parquet", os.mkfifo), "not a regular file"),
    "deep information": (_info(b'{"a":' * 100_000), "is not JSON"),
    "5000 digits": (_info(b'{"fps": ' + b"9" * 5000 + b"}"), "is not JSON"),
    "a rate": (_about(fps=10**400), "frames per second"),
    "a shape": (_about(features={CAMERA: {"dtype": "video", "shape": 7}}), "frames"),
    "features that are none": (_about(features=[1]), "describe each column"),
    "a long information": (_info(b" " * 2**25), "bytes; at most"),
    "very many rows": (_many_rows, "33554433 rows"),
    "an action of 3e38": (_cells(action=[[3e38] * SPEC.action_dim] * 12), "2 leave the bounds"),
    "an action that is negative and large": (_cells(action=[[-1e9] * SPEC.action_dim] * 12), "2 leave the bounds"),
    "an action that is not a number": (_cells(action=[[float("nan")] * SPEC.action_dim] * 12), "not finite"),
    "an action beyond float32": (_cells(action=[[1e300] * SPEC.action_dim] * 12), "not finite"),
    "a state of 3e38": (_cells(**{"observation.state": [[3e38] * SPEC.state_dim] * 12}), "2 leave the bounds"),
    "a number beyond all": (_cells(episode_index=[2**62] * 12), "whole number"),
    "a name of an episode": (
        _cells(episode_uid=["../" * 50_000] * 12, action=[[3e38] * SPEC.action_dim] * 12), "bounds",
    ),
}  # fmt: skip
"""What is written, and a part of the sentence that refuses it."""
