"""Observations of a Gymnasium environment as a row of numbers, and rows of commands as its actions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from enpire.errors import RobotProblem, UsageError
from enpire.types import Bounds, FloatArray
from sim.gym_file import GymFile

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One array of the observation."""

    path: tuple[str, ...]
    """Keys that lead to it in a dictionary observation."""
    bounds: tuple[Bounds, ...]

    def read(self, observation: object) -> Rows:
        """Its numbers (len(bounds),), within their bounds.

        Raises:
            RobotProblem: a number is not finite, or the array has another size.
        """
        found: Any = observation
        for key in self.path:
            found = found[key]
        row = np.asarray(found, np.float64).reshape(-1)
        if row.size != len(self.bounds) or not np.isfinite(row).all():
            raise RobotProblem(
                f"The environment observed {row.size} numbers {'.'.join(self.path)} that are not all finite, or not "
                f"{len(self.bounds)} as its observation space says; mend the environment."
            )
        low, high = ([getattr(item, side) for item in self.bounds] for side in ("low", "high"))
        return np.clip(row, low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """How a row of commands becomes an action of the environment."""

    bounds: tuple[Bounds, ...]
    shape: tuple[int, ...] | None
    """Shape of a Box; None for a Discrete space, whose action is the largest command."""
    first: int = 0
    """The first action of a Discrete space."""

    def native(self, command: FloatArray) -> Any:
        """The environment's action for a command (action_dim,)."""
        return self.first + int(np.argmax(command)) if self.shape is None else command.reshape(self.shape)


def observed(space: object, path: tuple[str, ...], file: GymFile) -> Iterator[Observed]:
    """The arrays of an observation space, in the order of the file's `state`, else of the space."""
    where = ".".join(path) or "obs"
    if isinstance(space, spaces.Dict):
        keys = file.state if file.state and not path else tuple(space.spaces)
        if unknown := [key for key in keys if key not in space.spaces]:
            raise UsageError(f"{file.gym} observes no {unknown[0]!r}; `state` may name: {', '.join(space.spaces)}.")
        for key in keys:
            yield from observed(space.spaces[key], (*path, key), file)
    elif isinstance(space, spaces.Discrete):
        yield Observed(path=path, bounds=(_bounds(where, space.start, space.start + space.n - 1, file.state_limit),))
    elif isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.number) and space.shape != ():
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        names = [f"{where}_{index}" for index in range(low.size)]
        yield Observed(path=path, bounds=tuple(map(_bounds, names, low, high, [file.state_limit] * low.size)))
    else:
        raise UsageError(
            f"{file.gym} observes {where} as {space}, which is no row of numbers; name the keys that are with `state`, "
            "or let `make` ask for another observation."
        )


def _bounds(name: str, low: Any, high: Any, limit: float) -> Bounds:
    """A number's bounds; where the environment has none, or absurdly wide ones, +-limit."""
    ends = [float(end) if abs(float(end)) <= 1e6 else math.copysign(limit, float(end)) for end in (low, high)]
    return Bounds(name=name, unit="1", low=ends[0], high=ends[1])


def actions(space: object, file: GymFile) -> Actions:
    """The commands of an action space; UsageError where it is neither a Box nor Discrete."""
    if isinstance(space, spaces.Discrete):
        named = [Bounds(name=f"choose_{space.start + index}", unit="1", low=-1.0, high=1.0) for index in range(space.n)]
        return Actions(bounds=tuple(named), shape=None, first=int(space.start))
    if not isinstance(space, spaces.Box):
        raise UsageError(f"{file.gym} takes {space}; a task needs an environment whose actions are a Box or Discrete.")
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    names = [f"action_{index}" for index in range(low.size)]
    return Actions(bounds=tuple(map(_bounds, names, low, high, [file.action_limit] * low.size)), shape=space.shape)
