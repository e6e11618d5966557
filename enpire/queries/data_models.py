"""Documents about a campaign's data: episodes asked for, collected and used, and whether its pairs are independent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AskedOf = Literal["successes", "demonstrations", "rollouts"]
"""`successes`: successful demonstrations; `demonstrations`: also failed ones, in lockstep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutsUsed:
    """Rollouts that a training run or a decision used, of all rollouts of the campaign."""

    used: int
    """Episodes of training runs, compared search rollouts of decided branches, trials of decided gates, of the base
    measurement and of confirmations."""
    n: int
    share: float | None
    """None without rollouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataView:
    """The new data of a round: demonstrations in round 0, later rollouts of the champion."""

    asked: int
    """Number in the campaign file; 0 where the base is an imported version."""
    asked_of: AskedOf
    """What this number counts. Learners also use the failed demonstrations between the successful ones, and the
    rollouts that were stopped early between those with a verdict: so more may be used than asked for."""
    used: int | None
    """New episodes that the round's training run used; None before it began."""
    succeeded: int | None
    """Those of them that succeeded."""
    stopped: int | None
    """Those of them without a verdict: rollouts that were stopped early, for a predicted failure."""
    collected: int
    """Episodes with a verdict that were collected since the training run of the round before."""
    all_used: int | None
    """All episodes of the training run, with those of earlier rounds and the demonstrations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependenceView:
    """Whether the pairs of the decided gates are independent (`enpire.gate.independence`)."""

    gates: int
    """Gates in which each side won a pair."""
    votes: int
    """Their discordant pairs, or blocks of pairs."""
    block: int
    """Pairs of one vote in the newest gate."""
    same: float | None
    """Share of discordant pairs near each other with the same winner, in [0, 1]; None with too few pairs."""
    expected: float | None
    """That share if pairs are independent."""
    p: float | None
    """Probability of at least this share if pairs are independent."""
    found: bool
    """Whether the pairs are dependent."""
    sentence: str
