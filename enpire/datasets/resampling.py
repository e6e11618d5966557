"""An episode that was recorded at another rate, as the same motion at the task's rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from enpire.datasets.lerobot_import import Imported
from enpire.datasets.lerobot_video import Pictures, Seen
from enpire.errors import FileProblem
from enpire.types import EpisodeArrays, FloatArray, TaskSpec

_EDGE = 1e-9
"""Times closer than this, in periods, are the same: 3 * (1 / 3) is 1."""


def require_resampling(spec: TaskSpec) -> None:
    """Check that each command of a task is a position or a rate.

    Raises:
        FileProblem: one is neither, so it may be a difference for each period, whose size depends on the rate.
    """
    for bounds, place in zip(spec.action, spec.measured, strict=True):
        if place < 0 and not bounds.is_rate:
            raise FileProblem(
                f"{bounds.name} of the task {spec.name} is neither a rate nor a position that is sensed: it may be a "
                "difference for each period, whose size depends on the rate. Record the dataset at the task's rate."
            )


def resampled(one: Imported, rate_hz: float, spec: TaskSpec) -> Imported | None:
    """An episode at the rate of the task; None where it is shorter than one period. It lasts as long as before.

    The state is interpolated. A position is interpolated at the end of each period, where the robot shall be then. A
    rate is averaged over each period, so that the way is the same. Source and images are those in force.
    """
    periods = one.arrays.action.shape[0]
    ratio = rate_hz / spec.rate_hz  # old periods in a new one
    count = int(periods / ratio + _EDGE)
    if count < 1:
        return None
    begins = np.arange(count + 1, dtype=np.float64) * ratio
    old = np.arange(periods + 1, dtype=np.float64)
    columns = [np.interp(begins, old, one.arrays.state[:, number]) for number in range(spec.state_dim)]
    state = np.stack(columns, axis=1)
    rows = np.minimum((begins[:-1] + _EDGE).astype(np.int64), periods - 1)
    middle = np.minimum((begins[:-1] + ratio / 2).astype(np.int64), periods - 1)
    arrays = EpisodeArrays(
        state=state.astype(np.float32), action=_actions(one.arrays.action, begins, spec),
        source=one.arrays.source[middle], chunk=np.full(count, -1, np.int32),
    )  # fmt: skip
    pictures = _picked(one.pictures, rows.tolist()) if one.pictures is not None else None
    return replace(one, arrays=arrays, critic_outputs={}, pictures=pictures)


def _actions(action: FloatArray, begins: npt.NDArray[np.float64], spec: TaskSpec) -> FloatArray:
    """The commands (T, action_dim) of the new periods, which begin and end at `begins` (T + 1,), in old periods."""
    ends, old = begins[1:], np.arange(1, len(action) + 1, dtype=np.float64)
    columns: list[npt.NDArray[np.float64]] = []
    for number, bounds in enumerate(spec.action):
        column = action[:, number].astype(np.float64)
        if bounds.is_rate:
            way = np.interp(begins, np.arange(len(column) + 1), np.concatenate([[0.0], np.cumsum(column)]))
            columns.append(np.diff(way) / np.diff(begins))
        else:
            columns.append(np.interp(ends, old, column))
    return np.stack(columns, axis=1).astype(np.float32)


def _picked(pictures: Pictures, rows: list[int]) -> Pictures:
    """The images of these rows, which never fall; one may stand several times."""

    def read() -> Iterator[Seen]:
        waiting = iter(rows)
        wanted = next(waiting, None)
        for row, seen in enumerate(pictures()):
            while wanted == row:
                yield seen
                wanted = next(waiting, None)

    return read
