"""What raised success: the versions that a gate promoted because they succeed more often, each with its interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from enpire.queries.campaign_history import History

BETTER = "better"
"""Stored reason of a promotion for success; a promotion for speed is no gain in success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """A promoted version and its gain over the champion of its gate, on the same hidden starts."""

    id: str
    over: str
    """The champion that it replaced."""
    round: int
    branch: int
    """Number of the branch that made it; 0 for a version of a round."""
    gain: float
    """Success rate of the version minus that of the champion, over the pairs of the gate."""
    low: float
    """Confidence sequence of the difference; it holds at every stop of the gate."""
    high: float
    pairs: int
    rolled_back: str
    """Why it was rolled back; empty otherwise."""


def raised(past: History) -> tuple[Raised, ...]:
    """The gains in success of a campaign, oldest first."""
    return tuple(_raised(past))


def _raised(past: History) -> Iterable[Raised]:
    numbers = {version: one.number for one in past.branches.by_experiment.values() for version in one.versions}
    for record in past.gates.values():
        opened, decided = record.opened, record.decided
        if decided is not None and decided.decision == "promote" and decided.reason == BETTER and decided.pairs:
            yield Raised(
                id=opened.candidate, over=opened.champion, round=opened.round, branch=numbers.get(opened.candidate, 0),
                gain=(decided.wins - decided.losses) / decided.pairs, low=decided.low, high=decided.high,
                pairs=decided.pairs, rolled_back=past.rolled_back.get(opened.candidate, ""),
            )  # fmt: skip
