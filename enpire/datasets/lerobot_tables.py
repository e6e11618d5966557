"""Reads the tables of a LeRobotDataset v3; an error names what does not fit.

The files are read directly: LeRobot's own loader would download from the Hub when a file is broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from enpire.datasets.dataset_files import below, parquet_files
from enpire.datasets.lerobot_export import FORMAT
from enpire.errors import FileProblem, MissingExtra
from enpire.files import read_json, shown
from enpire.types import FloatArray, IntArray

Column = npt.NDArray[Any]
_MOST_ROWS, _MOST_VALUES = 2**25, 2**28
"""Of one parquet file: 12 days at 30 frames a second."""
_LARGEST_INFO = 2**24
"""Bytes of meta/info.json."""
_FASTEST_HZ = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """The content of meta/info.json."""

    info: Mapping[str, object]
    rate_hz: float
    names: Mapping[str, tuple[str, ...]]
    """LeRobot's key -> names of its numbers, in order; only keys that have names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The columns of a dataset, or of some of its frames; an empty cell (null) among numbers is NaN."""

    root: Path
    columns: Mapping[str, Column]

    @classmethod
    def read(cls, root: Path) -> Table:
        """Read all files of data/.

        Raises:
            FileProblem: a file cannot be read, or has other columns than the first.
        """
        files = parquet_files(root, "data")
        if not files:
            raise FileProblem(f"{root} has no parquet file below data: it is not a complete LeRobotDataset.")
        pieces = [_piece(file) for file in files]
        for file, piece in zip(files, pieces, strict=True):
            for name in sorted(piece.keys() ^ pieces[0].keys()):
                has, lacks = (file, files[0]) if name in piece else (files[0], file)
                raise FileProblem(
                    f"{has} has a column {name}, {lacks} has none; keep such recordings in separate datasets."
                )
        try:
            return cls(root=root, columns={name: np.concatenate([one[name] for one in pieces]) for name in pieces[0]})
        except ValueError as error:
            raise FileProblem(
                f"The parquet files of {root} hold different types in the same column: {error}."
            ) from error

    def __contains__(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self.columns

    def __len__(self) -> int:
        """Frames."""
        return len(self.columns["episode_index"])

    def at(self, rows: IntArray) -> Table:
        """The table of these frames, int64 (n,)."""
        return Table(root=self.root, columns={name: column[rows] for name, column in self.columns.items()})

    def vectors(self, name: str) -> FloatArray:
        """A column of lists of numbers, float32 (frames, numbers). LeRobot writes a list of one as a single number."""
        found = self._floats(name, np.float32)
        if found.ndim == 1:
            found = found[:, None]
        if found.ndim != 2:
            raise FileProblem(f"{name} of {self.root} must be a list of numbers in every frame, not lists of lists.")
        return found

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """A column with one number or truth value per frame, float64 (frames,)."""
        found = self._floats(name, np.float64)
        if found.size != len(found):
            raise FileProblem(f"{name} of {self.root} must be one number in every frame, not a list.")
        return found.reshape(-1)

    def whole(self, name: str) -> npt.NDArray[np.int64]:
        """A column with one whole number per frame, int64 (frames,)."""
        found = self.numbers(name)
        if not (np.isfinite(found) & (found == np.rint(found)) & (np.abs(found) < 2**31)).all():
            raise FileProblem(f"{name} of {self.root} must be a whole number below 2^31 in every frame.")
        return found.astype(np.int64)

    def _floats(self, name: str, dtype: type[np.floating[Any]]) -> Column:
        try:
            if self.columns[name].dtype.kind not in "biufO":
                raise TypeError
            with np.errstate(over="ignore"):
                return self.columns[name].astype(dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise FileProblem(
                f"{name} of {self.root} must be numbers, the same count in every frame; some frames differ."
            ) from error


def read_dataset_info(root: Path) -> DatasetInfo:
    """Read `meta/info.json`.

    Raises:
        FileProblem: it is missing, or a key in it is missing or wrong.
    """
    path = root / "meta" / "info.json"
    try:
        content = read_json(below(root, "meta/info.json"), _LARGEST_INFO)
    except FileProblem as error:
        raise FileProblem(f"{error} It must be a LeRobotDataset {FORMAT}.") from error
    if not isinstance(content, dict):
        raise FileProblem(f"{path} must be a JSON object.")
    info = cast("dict[str, object]", content)
    if info.get("codebase_version") != FORMAT:
        raise FileProblem(f"{root} is LeRobotDataset {info.get('codebase_version')}; only {FORMAT} can be read.")
    rate, features = info.get("fps"), info.get("features")
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not (0 < rate < _FASTEST_HZ):
        raise FileProblem(f"{path} must hold fps, a number of frames per second above 0, not {shown(rate)}.")
    if not isinstance(features, dict) or not all(isinstance(one, dict) for one in cast("Any", features).values()):
        raise FileProblem(f"{path} must describe each column under features.")
    named = {key: _names(one.get("names")) for key, one in cast("dict[str, dict[str, object]]", features).items()}
    return DatasetInfo(info=info, rate_hz=float(rate), names={key: names for key, names in named.items() if names})


def _names(content: object) -> tuple[str, ...]:
    """Names of numbers in a list, in a list under one heading ({"motors": [...]}) or with their places ({"x": 0})."""
    if isinstance(content, dict):
        items = cast("dict[str, object]", content)
        if sorted(map(repr, items.values())) == sorted(map(repr, range(len(items)))):
            return tuple(sorted(items, key=lambda name: cast("int", items[name])))
        (content,) = items.values() if len(items) == 1 else (None,)
    listed = cast("list[object]", content) if isinstance(content, list) else []
    return tuple(name for name in listed if isinstance(name, str)) if all(isinstance(n, str) for n in listed) else ()


def read_instructions(root: Path) -> Mapping[int, str]:
    """task_index -> instruction of the task.

    Raises:
        FileProblem: meta/tasks.parquet lacks a column.
    """
    path = root / "meta" / "tasks.parquet"
    table = _columns(below(root, "meta/tasks.parquet"))
    words = next((table[name] for name in ("task", "__index_level_0__") if name in table), None)
    if words is None or "task_index" not in table:
        raise FileProblem(f"{path} must have the columns task_index and task; it has {sorted(table)}.")
    indices = table["task_index"]
    if not all(isinstance(index, int) for index in indices):
        raise FileProblem(f"{path} must hold whole numbers as task_index, not {shown(indices[:3])}.")
    return dict(zip(cast("list[int]", indices), map(str, words), strict=True))


def episode_rows(root: Path) -> Iterator[Mapping[str, object]]:
    """The rows of meta/episodes, without the statistics; none where a dataset has no such file."""
    for file in parquet_files(root, "meta/episodes"):
        columns = _columns(file, without="stats/")
        for row in zip(*columns.values(), strict=True):
            yield dict(zip(columns, row, strict=True))


def _piece(file: Path) -> dict[str, Column]:
    return {name: _column(listed) for name, listed in _columns(file).items()}


def _column(listed: list[object]) -> Column:
    try:
        return np.asarray(listed)
    except ValueError:  # lists of different lengths, or some missing: refused when they are read as numbers
        return np.fromiter(listed, object, len(listed))


def _columns(file: Path, without: str | None = None) -> dict[str, list[object]]:
    """The columns of one file, except those whose names begin with `without`."""
    try:
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as missing:
        raise MissingExtra(f"LeRobot's files need pyarrow ({missing}): pip install 'enpire[lerobot]'.") from missing
    reader, broken = cast("Any", parquet), cast("type[Exception]", cast("Any", pyarrow).ArrowException)
    try:
        with reader.ParquetFile(file) as opened:
            _check_size(opened.metadata, file)
            names = [name for name in opened.schema_arrow.names if without is None or not name.startswith(without)]
            if len(set(names)) < len(names):
                raise FileProblem(f"{file} has two columns of one name; all {len(names)} names must differ.")
            table = opened.read(columns=names, use_threads=False)
        return {name: table[name].to_pylist() for name in names}
    except MemoryError:
        raise
    except (broken, OSError, ValueError, OverflowError) as error:
        raise FileProblem(f"{file} cannot be read: {error}. An interrupted recording leaves such files.") from error


def _check_size(metadata: Any, file: Path) -> None:
    """FileProblem for a file that describes more rows or numbers than any recording has."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    values = sum(group.column(index).num_values for group in groups for index in range(group.num_columns))
    if metadata.num_rows > _MOST_ROWS or values > _MOST_VALUES:
        raise FileProblem(
            f"{file} describes {metadata.num_rows} rows with {values} values; at most {_MOST_ROWS} rows and "
            f"{_MOST_VALUES} values are read. Split the dataset."
        )
