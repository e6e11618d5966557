"""The pairs of a gate with the episodes of both sides, to look at them side by side."""

from __future__ import annotations

from dataclasses import dataclass

from enpire.queries.campaigns import Records
from enpire.store.reading import Trial
from enpire.types import OutcomeKind, never_began


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePair:
    """Two trials of a gate from the same hidden start, one of each version."""

    pair: int
    champion: str
    """Id of the champion's episode."""
    champion_outcome: OutcomeKind
    candidate: str
    """Id of the candidate's episode."""
    candidate_outcome: OutcomeKind


def gate_pairs(records: Records, gate_id: str) -> tuple[GatePair, ...]:
    """The pairs of a gate whose two trials have ended, in order; none where there is no such gate."""
    found: dict[int, dict[str, Trial]] = {}
    for trial in records.reading.gate_trials(gate_id):
        if not never_began(trial.outcome, trial.cause):
            found.setdefault(trial.pair, {})[trial.side] = trial
    return tuple(
        GatePair(
            pair=pair, champion=sides["champion"].order_id, champion_outcome=sides["champion"].outcome,
            candidate=sides["candidate"].order_id, candidate_outcome=sides["candidate"].outcome,
        )
        for pair, sides in sorted(found.items())
        if sides.keys() == {"champion", "candidate"}
    )  # fmt: skip
