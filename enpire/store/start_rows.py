"""Query of the starts and the verdicts of a campaign's newest episodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from enpire.store.order_page import Starts, conditions, of_starts
from enpire.store.reading import Reading
from enpire.types import OutcomeKind

MOST = 20_000
"""Most episodes that one query returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which episodes of a campaign; an empty field selects all."""

    campaign_id: str
    starts: Starts = ""
    """`hidden`: holdout and confirm starts."""
    policy_id: str = ""
    station: str = ""


class StartRow(NamedTuple):
    """One episode that ended with a verdict."""

    order_id: str
    station: str
    policy_id: str
    outcome: OutcomeKind
    cause: str
    values: tuple[float, ...]
    """Start values as ordered."""
    recorded: bool
    """Whether its arrays were recorded."""
    person_outcome: str
    """The newest label; empty without one."""
    branch: str
    """Experiment whose branch it is a search rollout of; empty for other episodes."""


def start_rows(reading: Reading, wanted: Selection, most: int = MOST) -> list[StartRow]:
    """At most `most` selected episodes with a verdict, newest first."""
    where, values = conditions(
        {"campaign_id": wanted.campaign_id, "policy_id": wanted.policy_id or None, "station": wanted.station or None}
    )
    where += of_starts(wanted.starts)
    sql = (
        "SELECT order_id, station, policy_id, outcome, coalesce(cause, ''), json_extract(start_json, '$.values'), "
        f"sha256 <> '', coalesce(person_outcome, ''), coalesce(branch, '') FROM orders WHERE {where} "
        "AND outcome IN ('success', 'failure', 'unsafe') ORDER BY order_id DESC LIMIT ?"
    )
    found: list[tuple[str, str, str, OutcomeKind, str, str, int, str, str]] = reading.select(sql, *values, most)
    return [
        StartRow(order_id, station, policy_id, outcome, cause, tuple(json.loads(start)), bool(recorded), label, branch)
        for order_id, station, policy_id, outcome, cause, start, recorded, label, branch in found
    ]
