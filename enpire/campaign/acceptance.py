"""Whether a delivered episode counts: each order counts once, for the station and the order that the ledger has."""

from __future__ import annotations

from dataclasses import replace

from enpire.types import Episode, Order

EARLIER_PURPOSES = "demonstrate collect base gate confirm"
"""Purposes that every station knows, also one of an earlier version, which does not report its purposes."""
DIFFERS = "its station delivered it for an order that differs from the order in the ledger"


def refusal(order: Order | None, ended: str, episode: Episode, station: str) -> str:
    """Why an episode does not count; empty if it counts.

    Args:
        order: as the ledger has it; None if the ledger has none that can still be delivered.
        ended: outcome of the order so far; empty while the order is open.
        episode: the delivered episode.
        station: name of the station that delivers it.
    """
    if order is None or ended not in {"", "unknown"}:
        return "its order has ended already, or was never issued"
    if order.station != station:
        return f"its order was issued to the station {order.station}"
    return "" if order == episode.order else DIFFERS


def for_station(order: Order, purposes: str) -> Order:
    """The order for a station that knows these purposes.

    Others become `collect`, or on hidden starts `base`, which are carried out alike.
    """
    if order.purpose in purposes.split():
        return order
    return replace(order, purpose="base" if order.start.split != "train" else "collect", branch="")


def as_issued(order: Order | None, episode: Episode) -> Episode:
    """The delivered episode with the purpose that the ledger has, if its order was changed by `for_station`."""
    if order is None or episode.order != for_station(order, EARLIER_PURPOSES):
        return episode
    return replace(episode, order=order)
