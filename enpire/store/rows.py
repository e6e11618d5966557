"""Rows of the orders table: column names, and conversion from and to Order, OrderResult and Episode."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from enpire.codec import (
    RESULT_FIELDS,
    early_stop_fields,
    episode_of,
    read_order,
    read_result,
    result_fields,
    start_fields,
)
from enpire.errors import FileProblem
from enpire.types import Episode, Order, OrderResult, OutcomeKind

ORDER_COLUMNS: tuple[str, ...] = (
    "order_id", "campaign_id", "station", "task", "policy_id", "purpose", "round", "gate_id", "pair", "side", "split",
    "start_index", "start_json", "lease", "supervised", "early_stop_json", "branch", "issued_seq",
)  # fmt: skip
END_COLUMNS: tuple[str, ...] = (
    "ended_seq", "outcome", "cause", "confidence", "ticks", "ran_policy_id", "began_s", "ended_s",
    "achieved_start_json", "reset_attempts", "clipped", "attempts_json", "hopeless_at", "sha256", "pictures_sha256",
    "explored",
)  # fmt: skip
COLUMNS: tuple[str, ...] = (*ORDER_COLUMNS, *END_COLUMNS, "person_outcome", "found_seq")

Value = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """One order and its episode."""

    order: Order
    episode: Episode | None
    """Without arrays; None while the order is open."""
    issued_seq: int
    """Event that issued it."""
    ended_seq: int | None
    """Event that ended it."""
    person_outcome: OutcomeKind | None
    """The newest label."""
    found_seq: int | None
    """Event of its late result, if the order had ended as unknown."""


def order_values(order: Order, issued_seq: int) -> tuple[Value, ...]:
    """The values of ORDER_COLUMNS."""
    start = json.dumps(start_fields(order.start), sort_keys=True)
    return (
        order.order_id, order.campaign_id, order.station, order.task, order.policy_id, order.purpose, order.round,
        order.gate_id, order.pair, order.side, order.start.split, order.start.index, start, order.lease,
        int(order.supervised), json.dumps(early_stop_fields(order.early_stop)), order.branch, issued_seq,
    )  # fmt: skip


def end_values(result: OrderResult, ended_seq: int) -> tuple[Value, ...]:
    """The values of END_COLUMNS."""
    fields = result_fields(result)
    return (
        ended_seq, result.outcome, result.cause, result.confidence, result.ticks, result.ran_policy_id,
        result.began_s, result.ended_s, json.dumps(fields["achieved_start"]), result.reset_attempts, result.clipped,
        json.dumps(fields["attempts"]), result.predicted_failure_at, result.sha256, result.pictures_sha256,
        int(result.explored),
    )  # fmt: skip


def read(values: Sequence[object]) -> OrderRow:
    """The order and its episode in a row selected as COLUMNS."""
    cell = dict(zip(COLUMNS, values, strict=True))
    shared = {name: cell[name] for name in ORDER_COLUMNS if name in Order.__dataclass_fields__}
    start = json.loads(str(cell["start_json"]))
    shared |= {"supervised": bool(cell["supervised"]), "early_stop": json.loads(str(cell["early_stop_json"]))}
    order = read_order(shared | {"start": start}, FileProblem)
    episode = None
    if cell["ended_seq"] is not None:
        ended = {name: cell[name] for name in END_COLUMNS if name in RESULT_FIELDS}
        ended["order_id"] = order.order_id
        ended["achieved_start"] = json.loads(str(cell["achieved_start_json"]))
        ended["explored"] = bool(cell["explored"])
        ended["attempts"] = json.loads(str(cell["attempts_json"]))
        episode = episode_of(read_result(ended, FileProblem), order)
    return OrderRow(
        order=order,
        episode=episode,
        issued_seq=cell["issued_seq"],  # pyright: ignore[reportArgumentType]
        ended_seq=cell["ended_seq"],  # pyright: ignore[reportArgumentType]
        person_outcome=cell["person_outcome"],  # pyright: ignore[reportArgumentType]
        found_seq=cell["found_seq"],  # pyright: ignore[reportArgumentType]
    )
