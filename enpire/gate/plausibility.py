"""Tripwires on one success and on one gate: is it like what this robot can do? Pure arithmetic, no ground truth.

The known successes are demonstrations and rollouts of champions. A success that moves far less, faster than any of them
ever moved, jumps farther in one period, or ends outside of what is known is suspected; a person decides
(`enpire.campaign.quarantine`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray, MaskArray

LEAST_KNOWN = 16
"""Known successes without which nothing is suspected."""
MOVES, JUMPS, UNLIKE = 0.25, 5.0, 1.0
"""Suspected is a success that moves less than MOVES of the smallest known movement, takes fewer commands than its
movement needs at the largest known step, jumps over JUMPS times that step, or ends with a sensor value that lies
outside the known values by over UNLIKE times their width. Known values of speeds and forces are those of whole
rollouts, of all others the last ones: positions tell where a success ends."""
NARROWEST = 0.05
"""Least width of the known values of one sensor, as a part of its range."""
SMOOTH = 5
"""Samples of the moving average that takes out sensor noise."""
GAP, SIGMAS, LEAST_TRIALS = 0.10, 3.1, 20
"""A gate is suspected when the gain of its search exceeds the gain on hidden starts by GAP and SIGMAS standard errors,
with LEAST_TRIALS on each side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a success is not believed."""

    tripwire: Literal["displacement", "speed", "critic"]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSuccesses:
    """What the known successes have in common; sensor values are in units of their range."""

    n: int
    scale: FloatArray
    """(state_dim,) range of each sensor value; inf for a constant one."""
    moved: FloatArray
    """(state_dim,) smallest movement of each value that always moves; 0 for the others."""
    step: FloatArray
    """(state_dim,) largest change in one period."""
    ends: tuple[FloatArray, FloatArray] | None
    """Smallest and largest known value with which an end is compared, (state_dim,) each; None where too few starts are
    known."""
    rates: MaskArray
    """(state_dim,) which values are speeds or forces."""
    names: Sequence[str] = ()
    """Of the sensor values; empty: their numbers."""


def known_successes(
    states: Sequence[FloatArray], names: Sequence[str] = (), rates: Sequence[bool] = ()
) -> KnownSuccesses | None:
    """What the states of known successes, each (T + 1, state_dim) in the task's units, have in common.

    None for fewer than LEAST_KNOWN.

    Args:
        states: of the known successes.
        names: of the sensor values.
        rates: which of them are speeds or forces (`Bounds.is_rate`); empty: none.
    """
    whole = [np.asarray(state, np.float64) for state in states if len(state) > SMOOTH]
    if len(whole) < LEAST_KNOWN:
        return None
    together = np.concatenate(whole)
    width = together.max(axis=0) - together.min(axis=0)
    scale = np.where(width > 1e-9, width, np.inf)
    scaled = [state / scale for state in whole]
    moved = np.stack([_moved(state) for state in scaled])
    noise = np.stack([np.median(np.abs(np.diff(state, 2, axis=0)), axis=0) for state in scaled])
    informative = moved.min(axis=0) > np.maximum(4 * noise.max(axis=0), 1e-3)
    ends = np.stack([state[-1] for state in scaled])
    enough = _starts(np.stack([state[0] for state in scaled]), ends) >= LEAST_KNOWN
    rate = np.array(rates or [False] * len(scale), np.bool_)
    least = np.where(rate, together.min(axis=0) / scale, ends.min(axis=0))
    most = np.where(rate, together.max(axis=0) / scale, ends.max(axis=0))
    return KnownSuccesses(
        n=len(whole), scale=scale.astype(np.float32),
        moved=np.where(informative, moved.min(axis=0), 0.0).astype(np.float32),
        step=np.stack([np.abs(np.diff(state, axis=0)).max(axis=0) for state in scaled]).max(axis=0).astype(np.float32),
        ends=(least.astype(np.float32), most.astype(np.float32)) if enough else None,
        rates=rate, names=tuple(names),
    )  # fmt: skip


def doubt(state: FloatArray, known: KnownSuccesses) -> Doubt | None:
    """Why a success with these states, (T + 1, state_dim) in the task's units, is not believed; None if it is."""
    scaled = np.asarray(state, np.float64) / known.scale
    ticks = len(scaled) - 1
    if (usual := known.moved > 0).any():
        moved = _moved(scaled)[usual]
        ratio = float((moved / known.moved[usual]).max())
        if ratio < MOVES:
            return Doubt(
                tripwire="displacement",
                why=f"it moved {ratio:.1%} of the smallest movement in {known.n} known successes",
            )
        needs = float((moved / known.step[usual]).max())
        if ticks < needs:
            return Doubt(
                tripwire="speed",
                why=f"it took {ticks} commands; its movement takes {needs:.0f} at the largest step of {known.n} known "
                "successes",
            )
    steps = np.abs(np.diff(scaled, axis=0)).max(axis=0) if ticks else np.zeros_like(known.step)
    jump = float((steps / np.maximum(known.step, 1e-6)).max())
    if jump > JUMPS:
        return Doubt(tripwire="speed", why=f"one period moved {jump:.0f} times the largest step of known successes")
    if known.ends is None:
        return None
    (low, high), end = known.ends, scaled[-1]
    outside = np.maximum(low - end, end - high) / np.maximum(high - low, NARROWEST)
    worst = int(outside.argmax())
    if outside[worst] > UNLIKE:
        name = known.names[worst] if known.names else f"sensor value {worst + 1}"
        ended, least, most = (float(known.scale[worst] * value[worst]) for value in (end, low, high))
        were = "were" if known.rates[worst] else "ended"
        why = f"it ended at {name} = {ended:.3g}; {known.n} known successes {were} between {least:.3g} and {most:.3g}"
        return Doubt(tripwire="critic", why=why)
    return None


def _starts(firsts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> int:
    """How many different starts the first and last states, (n, state_dim) each, come from.

    Repeated rollouts of one start end alike, so they say little of where other starts end. Where the sensors do not
    show the start, only rollouts that also end in the same state count as repeated.
    """
    shown = len(np.unique(firsts, axis=0))
    return shown if shown >= LEAST_KNOWN else len(np.unique(np.hstack([firsts, ends]), axis=0))


def _moved(state: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Range of each value over time, without sensor noise: (T + 1, d) -> (d,)."""
    sums = np.cumsum(np.vstack([np.zeros((1, state.shape[1])), state]), axis=0)
    width = min(SMOOTH, len(state))
    smooth = (sums[width:] - sums[:-width]) / width
    return smooth.max(axis=0) - smooth.min(axis=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Successes of a version and of the champion on the same starts."""

    version: int
    champion: int
    n: int

    @property
    def gain(self) -> float:
        """Success of the version minus that of the champion."""
        return (self.version - self.champion) / self.n

    @property
    def variance(self) -> float:
        """Of the gain, as for independent trials, with one success and one failure added to each side."""
        rates = [(successes + 1) / (self.n + 2) for successes in (self.version, self.champion)]
        return sum(rate * (1 - rate) / self.n for rate in rates)


def gap_doubt(search: Compared, gate: Compared) -> str:
    """Why a gain in the search is not believed, from the gain on hidden starts; empty if it is."""
    if min(search.n, gate.n) < LEAST_TRIALS:
        return ""
    gap = search.gain - gate.gain
    if (gap - GAP) / math.sqrt(search.variance + gate.variance) <= SIGMAS:
        return ""
    return f"its gain was {search.gain:+.1%} on {search.n} train starts and {gate.gain:+.1%} on {gate.n} hidden starts"
