"""Orders and episodes as mappings of plain values, and back: the one form for ledger, wire, spool and episode folder.

In the ledger an episode stands without its order, under the order's id (`OrderResult`). Everything else is the same
in all four places, and every reader refuses the same things: a field that is missing, unknown or out of its range.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from enpire.errors import EnpireError, FileProblem, TransportProblem
from enpire.field_reader import Fields
from enpire.types import OUTCOME_KINDS, EarlyStop, Episode, Json, Order, OrderResult, Purpose, Split, Start

SPLITS: tuple[Split, ...] = get_args(Split)
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
SIDES: tuple[Literal["", "champion", "candidate"], ...] = ("", "champion", "candidate")

_ORDER = frozenset(Order.__dataclass_fields__)
_START = frozenset(Start.__dataclass_fields__)
_EARLY_STOP = frozenset(EarlyStop.__dataclass_fields__)
RESULT_FIELDS = frozenset(OrderResult.__dataclass_fields__) - {"predicted_failure_at"} | {"hopeless_at"}
"""The stored names; one differs from the field: ledgers and spools keep the spelling of earlier versions."""
_EPISODE = RESULT_FIELDS - {"order_id"} | {"order"}

type Problem = type[EnpireError]


def order_fields(order: Order) -> dict[str, Json]:
    """An order as plain values."""
    return {
        "order_id": order.order_id, "campaign_id": order.campaign_id, "station": order.station, "task": order.task,
        "policy_id": order.policy_id, "start": start_fields(order.start), "purpose": order.purpose,
        "round": order.round, "gate_id": order.gate_id, "pair": order.pair, "side": order.side, "lease": order.lease,
        "supervised": order.supervised, "early_stop": early_stop_fields(order.early_stop),
        **({"branch": order.branch} if order.branch else {}),
    }  # fmt: skip


def start_fields(start: Start) -> dict[str, Json]:
    """A start as plain values."""
    return {"split": start.split, "index": start.index, "values": list(start.values), "seed": start.seed}


def early_stop_fields(rule: EarlyStop | None) -> dict[str, Json] | None:
    """A rule as plain values; None for none."""
    return {"below": rule.below, "control": rule.control, "armed": rule.armed} if rule is not None else None


def episode_fields(episode: Episode) -> dict[str, Json]:
    """An episode as plain values, with its order and without its arrays."""
    return {"order": order_fields(episode.order), **_facts(episode)}


def result_fields(result: OrderResult) -> dict[str, Json]:
    """An episode as the ledger writes it: the order's id stands for the order."""
    return {"order_id": result.order_id, **_facts(result)}


def result_of(episode: Episode) -> OrderResult:
    """An episode without its order and its arrays."""
    return OrderResult(
        order_id=episode.order.order_id, outcome=episode.outcome, cause=episode.cause, confidence=episode.confidence,
        ran_policy_id=episode.ran_policy_id, ticks=episode.ticks, began_s=episode.began_s, ended_s=episode.ended_s,
        achieved_start=episode.achieved_start, reset_attempts=episode.reset_attempts, clipped=episode.clipped,
        attempts=episode.attempts, predicted_failure_at=episode.predicted_failure_at, sha256=episode.sha256,
        pictures_sha256=episode.pictures_sha256, explored=episode.explored,
    )  # fmt: skip


def episode_of(result: OrderResult, order: Order) -> Episode:
    """An episode put together again, without its arrays.

    Raises:
        FileProblem: the result is that of another order.
    """
    if result.order_id != order.order_id:
        raise FileProblem(f"The result of order {result.order_id} was read as that of order {order.order_id}.")
    return Episode(
        order=order, outcome=result.outcome, cause=result.cause, confidence=result.confidence,
        ran_policy_id=result.ran_policy_id, ticks=result.ticks, began_s=result.began_s, ended_s=result.ended_s,
        achieved_start=result.achieved_start, reset_attempts=result.reset_attempts, clipped=result.clipped,
        attempts=result.attempts, predicted_failure_at=result.predicted_failure_at, sha256=result.sha256,
        pictures_sha256=result.pictures_sha256, explored=result.explored,
    )  # fmt: skip


def read_order(content: object, problem: Problem = TransportProblem) -> Order:
    """The inverse of `order_fields`; a `problem` names the field that is wrong."""
    fields = Fields(content, "An order", problem).only(_ORDER)
    return Order(
        order_id=fields.identifier("order_id"),
        campaign_id=fields.identifier("campaign_id"),
        station=fields.identifier("station"),
        task=fields.text("task"),
        policy_id=fields.identifier("policy_id"),
        start=read_start(fields.get("start"), problem),
        purpose=fields.choice("purpose", PURPOSES),
        round=fields.whole("round", -1),
        gate_id=fields.identifier_or_empty("gate_id"),
        pair=fields.whole("pair", -1),
        side=fields.choice("side", SIDES),
        lease=fields.whole("lease"),
        supervised=fields.flag("supervised"),
        # Orders that were written before there were early stops lack the field.
        early_stop=read_early_stop(fields.get("early_stop"), problem) if "early_stop" in fields else None,
        branch=fields.identifier_or_empty("branch") if "branch" in fields else "",
    )


def read_start(content: object, problem: Problem = TransportProblem) -> Start:
    """The inverse of `start_fields`; a `problem` names the field that is wrong."""
    fields = Fields(content, "The start of an order", problem).only(_START)
    return Start(
        split=fields.choice("split", SPLITS),
        index=fields.whole("index", -1),
        values=fields.numbers("values"),
        seed=fields.whole("seed"),
    )


def read_early_stop(content: object, problem: Problem = TransportProblem) -> EarlyStop | None:
    """The inverse of `early_stop_fields`; a `problem` names the field that is wrong."""
    if content is None:
        return None
    fields = Fields(content, "The early stop of an order", problem).only(_EARLY_STOP)
    return EarlyStop(
        below=fields.number("below", 0.0, 1.0), control=fields.number("control", 0.0, 1.0), armed=fields.flag("armed")
    )


def read_episode(content: object, problem: Problem = TransportProblem) -> Episode:
    """The inverse of `episode_fields`; a `problem` names the field that is wrong."""
    fields = Fields(content, "An episode", problem).only(_EPISODE)
    order = read_order(fields.get("order"), problem)
    return episode_of(_read_facts(fields, order.order_id), order)


def read_result(content: object, problem: Problem = TransportProblem) -> OrderResult:
    """The inverse of `result_fields`; a `problem` names the field that is wrong."""
    fields = Fields(content, "An episode", problem).only(RESULT_FIELDS)
    return _read_facts(fields, fields.identifier("order_id"))


def _facts(of: Episode | OrderResult) -> dict[str, Json]:
    return {
        "outcome": of.outcome, "cause": of.cause, "confidence": of.confidence, "ran_policy_id": of.ran_policy_id,
        "ticks": of.ticks, "began_s": of.began_s, "ended_s": of.ended_s,
        "achieved_start": [_finite(value) for value in of.achieved_start],
        "reset_attempts": of.reset_attempts, "clipped": of.clipped, "attempts": list(of.attempts),
        "hopeless_at": of.predicted_failure_at, "sha256": of.sha256, "pictures_sha256": of.pictures_sha256,
        **({"explored": True} if of.explored else {}),
    }  # fmt: skip


def _read_facts(fields: Fields, order_id: str) -> OrderResult:
    return OrderResult(
        order_id=order_id,
        outcome=fields.choice("outcome", OUTCOME_KINDS),
        cause=fields.text("cause"),
        confidence=fields.number("confidence", 0.0, 1.0),
        ran_policy_id=fields.identifier_or_empty("ran_policy_id"),
        ticks=fields.whole("ticks"),
        began_s=fields.number("began_s"),
        ended_s=fields.number("ended_s"),
        achieved_start=fields.numbers("achieved_start", missing=math.nan),
        reset_attempts=fields.whole("reset_attempts"),
        clipped=fields.whole("clipped"),
        attempts=fields.wholes("attempts"),
        # Episodes that were recorded before there were early stops, or pictures, lack these fields.
        predicted_failure_at=fields.whole("hopeless_at", -1) if "hopeless_at" in fields else -1,
        sha256=fields.text("sha256", 64),
        pictures_sha256=fields.text("pictures_sha256", 64) if "pictures_sha256" in fields else "",
        explored="explored" in fields and fields.flag("explored"),
    )


def _finite(value: float) -> float | None:
    """A sensor that failed in the reset check gives no number: null, for which JSON and msgpack have a word."""
    return float(value) if math.isfinite(value) else None
