"""Mean and spread of recorded numbers, so that networks see values of order one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from enpire.errors import PolicyProblem
from enpire.types import FloatArray

SMALLEST_SPREAD = 1e-4
"""A number that never moved in the data keeps this spread: it is centred, not blown up."""
UNSEEN_SPREAD = 1e12
"""So wide that no network can tell a number's values apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An affine change of units, number by number: (value - mean) / spread."""

    mean: FloatArray
    """(width,), in the units of the values."""
    spread: FloatArray
    """(width,), standard deviation, > 0."""

    @classmethod
    def of(cls, rows: FloatArray) -> Scale:
        """Measure the scale of rows (N, width); a number that does not vary gets spread 1."""
        wide = rows.astype(np.float64)
        spread = wide.std(axis=0)
        spread = np.where(spread < SMALLEST_SPREAD * np.maximum(1.0, np.abs(wide).max(axis=0)), 1.0, spread)
        return cls(mean=wide.mean(axis=0).astype(np.float32), spread=spread.astype(np.float32))

    def without(self, columns: Sequence[int]) -> Scale:
        """The scale in which those numbers always come out as 0."""
        spread = self.spread.copy()
        spread[list(columns)] = UNSEEN_SPREAD
        return Scale(mean=self.mean, spread=spread)

    def forward(self, rows: FloatArray) -> FloatArray:
        """Units of the robot -> order one; any leading shape, last axis (width,)."""
        return (rows - self.mean) / self.spread

    def inverse(self, rows: FloatArray) -> FloatArray:
        """Order one -> units of the robot."""
        return rows * self.spread + self.mean

    def as_json(self) -> dict[str, list[float]]:
        """Plain lists, for policy.json."""
        return {"mean": [float(v) for v in self.mean], "spread": [float(v) for v in self.spread]}

    @classmethod
    def from_json(cls, document: object, where: str) -> Scale:
        """Read what `as_json` wrote; PolicyProblem names `where` when it does not fit."""
        if not isinstance(document, Mapping) or set(document) != {"mean", "spread"}:
            raise PolicyProblem(f"{where}: a scale has exactly the keys mean and spread; write the version again.")
        mean, spread = _row(document["mean"], where), _row(document["spread"], where)
        if mean.shape != spread.shape or not (spread > 0).all():
            raise PolicyProblem(f"{where}: mean and spread must have the same length, and every spread be above 0.")
        return cls(mean=mean, spread=spread)


def _row(values: object, where: str) -> FloatArray:
    if not isinstance(values, Sequence) or not all(isinstance(v, int | float) for v in values):
        raise PolicyProblem(f"{where}: a scale is a list of numbers.")
    row = np.asarray(values, dtype=np.float32)
    if not np.isfinite(row).all():
        raise PolicyProblem(f"{where}: a scale holds only finite numbers.")
    return row


def fourier(rows: FloatArray, frequencies: int) -> FloatArray:
    """Rows (N, width) with their sines and cosines at pi, 2 pi, 4 pi, ...: (N, width * (1 + 2 * frequencies)).

    A small network cannot draw a step of a few hundredths of its input (the rim of a hole); with four octaves it can.
    """
    parts = [rows]
    for octave in range(frequencies):
        angle = rows * np.float32(np.pi * 2**octave)
        parts += [np.sin(angle), np.cos(angle)]
    return np.concatenate(parts, axis=-1)
