"""Normalisation of states and actions by mean and standard deviation, and Fourier features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from enpire.errors import PolicyProblem
from enpire.types import FloatArray

SMALLEST_SPREAD = 1e-4
"""A number with a relative standard deviation below this counts as constant: it is centred and not scaled."""
UNSEEN_SPREAD = 1e12
"""A standard deviation so large that every value normalises to 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Normalisation of each number: (value - mean) / spread."""

    mean: FloatArray
    """(width,) float32, in the units of the values."""
    spread: FloatArray
    """(width,) float32, standard deviation in the units of the values, > 0."""

    @classmethod
    def of(cls, rows: FloatArray) -> Scale:
        """Mean and standard deviation of rows (N, width); a number that does not vary gets spread 1."""
        wide = rows.astype(np.float64)
        spread = wide.std(axis=0)
        spread = np.where(spread < SMALLEST_SPREAD * np.maximum(1.0, np.abs(wide).max(axis=0)), 1.0, spread)
        return cls(mean=wide.mean(axis=0).astype(np.float32), spread=spread.astype(np.float32))

    def without(self, columns: Sequence[int]) -> Scale:
        """The scale in which the numbers at these columns always normalise to 0."""
        spread = self.spread.copy()
        spread[list(columns)] = UNSEEN_SPREAD
        return Scale(mean=self.mean, spread=spread)

    def seeing_all(self, rows: FloatArray) -> Scale:
        """The scale in which the numbers that are hidden here are normalised by rows (N, width) of these values."""
        hidden = self.spread >= UNSEEN_SPREAD
        if not hidden.any():
            return self
        seen = Scale.of(rows)
        return Scale(mean=np.where(hidden, seen.mean, self.mean), spread=np.where(hidden, seen.spread, self.spread))

    def forward(self, rows: FloatArray) -> FloatArray:
        """Normalise: (..., width) in units of the robot -> (..., width), of order one."""
        return (rows - self.mean) / self.spread

    def inverse(self, rows: FloatArray) -> FloatArray:
        """Undo `forward`: (..., width), normalised -> (..., width) in units of the robot."""
        return rows * self.spread + self.mean

    def as_json(self) -> dict[str, list[float]]:
        """Mean and spread as lists, for policy.json."""
        return {"mean": [float(v) for v in self.mean], "spread": [float(v) for v in self.spread]}

    @classmethod
    def from_json(cls, document: object, where: str) -> Scale:
        """Read the form that `as_json` writes.

        Raises:
            PolicyProblem: the document does not fit; the sentence names `where`.
        """
        if not isinstance(document, Mapping) or set(document) != {"mean", "spread"}:
            raise PolicyProblem(f"{where}: a scale has exactly the keys mean and spread; write the version again.")
        mean, spread = _row(document["mean"], where), _row(document["spread"], where)
        if mean.shape != spread.shape or not (spread > 0).all():
            raise PolicyProblem(f"{where}: mean and spread must have the same length, and every spread be above 0.")
        return cls(mean=mean, spread=spread)

    def as_tensors(self, name: str) -> dict[str, FloatArray]:
        """`<name>.mean` and `<name>.spread`, (width,) each, for a file of weights."""
        return {f"{name}.mean": self.mean, f"{name}.spread": self.spread}

    @classmethod
    def pop(cls, name: str, tensors: dict[str, FloatArray], where: str) -> Scale:
        """Take the tensors (width,) that `as_tensors` names out of the table.

        Raises:
            PolicyProblem: they are missing or do not fit; the sentence names `where`.
        """
        mean, spread = (tensors.pop(f"{name}.{part}", np.zeros(0, np.float32)) for part in ("mean", "spread"))
        if not len(mean) or mean.shape != spread.shape or not (np.isfinite(mean).all() and (spread > 0).all()):
            raise PolicyProblem(f"{where} has no scale of what the network sees; train the version again.")
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

    A small network cannot represent a step within a few hundredths of its input, such as the rim of a hole. With four
    octaves of Fourier features it can (Tancik et al., arXiv 2006.10739).
    """
    parts = [rows]
    for octave in range(frequencies):
        angle = rows * np.float32(np.pi * 2**octave)
        parts += [np.sin(angle), np.cos(angle)]
    return np.concatenate(parts, axis=-1)
