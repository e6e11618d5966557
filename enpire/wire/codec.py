"""Orders and episodes as mappings of plain values, and back: as they cross the wire and lie in a spool."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from enpire.fields import WHOLE_MAX, Fields
from enpire.store.records import early_stop_body
from enpire.types import OUTCOME_KINDS, EarlyStop, Episode, Order, Purpose, Split, Start

SPLITS: tuple[Split, ...] = ("train", "holdout", "confirm")
PURPOSES: tuple[Purpose, ...] = ("demonstrate", "collect", "base", "gate", "confirm")
SIDES: tuple[Literal["", "champion", "candidate"], ...] = ("", "champion", "candidate")


def order_fields(order: Order) -> Mapping[str, object]:
    """An order as plain values."""
    return {
        "order_id": order.order_id, "campaign_id": order.campaign_id, "station": order.station, "task": order.task,
        "policy_id": order.policy_id, "start": _start_fields(order.start), "purpose": order.purpose,
        "round": order.round, "gate_id": order.gate_id, "pair": order.pair, "side": order.side, "lease": order.lease,
        "supervised": order.supervised, "early_stop": early_stop_body(order.early_stop),
    }  # fmt: skip


def read_order(content: object) -> Order:
    """An order from plain values; TransportProblem names the field that is wrong."""
    fields = Fields(content, "An order")
    return Order(
        order_id=fields.identifier("order_id"),
        campaign_id=fields.text("campaign_id"),
        station=fields.identifier("station"),
        task=fields.text("task"),
        policy_id=fields.text("policy_id", 128),
        start=_read_start(fields.get("start")),
        purpose=fields.choice("purpose", PURPOSES),
        round=fields.whole("round", -1),
        gate_id=fields.text("gate_id", 128),
        pair=fields.whole("pair", -1),
        side=fields.choice("side", SIDES),
        lease=fields.whole("lease"),
        supervised=fields.flag("supervised"),
        early_stop=_read_early_stop(fields.get("early_stop")),
    )


def episode_fields(episode: Episode) -> Mapping[str, object]:
    """An episode as plain values, without its arrays."""
    return {
        "order": order_fields(episode.order), "outcome": episode.outcome, "cause": episode.cause,
        "confidence": episode.confidence, "ran_policy_id": episode.ran_policy_id, "ticks": episode.ticks,
        "began_s": episode.began_s, "ended_s": episode.ended_s,
        "achieved_start": [_finite(value) for value in episode.achieved_start],
        "reset_attempts": episode.reset_attempts, "clipped": episode.clipped, "attempts": list(episode.attempts),
        "hopeless_at": episode.hopeless_at, "sha256": episode.sha256,
        "pictures_sha256": episode.pictures_sha256,
    }  # fmt: skip


def read_episode(content: object) -> Episode:
    """An episode from plain values; TransportProblem names the field that is wrong."""
    fields = Fields(content, "An episode")
    return Episode(
        order=read_order(fields.get("order")),
        outcome=fields.choice("outcome", OUTCOME_KINDS),
        cause=fields.text("cause"),
        confidence=fields.number("confidence", 0.0, 1.0),
        ran_policy_id=fields.text("ran_policy_id", 128),
        ticks=fields.whole("ticks"),
        began_s=fields.number("began_s"),
        ended_s=fields.number("ended_s"),
        achieved_start=fields.numbers("achieved_start"),
        reset_attempts=fields.whole("reset_attempts"),
        clipped=fields.whole("clipped"),
        attempts=fields.wholes("attempts"),
        hopeless_at=fields.whole("hopeless_at", -1),
        sha256=fields.text("sha256", 64),
        # What a station recorded before there were pictures lies in spools without the field.
        pictures_sha256=fields.text("pictures_sha256", 64) if "pictures_sha256" in fields else "",
    )


def without_record(episode: Episode, why: str) -> Episode:
    """The end of an order whose record cannot be had: invalid, for nobody can look at what was judged."""
    return replace(
        episode, outcome="invalid", cause=why[:1000], confidence=0.0, achieved_start=(), attempts=(), sha256="",
        pictures_sha256="",
    )  # fmt: skip


def _read_early_stop(content: object) -> EarlyStop | None:
    if content is None:
        return None
    fields = Fields(content, "The early stop of an order")
    return EarlyStop(
        below=fields.number("below", 0.0, 1.0), control=fields.number("control", 0.0, 1.0), armed=fields.flag("armed")
    )


def _start_fields(start: Start) -> Mapping[str, object]:
    return {"split": start.split, "index": start.index, "values": list(start.values), "seed": start.seed}


def _read_start(content: object) -> Start:
    fields = Fields(content, "The start of an order")
    return Start(
        split=fields.choice("split", SPLITS),
        index=fields.whole("index", -1),
        values=fields.numbers("values"),
        seed=fields.whole("seed", 0, WHOLE_MAX),
    )


def _finite(value: float) -> float:
    # A sensor that failed in the reset check must not make the whole episode undeliverable.
    return float(value) if math.isfinite(value) else 0.0
