"""Queries of search rollouts, of who acted in episodes, and of the robot time of orders by purpose and by gate."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from enpire.store.reading import Reading
from enpire.types import REFUSED, Purpose

_TOOK_S = (
    "CASE WHEN ended_seq IS NULL OR found_seq IS NOT NULL AND purpose <> 'search' OR outcome = 'aborted' AND "
    f"(cause = 'released' OR cause LIKE 'released:%' OR cause = '{REFUSED}' OR cause LIKE '{REFUSED}:%') "
    "THEN 0.0 ELSE max(0.0, ended_s - began_s) END"
)
"""Robot time of an order, in seconds; 0 if it never began (`enpire.types.never_began`). A late result counts for a
search alone."""


class SearchRow(NamedTuple):
    """One search rollout."""

    order_id: str
    branch: str
    """Experiment whose branch it belongs to; empty for the champion's."""
    policy_id: str
    start_index: int
    outcome: str
    """One of the six outcomes; empty while it is open."""
    cause: str
    ticks: int
    took_s: float
    """Robot time, in seconds."""
    ended_seq: int
    """Event that gave its result, also a late one; 0 while it is open."""


def search_rows(reading: Reading, campaign_id: str) -> list[SearchRow]:
    """Every search rollout of a campaign, in the order in which they ended; open ones first."""
    sql = (
        f"SELECT order_id, branch, policy_id, start_index, coalesce(outcome, ''), coalesce(cause, ''), "
        f"coalesce(ticks, 0), {_TOOK_S}, coalesce(found_seq, ended_seq, 0) FROM orders INDEXED BY orders_by_purpose "
        "WHERE campaign_id = ? AND purpose = 'search' ORDER BY coalesce(found_seq, ended_seq), order_id"
    )
    return [SearchRow(*row) for row in reading.select(sql, campaign_id)]


def actors(reading: Reading, order_ids: Collection[str]) -> Mapping[str, tuple[Purpose, str]]:
    """Order -> (purpose, version that acted), of those of these orders that the ledger has."""
    sql = "SELECT order_id, purpose, policy_id FROM orders WHERE order_id IN (SELECT value FROM json_each(?))"
    return {
        order_id: (purpose, version) for order_id, purpose, version in reading.select(sql, json.dumps([*order_ids]))
    }


def robot_seconds(reading: Reading, campaign_id: str) -> Mapping[tuple[Purpose, bool], float]:
    """(purpose, whether for a branch) -> robot time of the orders, in seconds."""
    sql = f"SELECT purpose, branch <> '', sum({_TOOK_S}) FROM orders WHERE campaign_id = ? GROUP BY 1, 2"
    return {(purpose, bool(branch)): seconds for purpose, branch, seconds in reading.select(sql, campaign_id)}


def gate_seconds(reading: Reading, gate_ids: Sequence[str]) -> Mapping[str, float]:
    """Gate -> robot time of its orders, in seconds."""
    places = ", ".join("?" * len(gate_ids))
    sql = f"SELECT gate_id, sum({_TOOK_S}) FROM orders WHERE gate_id IN ({places}) AND gate_id <> '' GROUP BY 1"
    return dict(reading.select(sql, *gate_ids))
