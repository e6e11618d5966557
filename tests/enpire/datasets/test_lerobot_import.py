"""Contents of foreign datasets, and the sentence for each invalid one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from enpire.datasets.lerobot_import import import_dataset
from enpire.datasets.lerobot_tables import read_dataset_info
from enpire.errors import FileProblem
from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, SOURCE_POLICY
from tests.enpire.datasets.foreign_dataset import FRAMES, Columns, columns, written

TOTAL = sum(FRAMES)
NAN = float("nan")


def _state(cells: object) -> Columns:
    return {"observation.state": cells}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (_state([[1.0] * (3 + n % 2) for n in range(TOTAL)]), "the same count in every frame"),
        (_state([None, *[[1.0] * 4] * (TOTAL - 1)]), "the same count in every frame"),
        (_state([["a"] * 4] * TOTAL), "must be numbers"),
        (_state([[[1.0] * 4] * 2] * TOTAL), "not lists of lists"),
        ({"next.state": np.zeros((TOTAL, 3)).tolist()}, "3 numbers in next.state and 4 in observation.state"),
        ({"chunk": [[1, 2]] * TOTAL}, "chunk of .* must be one number"),
        ({"chunk": [None] * TOTAL}, "chunk of .* must be a whole number"),
        ({"source": [256] * TOTAL}, "source codes 256 to 256; 0 to 3 are allowed"),
        ({"episode_index": [n % 2 for n in range(TOTAL)]}, "are not consecutive"),
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path: Path, changed: Columns, sentence: str) -> None:
    with pytest.raises(FileProblem, match=sentence):
        list(import_dataset(written(tmp_path / "set", columns() | changed)))


@pytest.mark.parametrize("rate", [None, 0, -5, "30", True, NAN])
def test_a_dataset_without_a_rate_is_refused(tmp_path: Path, rate: object) -> None:
    with pytest.raises(FileProblem, match="a number of frames per second"):
        list(import_dataset(written(tmp_path / "set", columns(), info={"fps": rate})))


def test_files_with_different_columns_are_refused(tmp_path: Path) -> None:
    later = columns() | {"episode_index": np.repeat([2, 3], FRAMES).tolist()}
    for number, files in enumerate(
        [(columns(), later | {"mass": [1.0] * TOTAL}), (columns() | {"mass": [1.0] * TOTAL}, later)]
    ):
        root = written(tmp_path / f"{number}", *files)
        with pytest.raises(
            FileProblem, match=f"file-00{1 - number}.parquet has a column mass, .*file-00{number}.parquet"
        ):
            list(import_dataset(root))
    assert len(list(import_dataset(written(tmp_path / "alike", columns(), later)))) == 4


def test_tasks_are_found_by_their_names(tmp_path: Path) -> None:
    for number, key in enumerate(("task", "__index_level_0__")):
        tasks = {"task_index": [0], key: ["stack"], "language": ["en"]}
        (first, _) = import_dataset(written(tmp_path / f"{number}", columns(), tasks=tasks))
        assert first.instruction == "stack"
    for tasks, sentence in (
        ({"task": ["stack"]}, "must have the columns task_index and task"),
        ({"task_index": [5], "task": ["stack"]}, "Episode 0 of .* has task_index 0"),
    ):
        with pytest.raises(FileProblem, match=sentence):
            list(import_dataset(written(tmp_path / sentence[:9], columns(), tasks=tasks)))


@pytest.mark.parametrize(
    ("said", "outcomes"),
    [
        ({"next.success": [None] * TOTAL}, ("unknown", "unknown")),
        ({"next.success": [NAN] * TOTAL}, ("unknown", "unknown")),
        ({"next.success": [None] * 4 + [True] + [None] * 6 + [False]}, ("success", "failure")),
        ({"next.success": [[n == 4] for n in range(TOTAL)]}, ("success", "failure")),
        ({"next.reward": [0.0] * 4 + [1.0] + [0.0] * 7}, ("success", "failure")),
        ({"next.success": [None] * TOTAL, "next.reward": [0.0] * 11 + [1.0]}, ("failure", "success")),
        ({"next.success": [False] * TOTAL, "next.reward": [0.0] * 11 + [1.0]}, ("failure", "failure")),
        ({"next.reward": [0.0] * TOTAL}, ("unknown", "unknown")),
        ({"next.reward": [1.0] * TOTAL}, ("unknown", "unknown")),
        ({"next.reward": [0.3] * 11 + [1.0]}, ("unknown", "unknown")),
    ],
)
def test_the_outcome_comes_from_the_dataset(tmp_path: Path, said: Columns, outcomes: tuple[str, str]) -> None:
    found = import_dataset(written(tmp_path / "set", columns() | said))
    assert tuple(one.outcome for one in found) == outcomes


@pytest.mark.parametrize("name", ["intervention", "complementary_info.is_intervention"])
def test_who_held_the_robot_is_read_under_both_names(tmp_path: Path, name: str) -> None:
    said = {name: [1.0, 0.0, None, 0.0, 0.0] + [0.0] * 7}
    first, second = import_dataset(written(tmp_path / "set", columns() | said), SOURCE_EXPERT)
    assert first.arrays.source.tolist() == [SOURCE_HUMAN, SOURCE_POLICY, SOURCE_EXPERT, SOURCE_POLICY, SOURCE_POLICY]
    assert set(second.arrays.source) == {SOURCE_POLICY}


def test_lists_of_one_number_may_be_written_as_the_number(tmp_path: Path) -> None:
    first, _ = import_dataset(written(tmp_path / "set", columns() | {"action": [0.5] * TOTAL}))
    assert first.arrays.action.tolist() == [[0.5]] * 5


@pytest.mark.parametrize("names", [["x", "y"], {"axes": ["x", "y"]}, {"y": 1, "x": 0}])
def test_names_are_read_in_all_their_forms(tmp_path: Path, names: object) -> None:
    info = {"features": {"action": {"names": names}, "observation.state": {"names": None}}}
    assert read_dataset_info(written(tmp_path / "set", columns(), info=info)).names == {"action": ("x", "y")}
