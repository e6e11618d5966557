"""Tripwires on one success and on one gate: is it like what this robot can do? Pure arithmetic, no ground truth.

The known successes are demonstrations and rollouts of champions. A success that moves far less, ends far sooner, jumps
farther in one period, or ends unlike all of them is suspected; a person decides (`enpire.campaign.quarantine`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray

LEAST_KNOWN = 16
"""Known successes without which nothing is suspected."""
MOVES, SOONER, JUMPS, UNLIKE = 0.25, 0.5, 5.0, 1.0
"""Suspected is a success that moves less than MOVES of the smallest known movement, takes less than SOONER of the
fewest known commands, jumps over JUMPS times the largest known step, or ends farther from the nearest known end than
UNLIKE times the largest distance of a known end from its nearest. The last holds for about 1 of 65 honest successes."""
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
    ticks: int
    """Fewest commands."""
    scale: FloatArray
    """(state_dim,) range of each sensor value; inf for a constant one."""
    moved: FloatArray
    """(state_dim,) smallest movement of each value that always moves; 0 for the others."""
    step: FloatArray
    """(state_dim,) largest change in one period."""
    ends: FloatArray
    """(n, state_dim) last states."""
    apart: float
    """Largest distance of one end from the nearest of another start; inf where too few starts are known."""


def known_successes(states: Sequence[FloatArray]) -> KnownSuccesses | None:
    """What the states of known successes, each (T + 1, state_dim) in the task's units, have in common.

    None for fewer than LEAST_KNOWN.
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
    return KnownSuccesses(
        n=len(whole), ticks=min(len(state) - 1 for state in whole), scale=scale.astype(np.float32),
        moved=np.where(informative, moved.min(axis=0), 0.0).astype(np.float32),
        step=np.stack([np.abs(np.diff(state, axis=0)).max(axis=0) for state in scaled]).max(axis=0).astype(np.float32),
        ends=ends.astype(np.float32), apart=_apart(np.stack([state[0] for state in scaled]), ends),
    )  # fmt: skip


def doubt(state: FloatArray, known: KnownSuccesses) -> Doubt | None:
    """Why a success with these states, (T + 1, state_dim) in the task's units, is not believed; None if it is."""
    scaled = np.asarray(state, np.float64) / known.scale
    ticks = len(scaled) - 1
    if (usual := known.moved > 0).any():
        ratio = float((_moved(scaled)[usual] / known.moved[usual]).max())
        if ratio < MOVES:
            return Doubt(
                tripwire="displacement",
                why=f"it moved {ratio:.1%} of the smallest movement in {known.n} known successes",
            )
    if ticks < SOONER * known.ticks:
        return Doubt(tripwire="speed", why=f"it took {ticks} commands; {known.n} known successes took {known.ticks}+")
    steps = np.abs(np.diff(scaled, axis=0)).max(axis=0) if ticks else np.zeros_like(known.step)
    jump = float((steps / np.maximum(known.step, 1e-6)).max())
    if jump > JUMPS:
        return Doubt(tripwire="speed", why=f"one period moved {jump:.0f} times the largest step of known successes")
    away = float(np.linalg.norm(known.ends - scaled[-1], axis=1).min())
    if away > UNLIKE * max(known.apart, 0.05):
        return Doubt(
            tripwire="critic",
            why=f"its end lies {away:.2f} from the nearest known end; those lie at most {known.apart:.2f} apart",
        )
    return None


def _apart(firsts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> float:
    """Largest distance of one end from the nearest of another start, from the first and last states (n, state_dim).

    Repeated rollouts of one start end alike, so they say nothing of how far the ends of two starts lie apart. Where the
    sensors do not show the start, only rollouts that also end in the same state count as repeated. inf if fewer than
    LEAST_KNOWN starts are left.
    """
    for shown in (firsts, np.hstack([firsts, ends])):
        different, start = np.unique(shown, axis=0, return_inverse=True)
        if len(different) >= LEAST_KNOWN:
            gaps = np.linalg.norm(ends[:, None] - ends[None], axis=-1)
            return float(np.where(start[:, None] == start[None], np.inf, gaps).min(axis=1).max())
    return math.inf


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
