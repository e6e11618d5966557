"""How well the robots of a campaign reset their scenes: how often, for how long, how near to what was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from enpire.gate.intervals import wilson
from enpire.types import Interval

Asked = tuple[tuple[float, ...], tuple[float | None, ...], int, bool]
"""(start values asked for, values sensed by the last reset check, tries, whether the last one reached the start)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resets:
    """The account of all resets that came to their check."""

    reached: Interval
    """Of all tries, those that reached their start."""
    seconds: float
    """All stations' time in resets."""
    off: tuple[tuple[float, float], ...]
    """(median, 95th percentile) of |achieved - asked| where the start was reached, for each start value."""

    def sentence(self, names: Sequence[str] = ()) -> str:
        """For people; `names` of the start values, with their units."""
        share = f"{100 * self.reached.rate:.1f} %, {100 * self.reached.low:.1f} to {100 * self.reached.high:.1f}"
        told = f"{self.reached.successes} of {self.reached.n} resets ({share}) reached their start"
        told = f"{told}, in {self.seconds:.0f} s of the stations' time."
        if not self.off:
            return told
        named = names if len(names) == len(self.off) else [f"value {number}" for number in range(1, len(self.off) + 1)]
        near = (f"{name} {median:.2g} ({most:.2g})" for name, (median, most) in zip(named, self.off, strict=True))
        return f"{told} Off what was asked for, in the median (95 %): {', '.join(near)}."


def account(asked: Sequence[Asked], seconds: float) -> Resets | None:
    """The account of a campaign's resets; None where none came to its check."""
    if not asked:
        return None
    away = [
        [np.nan if got is None else abs(got - value) for value, got in zip(values, achieved, strict=True)]
        for values, achieved, _, reached in asked
        if reached and len(values) == len(achieved)
    ]
    columns = cast("Iterable[npt.NDArray[np.float64]]", np.array(away, np.float64).T)
    off = [(float(np.nanmedian(one)), float(np.nanpercentile(one, 95))) for one in columns if np.isfinite(one).any()]
    return Resets(
        reached=wilson(sum(one[3] for one in asked), sum(one[2] for one in asked)), seconds=seconds, off=tuple(off)
    )
