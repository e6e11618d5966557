"""Accuracy of the scene resets of a campaign: share that reached the start, time, and distance from the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.gate.intervals import wilson
from enpire.types import Interval

type CheckedReset = tuple[tuple[float, ...], tuple[float | None, ...], int, bool]
"""(ordered start values, values measured by the last reset check, tries, whether the last try reached the start)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resets:
    """Summary of all resets that were checked."""

    reached: Interval
    """Share of tries that reached their start."""
    seconds: float
    """Time that all stations spent in resets."""
    off: tuple[tuple[float, float], ...]
    """(median, 95th percentile) of |achieved - ordered| for each start value, in its unit, over resets that reached the
    start."""

    def sentence(self, names: Sequence[str] = ()) -> str:
        """The summary in one or two sentences; `names` are those of the start values, with their units."""
        share = f"{100 * self.reached.rate:.1f} %, {100 * self.reached.low:.1f} to {100 * self.reached.high:.1f}"
        count = f"{self.reached.successes} of {self.reached.n} resets ({share}) reached their start"
        summary = f"{count}, in {self.seconds:.0f} s of station time."
        if not self.off:
            return summary
        named = names if len(names) == len(self.off) else [f"value {number}" for number in range(1, len(self.off) + 1)]
        near = (f"{name} {median:.2g} ({most:.2g})" for name, (median, most) in zip(named, self.off, strict=True))
        return f"{summary} Median distance from the ordered start (95th percentile): {', '.join(near)}."


def account(checked: Sequence[CheckedReset], seconds: float) -> Resets | None:
    """Summarise the checked resets of a campaign and their seconds; None when no reset was checked."""
    if not checked:
        return None
    away = [
        [np.nan if got is None else abs(got - value) for value, got in zip(values, achieved, strict=True)]
        for values, achieved, _, reached in checked
        if reached and len(values) == len(achieved)
    ]
    columns: list[npt.NDArray[np.float64]] = list(np.array(away, np.float64).T)
    off = [(float(np.nanmedian(one)), float(np.nanpercentile(one, 95))) for one in columns if np.isfinite(one).any()]
    return Resets(
        reached=wilson(sum(one[3] for one in checked), sum(one[2] for one in checked)), seconds=seconds, off=tuple(off)
    )
