"""Orders and episodes as plain JSON, in both directions: what the ledger's events and `episode.json` say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import NoReturn, cast, get_args

from enpire.errors import FileProblem
from enpire.types import OUTCOME_KINDS, EarlyStop, Episode, Order, OutcomeKind, Purpose, Split, Start

ORDER_ISSUED = "order issued"
"""Event kind; body {"campaign_id", "orders": [order_body(order), ...]}. Written before any motion."""
ORDERS_ENDED = "orders ended"
"""Event kind; body {"campaign_id", "episodes": [episode_body(episode), ...]}. Ends each order exactly once."""
ORDERS_FOUND = "orders found"
"""Event kind; body as of ORDERS_ENDED: episodes of orders that had ended as unknown, each found exactly once."""
PERSON_JUDGED = "person judged"
"""Event kind; body {"campaign_id", "order_id", "outcome"}: a person's verdict on an ended order, the last holds."""

_ORDER_KEYS = frozenset(field.name for field in fields(Order))
_EARLY_STOP_KEYS = frozenset(field.name for field in fields(EarlyStop))
_START_KEYS = frozenset(field.name for field in fields(Start))
_EPISODE_KEYS = frozenset(field.name for field in fields(Episode)) - {"order", "arrays"} | {"order_id"}


def order_body(order: Order) -> dict[str, object]:
    """An order as plain JSON."""
    return {
        "order_id": order.order_id,
        "campaign_id": order.campaign_id,
        "station": order.station,
        "task": order.task,
        "policy_id": order.policy_id,
        "start": start_body(order.start),
        "purpose": order.purpose,
        "round": order.round,
        "gate_id": order.gate_id,
        "pair": order.pair,
        "side": order.side,
        "lease": order.lease,
        "supervised": order.supervised,
        "early_stop": early_stop_body(order.early_stop),
    }


def early_stop_body(rule: EarlyStop | None) -> dict[str, object] | None:
    """A rule as plain JSON; null for none."""
    return {"below": rule.below, "control": rule.control, "armed": rule.armed} if rule is not None else None


def start_body(start: Start) -> dict[str, object]:
    """A start as plain JSON."""
    return {"split": start.split, "index": start.index, "values": list(start.values), "seed": start.seed}


def episode_body(episode: Episode) -> dict[str, object]:
    """An episode as plain JSON, without arrays and with the order's id for the order.

    A measured start value that is not finite (a dead sensor) becomes null, because JSON has no word for it.
    """
    return {
        "order_id": episode.order.order_id,
        "outcome": episode.outcome,
        "cause": episode.cause,
        "confidence": episode.confidence,
        "ran_policy_id": episode.ran_policy_id,
        "ticks": episode.ticks,
        "began_s": episode.began_s,
        "ended_s": episode.ended_s,
        "achieved_start": [value if math.isfinite(value) else None for value in episode.achieved_start],
        "reset_attempts": episode.reset_attempts,
        "clipped": episode.clipped,
        "attempts": list(episode.attempts),
        "hopeless_at": episode.hopeless_at,
        "sha256": episode.sha256,
        "pictures_sha256": episode.pictures_sha256,
    }


def order_from(body: Mapping[str, object]) -> Order:
    """The inverse of `order_body`; FileProblem names a field that is missing, unknown or not allowed."""
    said = _Fields({"early_stop": None, **body}, "order", _ORDER_KEYS)
    return Order(
        order_id=said.text("order_id"),
        campaign_id=said.text("campaign_id"),
        station=said.text("station"),
        task=said.text("task"),
        policy_id=said.text("policy_id"),
        start=start_from(said.map("start")),
        purpose=cast(Purpose, said.one_of("purpose", get_args(Purpose))),
        round=said.whole("round"),
        gate_id=said.text("gate_id"),
        pair=said.whole("pair"),
        side=said.one_of("side", ("", "champion", "candidate")),  # pyright: ignore[reportArgumentType]
        lease=said.whole("lease"),
        supervised=said.flag("supervised"),
        early_stop=early_stop_from(said.map("early_stop")) if body.get("early_stop") is not None else None,
    )


def early_stop_from(body: Mapping[str, object]) -> EarlyStop:
    """The inverse of `early_stop_body`."""
    said = _Fields(body, "early stop", _EARLY_STOP_KEYS)
    return EarlyStop(below=said.number("below"), control=said.number("control"), armed=said.flag("armed"))


def start_from(body: Mapping[str, object]) -> Start:
    """The inverse of `start_body`."""
    said = _Fields(body, "start", _START_KEYS)
    return Start(
        split=cast(Split, said.one_of("split", get_args(Split))),
        index=said.whole("index"),
        values=said.numbers("values"),
        seed=said.whole("seed"),
    )


def episode_from(body: Mapping[str, object], order: Order) -> Episode:
    """The inverse of `episode_body`, without arrays; FileProblem when it belongs to another order."""
    said = _Fields({"hopeless_at": -1, "pictures_sha256": "", **body}, "episode", _EPISODE_KEYS)
    if said.text("order_id") != order.order_id:
        raise FileProblem(f"The episode of order {said.text('order_id')} was read as that of order {order.order_id}.")
    return Episode(
        order=order,
        outcome=cast(OutcomeKind, said.one_of("outcome", OUTCOME_KINDS)),
        cause=said.text("cause"),
        confidence=said.number("confidence"),
        ran_policy_id=said.text("ran_policy_id"),
        ticks=said.whole("ticks"),
        began_s=said.number("began_s"),
        ended_s=said.number("ended_s"),
        achieved_start=said.numbers("achieved_start"),
        reset_attempts=said.whole("reset_attempts"),
        clipped=said.whole("clipped"),
        attempts=said.wholes("attempts"),
        hopeless_at=said.whole("hopeless_at"),
        sha256=said.text("sha256"),
        pictures_sha256=said.text("pictures_sha256"),
    )


class _Fields:
    """Typed access to one JSON object whose keys are exactly the known ones."""

    def __init__(self, body: Mapping[str, object], noun: str, keys: frozenset[str]) -> None:
        missing, unknown = sorted(keys - set(body)), sorted(set(body) - keys)
        if missing or unknown:
            raise FileProblem(
                f"A recorded {noun} lacks {missing} and has unknown {unknown}; its keys are {sorted(keys)}."
            )
        self._body = body
        self._noun = noun

    def text(self, key: str) -> str:
        value = self._body[key]
        return value if isinstance(value, str) else self._refuse(key, "a text")

    def one_of(self, key: str, allowed: Sequence[str]) -> str:
        value = self.text(key)
        return value if value in allowed else self._refuse(key, f"one of {list(allowed)}")

    def whole(self, key: str) -> int:
        value = self._body[key]
        return value if isinstance(value, int) and not isinstance(value, bool) else self._refuse(key, "a whole number")

    def flag(self, key: str) -> bool:
        value = self._body[key]
        return value if isinstance(value, bool) else self._refuse(key, "true or false")

    def number(self, key: str) -> float:
        value = self._body[key]
        return float(value) if _is_number(value) else self._refuse(key, "a number")  # pyright: ignore[reportArgumentType]

    def numbers(self, key: str) -> tuple[float, ...]:
        values = self._list(key)
        if not all(value is None or _is_number(value) for value in values):
            self._refuse(key, "a list of numbers")
        return tuple(math.nan if value is None else float(cast(float, value)) for value in values)

    def wholes(self, key: str) -> tuple[int, ...]:
        values = self._list(key)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            self._refuse(key, "a list of whole numbers")
        return tuple(cast(list[int], values))

    def map(self, key: str) -> Mapping[str, object]:
        value = self._body[key]
        return cast(Mapping[str, object], value) if isinstance(value, Mapping) else self._refuse(key, "an object")

    def _list(self, key: str) -> list[object]:
        value = self._body[key]
        if not isinstance(value, list | tuple):
            self._refuse(key, "a list")
        return list(cast(Sequence[object], value))

    def _refuse(self, key: str, allowed: str) -> NoReturn:
        raise FileProblem(f"A recorded {self._noun} says {key} = {self._body[key]!r}; it must be {allowed}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
