"""The orders and trials of gates and confirmations as the audit reads them, and what in them breaks a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from enpire.campaign.gate_events import ConfirmationOpened, GateDecided, GateOpened
from enpire.gate.trials import Trial
from enpire.types import Episode, Order, never_began


@dataclass(slots=True)
class GateTrials:
    """The orders and trials of one gate in the records."""

    opened: GateOpened
    orders: dict[tuple[int, str], Order] = field(default_factory=dict[tuple[int, str], Order])
    released: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Sides of pairs that were released and are not reissued yet."""
    trials: list[Trial] = field(default_factory=list[Trial])
    decided: GateDecided | None = None
    """The recomputed decision."""
    strange: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class ConfirmationTrials:
    """The orders and trials of one confirmation in the records."""

    opened: ConfirmationOpened
    starts: set[int] = field(default_factory=set[int])
    ended: int = 0
    ticks: list[int] = field(default_factory=list[int])
    """Commands of each success."""
    strange: list[str] = field(default_factory=list[str])


def enter(gate: GateTrials, order: Order, together: Sequence[Order]) -> None:
    """Check an order of a gate: it has the right version, and the hidden start and the station of its other side.

    An order that was released before it began may be reissued on another station. If both sides were released, they are
    reissued on one station together.
    """
    if order.policy_id != {"champion": gate.opened.champion, "candidate": gate.opened.candidate}.get(order.side):
        gate.strange.append(f"order {order.order_id} does not name the gate's {order.side or 'side'}")
    if order.start.split != "holdout":
        gate.strange.append(f"pair {order.pair} starts from the {order.start.split} split")
    mine, others = (order.pair, order.side), (order.pair, "candidate" if order.side == "champion" else "champion")
    other, moved = gate.orders.get(others), mine in gate.orders
    if other is not None and (other.start != order.start or (other.station != order.station and not moved)):
        gate.strange.append(f"the sides of pair {order.pair} have different starts or stations")
    if moved and mine not in gate.released:
        gate.strange.append(f"the {order.side} of pair {order.pair} is reissued without having been released")
    here = {(one.pair, one.side) for one in together if (one.gate_id, one.station) == (order.gate_id, order.station)}
    if others in gate.released and others not in here:
        gate.strange.append(f"the {order.side} of pair {order.pair} is reissued alone; both sides were released")
    gate.released.discard(mine)
    gate.orders[mine] = order


def enrol(confirmation: ConfirmationTrials, order: Order) -> None:
    """Check an order of a confirmation: it has the confirmed version and a start of the confirm split."""
    confirmation.starts.add(order.start.index)
    if order.policy_id != confirmation.opened.policy_id or order.start.split != "confirm":
        confirmation.strange.append(f"order {order.order_id} is of another version or split")


def correct(confirmation: ConfirmationTrials, found: Episode) -> None:
    """Count a late result of a confirmation; one of an earlier confirmation changes nothing."""
    order = found.order
    if order.policy_id != confirmation.opened.policy_id:
        return
    confirmation.ticks += [found.ticks] if found.outcome == "success" else []
    if never_began(found.outcome, found.cause):
        confirmation.ended -= 1
        confirmation.starts.discard(order.start.index)
