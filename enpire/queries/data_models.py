"""Documents about the episodes that a campaign asked for, collected and used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutsUsed:
    """Rollouts that a training run or a decision used, of all rollouts of the campaign."""

    used: int
    """Episodes of training runs, trials of decided gates, of the base measurement and of confirmations."""
    n: int
    share: float | None
    """None without rollouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataView:
    """The new data of a round: demonstrations in round 0, later rollouts of the champion."""

    asked: int
    """Number in the campaign file."""
    used: int | None
    """New episodes that the round's training run used; None before it began."""
    collected: int
    """Episodes with a verdict that were collected since the training run of the round before."""
    all_used: int | None
    """All episodes of the training run, with those of earlier rounds and the demonstrations."""
