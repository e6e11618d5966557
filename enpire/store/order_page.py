"""The filter of one page of orders, as SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from enpire.types import OUTCOME_KINDS, OutcomeKind, Purpose

OPEN = "open"
"""Value of `Page.outcome` for orders that have not ended."""
ENDED = "ended"
"""Value of `Page.outcome` for orders that have ended, with any outcome."""
RAN = "ran"
"""Value of `Page.outcome` for orders that have ended, except those that never began."""
RELEASED = "released"
"""Value of `Page.outcome` for orders that were released or refused before the robot moved."""
_NEVER_BEGAN = (
    "outcome = 'aborted' AND substr(coalesce(cause, ''), 1, instr(coalesce(cause, '') || ':', ':') - 1) "
    "IN ('released', 'refused')"
)
"""`enpire.types.never_began` in SQL."""


Starts = Literal["", "train", "hidden"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Filter of one page of orders; an empty field (None for `round`) filters nothing."""

    campaign_id: str
    purpose: Purpose | str = ""
    outcome: OutcomeKind | str = ""
    """One of OUTCOME_KINDS, OPEN, ENDED, RAN or RELEASED."""
    round: int | None = None
    policy_id: str = ""
    station: str = ""
    starts: Starts = ""
    """`train`, or `hidden` for holdout and confirm starts."""
    label: str = ""
    """`any` for episodes with a label, `differs` for those whose label is not the verifier's verdict."""
    among: tuple[str, ...] | None = None
    """Only these orders; None for all."""
    before: str = ""
    """Show orders older than this order_id, which is the last one of the previous page."""
    limit: int = 50

    def conditions(self) -> tuple[str, list[object]]:
        """The WHERE clause, and its values."""
        where, values = conditions(
            {
                "campaign_id": self.campaign_id,
                "purpose": self.purpose or None,
                "outcome": self.outcome if self.outcome in OUTCOME_KINDS else None,
                "round": self.round,
                "policy_id": self.policy_id or None,
                "station": self.station or None,
            }
        )
        if self.outcome == OPEN:
            where += " AND ended_seq IS NULL"
        if self.outcome in (ENDED, RAN):
            where += " AND ended_seq IS NOT NULL"
        if self.outcome in (RAN, RELEASED):
            where += f" AND {'NOT ' if self.outcome == RAN else ''}({_NEVER_BEGAN})"
        where += of_starts(self.starts)
        if self.label:
            where += " AND person_outcome IS NOT NULL"
            where += " AND person_outcome <> outcome" if self.label == "differs" else ""
        if self.among is not None:
            where, values = (
                f"{where} AND order_id IN (SELECT value FROM json_each(?))",
                [*values, json.dumps(self.among)],
            )
        if self.before:
            where, values = f"{where} AND order_id < ?", [*values, self.before]
        return where, values


def of_starts(starts: Starts) -> str:
    """The condition for orders from train starts, or from hidden ones; empty for all."""
    return {"": "", "train": " AND split = 'train'", "hidden": " AND split <> 'train'"}[starts]


def conditions(wanted: Mapping[str, object]) -> tuple[str, list[object]]:
    """Columns that must have the given values; None for a column means any value."""
    given = {name: value for name, value in wanted.items() if value is not None}
    return " AND ".join(["1 = 1", *(f"{name} = ?" for name in given)]), list(given.values())
