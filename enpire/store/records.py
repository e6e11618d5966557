"""Orders and episodes in the ledger (moves to `enpire.codec` and `enpire.campaign.events`)."""

from __future__ import annotations

from collections.abc import Mapping

from enpire.codec import episode_of, order_fields, read_order, read_result, result_fields, result_of
from enpire.errors import FileProblem
from enpire.types import Episode, Json, Order

ORDER_ISSUED = "order issued"
ORDERS_ENDED = "orders ended"
ORDERS_FOUND = "orders found"
PERSON_JUDGED = "person judged"


def order_body(order: Order) -> dict[str, Json]:
    """An order as plain JSON."""
    return order_fields(order)


def episode_body(episode: Episode) -> dict[str, Json]:
    """An episode as plain JSON."""
    return result_fields(result_of(episode))


def order_from(body: Mapping[str, object]) -> Order:
    """The inverse of `order_body`."""
    return read_order(body, FileProblem)


def episode_from(body: Mapping[str, object], order: Order) -> Episode:
    """The inverse of `episode_body`."""
    return episode_of(read_result(body, FileProblem), order)
