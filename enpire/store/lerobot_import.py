"""Episodes from LeRobotDataset v3, ours or another tool's: numbers to the bit, pictures as the video has them.

Reading goes to the files directly: LeRobot's own loader would ask the Hub when a file is broken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from enpire.errors import FileProblem, MissingExtra
from enpire.store import arrays
from enpire.store.lerobot_export import FIGURES, FORMAT, Figures
from enpire.store.lerobot_video import Films, Pictures
from enpire.types import OUTCOME_KINDS, SOURCE_HUMAN, SOURCE_POLICY, EpisodeArrays

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One episode of a dataset. It becomes part of a campaign only through an order of its own."""

    uid: str
    """The order_id that it was recorded under, or the number of the episode in a foreign dataset."""
    instruction: str
    outcome: Literal["success", "failure", "unsafe", "aborted", "invalid", "unknown"]
    """`unknown` where the dataset does not say."""
    arrays: EpisodeArrays
    figures: Figures
    """`p_v`, `V_e`, `g`, one number per decision, as the critics gave them; empty where there are none."""
    pictures: Pictures | None
    """Reads what the cameras saw before every command, out of the dataset's files; None without a camera."""


def import_dataset(root: Path, default_source: int = SOURCE_HUMAN) -> Iterator[Imported]:
    """The episodes of a LeRobotDataset v3, in its order.

    A foreign dataset does not say what was sensed after the last command, so its last state is repeated; where it does
    not say who held the robot, `default_source` did (SOURCE_POLICY in frames that its `intervention` column denies).
    FileProblem names what is missing.
    """
    info = _json(root / "meta" / "info.json")
    if info.get("codebase_version") != FORMAT:
        raise FileProblem(f"{root} is LeRobotDataset {info.get('codebase_version')}; only {FORMAT} can be read.")
    instructions = _instructions(root)
    columns = _columns(root)
    for needed in ("observation.state", "action", "episode_index", "task_index"):
        if needed not in columns:
            raise FileProblem(f"{root} has no column {needed}; it has {sorted(columns)}.")
    numbers = columns["episode_index"]
    if len(numbers) != info.get("total_frames"):
        raise FileProblem(f"{root} holds {len(numbers)} frames, its info.json says {info.get('total_frames')}.")
    films = Films.of(root, info, _places(root))
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    for rows in np.split(np.arange(len(numbers)), cuts) if len(numbers) else []:
        part = {name: column[rows] for name, column in columns.items()}
        yield _imported(part, instructions[int(part["task_index"][0])], default_source, films)


def _imported(part: Columns, instruction: str, default_source: int, films: Films) -> Imported:
    state = part["observation.state"].astype(np.float32)
    after = part["next.state"][-1:].astype(np.float32) if "next.state" in part else state[-1:]
    ticks = len(state)
    found = EpisodeArrays(
        state=np.concatenate([state, after]),
        action=part["action"].astype(np.float32),
        source=_source(part, default_source, ticks),
        chunk=part["chunk"].astype(np.int32) if "chunk" in part else np.full(ticks, -1, np.int32),
    )
    index = int(part["episode_index"][0])
    uid = str(part["episode_uid"][0]) if "episode_uid" in part else f"episode-{index}"
    arrays.check(found, f"The arrays of {uid}")
    return Imported(
        uid=uid, instruction=instruction, outcome=_outcome(part), arrays=found, figures=_figures(part, found.chunk),
        pictures=films.pictures(index, part, ticks),
    )  # fmt: skip


def _figures(part: Columns, chunk: npt.NDArray[np.int32]) -> Figures:
    if not all(name in part for name in ("judged", *FIGURES)) or not part["judged"].astype(bool).all():
        return {}
    _, first = np.unique(arrays.decision_of(chunk), return_index=True)
    return {name: [float(value) for value in part[name].astype(np.float32)[first]] for name in FIGURES}


def _source(part: Columns, default_source: int, ticks: int) -> npt.NDArray[np.uint8]:
    if "source" in part and np.issubdtype(part["source"].dtype, np.integer):
        return part["source"].astype(np.uint8)
    if "intervention" in part:
        return np.where(part["intervention"].astype(bool), SOURCE_HUMAN, SOURCE_POLICY).astype(np.uint8)
    return np.full(ticks, default_source, np.uint8)


def _outcome(part: Columns) -> Literal["success", "failure", "unsafe", "aborted", "invalid", "unknown"]:
    said = str(part["outcome"][0]) if "outcome" in part else ""
    for kind in OUTCOME_KINDS:
        if kind == said:
            return kind
    if "next.success" in part:
        return "success" if bool(part["next.success"].astype(bool).any()) else "failure"
    return "unknown"


def _places(root: Path) -> Iterator[Mapping[str, object]]:
    """The rows of meta/episodes, without the statistics; none where a dataset has no such file."""
    parquet, broken = _parquet()
    for file in sorted((root / "meta" / "episodes").rglob("*.parquet")):
        try:
            names = [name for name in parquet.read_schema(file).names if not name.startswith("stats/")]
            rows = parquet.read_table(file, columns=names).to_pylist()
        except (broken, OSError) as error:
            raise FileProblem(f"{file} cannot be read: {error}.") from error
        yield from rows


def _columns(root: Path) -> dict[str, npt.NDArray[Any]]:
    parquet, broken = _parquet()
    files = sorted((root / "data").rglob("*.parquet"))
    if not files:
        raise FileProblem(f"{root} has no parquet file below data: it is not a complete LeRobotDataset.")
    gathered: dict[str, list[npt.NDArray[Any]]] = {}
    for file in files:
        try:
            table = parquet.read_table(file)
        except (broken, OSError) as error:
            raise FileProblem(
                f"{file} cannot be read: {error}. A recording that was killed leaves such files."
            ) from error
        for name in table.column_names:
            listed = table[name].to_pylist()
            single = np.empty(len(listed), object)
            single[:] = listed
            column = single if listed and isinstance(listed[0], dict) else np.asarray(listed)
            gathered.setdefault(name, []).append(column)
    return {name: np.concatenate(parts) for name, parts in gathered.items()}


def _instructions(root: Path) -> dict[int, str]:
    parquet, broken = _parquet()
    path = root / "meta" / "tasks.parquet"
    try:
        table = parquet.read_table(path)
    except (broken, OSError) as error:
        raise FileProblem(f"{path} cannot be read: {error}.") from error
    (texts,) = (name for name in table.column_names if name != "task_index")
    return dict(zip(table["task_index"].to_pylist(), table[texts].to_pylist(), strict=True))


def _parquet() -> tuple[Any, type[Exception]]:
    try:
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise MissingExtra(f"LeRobot's files need pyarrow ({error}): pip install 'enpire[lerobot]'.") from error
    return parquet, cast(Any, pyarrow).ArrowException


def _json(path: Path) -> Mapping[str, object]:
    try:
        content: object = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FileProblem(f"{path} cannot be read: {error}. It must be a LeRobotDataset {FORMAT}.") from error
    if not isinstance(content, dict):
        raise FileProblem(f"{path} must be a JSON object.")
    return cast(dict[str, object], content)
