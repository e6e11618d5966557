"""Whether a delivered episode counts: each order counts once, for the station and the order that the ledger has."""

from __future__ import annotations

from enpire.types import Episode, Order

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
