"""Events of orders and their episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from enpire.campaign.event_forms import OPTIONAL, EventBase, stored
from enpire.types import Order, OrderResult, OutcomeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdersIssued(EventBase):
    """Orders are issued; the event is written before a robot moves for them."""

    KIND: ClassVar[str] = "order issued"
    orders: tuple[Order, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdersEnded(EventBase):
    """Orders end. Each order ends exactly once."""

    KIND: ClassVar[str] = "orders ended"
    results: tuple[OrderResult, ...] = field(metadata=stored("episodes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LateResults(EventBase):
    """A station delivers episodes of orders that had ended as unknown. Each order has at most one late result."""

    KIND: ClassVar[str] = "orders found"
    results: tuple[OrderResult, ...] = field(metadata=stored("episodes"))
    for_branches: bool = field(default=False, metadata=OPTIONAL)
    """Whether search rollouts count for their branches; False where an older ENPIRE did not count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRefused(EventBase):
    """A station delivers an episode that the campaign refuses and does not count."""

    KIND: ClassVar[str] = "episode refused"
    VERSION: ClassVar[int] = 2
    order_id: str
    station: str
    why: str
    outcome: OutcomeKind | Literal[""]
    """Outcome of the refused episode; empty where version 1 of this event did not record it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLabelled(EventBase):
    """An operator labels an episode. The verdict does not change; a newer label replaces an older one."""

    KIND: ClassVar[str] = "person judged"
    order_id: str
    outcome: OutcomeKind | Literal[""]
    """Empty: the operator withdrew the only label."""
    by: str
    undo: bool = field(default=False, metadata=OPTIONAL)
    """The operator withdrew the newest label; `outcome` is the label before it."""


OrderEvent = OrdersIssued | OrdersEnded | LateResults | EpisodeRefused | EpisodeLabelled
