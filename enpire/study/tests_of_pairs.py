"""The tests of a study: when the pairs of two arms show that one is better, and when they do not show it yet.

Only discordant pairs count: blocks in which one arm succeeds and the other fails. If the arms are equally good, each of
these is a win with probability 1/2, because the order in a block is random. `anytime` reads e-values after every block.
`group_sequential` and `fixed` read the exact distribution of the lead at the planned looks; `fixed` has one look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from enpire.gate.e_values import difference, log_e
from enpire.gate.intervals import log_choose
from enpire.gate.trials import Pair, Tally

TestName = Literal["anytime", "group_sequential", "fixed"]
Answer = Literal["better", "worse", "open", "not shown"]
"""`open`: the test has not ended. `not shown`: it ended and shows no difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A test, fixed before the first trial."""

    test: TestName
    blocks: int
    """Most blocks."""
    looks: int
    """Planned looks of `group_sequential`, evenly spaced."""
    alpha: float
    """Largest probability that the test calls equally good arms different, of one comparison, in (0, 1)."""

    @property
    def look_blocks(self) -> tuple[int, ...]:
        """Number of complete blocks at each planned look; empty for `anytime`, which reads after every block."""
        if self.test == "anytime":
            return ()
        looks = 1 if self.test == "fixed" else self.looks
        return tuple(math.ceil(self.blocks * look / looks) for look in range(1, looks + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the test of two arms says after some blocks."""

    answer: Answer
    tally: Tally
    """`wins` are of the arm, `losses` of the control; up to the block at which the test ended."""
    evidence: float
    """anytime: log evidence in nats of the arm that leads. Otherwise its lead at the last look, in blocks."""
    need: float
    """The evidence at which the test ends; inf before the first look and where no lead is enough."""
    low: float
    """Bounds of the difference of the success rates, arm minus control, by a confidence sequence."""
    high: float


def read(pairs: Sequence[Pair], design: Design) -> Reading:
    """Apply the test to the complete blocks in order. A test that ended stays as it was."""
    return _read_anytime(pairs, design) if design.test == "anytime" else _read_looks(pairs, design)


def _read_anytime(pairs: Sequence[Pair], design: Design) -> Reading:
    need, tally, best = math.log(2 / design.alpha), Tally(), 0.0
    for pair in pairs[: design.blocks]:
        tally = tally.add(pair)
        best = max(log_e(tally.wins, tally.losses), log_e(tally.losses, tally.wins))
        if best >= need:
            return _reading("better" if tally.wins > tally.losses else "worse", tally, best, need, design)
    return _reading(_rest(tally, design), tally, best, need, design)


def _read_looks(pairs: Sequence[Pair], design: Design) -> Reading:
    tally, lead, counts = Tally(), 0, list[int]()
    need = math.inf
    for number, pair in enumerate(pairs[: design.blocks], start=1):
        tally = tally.add(pair)
        if number not in design.look_blocks:
            continue
        counts.append(tally.wins + tally.losses)
        lead = tally.wins - tally.losses
        need = least_leads(tuple(counts), _allowed(design, len(counts)))[-1]
        if abs(lead) >= need:
            return _reading("better" if lead > 0 else "worse", tally, abs(lead), need, design)
    return _reading(_rest(tally, design), tally, abs(lead), need, design)


def _rest(tally: Tally, design: Design) -> Answer:
    return "not shown" if tally.pairs >= design.blocks else "open"


def _reading(answer: Answer, tally: Tally, evidence: float, need: float, design: Design) -> Reading:
    low, high = difference(tally.wins, tally.losses, tally.both + tally.neither, 1 - design.alpha)
    return Reading(answer=answer, tally=tally, evidence=evidence, need=need, low=low, high=high)


def _allowed(design: Design, looks: int) -> tuple[float, ...]:
    """Error of one direction that may be used up to each of the first looks."""
    return tuple(spending(blocks / design.blocks, design.alpha / 2) for blocks in design.look_blocks[:looks])


def spending(part: float, alpha: float) -> float:
    """Error that may be used up after the share `part` in (0, 1] of the blocks: little early, `alpha` at the end.

    Source: Lan and DeMets 1983, "Discrete sequential boundaries for clinical trials", O'Brien-Fleming type.
    """
    normal = NormalDist()
    return 2 * normal.cdf(normal.inv_cdf(alpha / 2) / math.sqrt(part))


@lru_cache(maxsize=1 << 14)
def least_leads(discordant: tuple[int, ...], allowed: tuple[float, ...]) -> tuple[int, ...]:
    """At each look the least lead, wins minus losses or the reverse, that ends the test.

    Exact for any number of pairs: given the numbers of discordant pairs at the looks, the lead of equally good arms is
    a symmetric random walk, whatever their success rates are. Where no lead is enough, the value is one more than the
    discordant pairs.

    Args:
        discordant: discordant pairs at each look so far, rising.
        allowed: error of one direction that may be used up to each look.
    """
    open_paths, before, used, leads = np.ones(1), 0, 0.0, list[int]()
    for count, most in zip(discordant, allowed, strict=True):
        open_paths = np.convolve(open_paths, _coin(count - before))
        tails = np.cumsum(open_paths[::-1])  # tails[i]: probability of at least count - i wins
        enough = int(np.searchsorted(tails, most - used + 1e-15, side="right"))
        leads.append(count - 2 * (enough - 1) if enough else count + 1)
        used += float(tails[enough - 1]) if enough else 0.0
        open_paths[:enough] = open_paths[len(open_paths) - enough :] = 0.0
        before = count
    return tuple(leads)


@lru_cache(maxsize=1 << 12)
def _coin(tosses: int) -> npt.NDArray[np.float64]:
    """Probability of 0 .. `tosses` heads."""
    return np.exp([log_choose(tosses, heads) - tosses * math.log(2) for heads in range(tosses + 1)])
