"""What agent sessions have spent on language models, and whether the next call fits their limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from enpire.errors import EnpireError
from enpire.service.asking import ModelCalled, ModelLease, ModelLimits

USEFUL_TOKENS = 256
"""Fewest tokens of an answer that is worth its question."""


class LimitReached(EnpireError):
    """The call could exceed a limit of tokens or money, so it is not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The most that one call can cost."""

    tokens: int
    money: float | None
    """None: the price file has no price for it."""


@dataclass(slots=True)
class Spent:
    """What one session, or all of a campaign, has spent and reserved."""

    tokens: int = 0
    money: float = 0.0

    def add(self, tokens: int, money: float) -> None:
        """Add what was spent, or release what was reserved."""
        self.tokens += tokens
        self.money += money


@dataclass(slots=True)
class Spending:
    """All spending of one campaign. Each call counts once: as its bound while it runs, then as the provider counted."""

    lanes: dict[str, Spent] = field(default_factory=dict[str, Spent])
    shared: Spent = field(default_factory=Spent)
    running: dict[str, tuple[str, Bound]] = field(default_factory=dict[str, tuple[str, Bound]])
    """Call -> session and bound."""
    seen: set[str] = field(default_factory=set[str])
    """Ids of the calls that are counted."""

    refused: dict[str, str] = field(default_factory=dict[str, str])
    """Session -> why a limit refused its last call."""

    def take(self, calls: Iterable[ModelCalled]) -> None:
        """Count calls that ended; a call that was counted before is passed over."""
        for call in calls:
            if call.call_id not in self.seen:
                self.seen.add(call.call_id)
                self._add(call.lane, call.tokens, call.spent)

    def take_earlier(self, lane: str, tokens: int) -> None:
        """Count tokens that an earlier version of ENPIRE recorded."""
        self._add(lane, tokens, 0.0)

    def left(self, lease: ModelLease) -> int | None:
        """Tokens that the next call of a session may cost; None without a limit."""
        pairs = ((lease.own, self._lane(lease.lane)), (lease.shared, self.shared))
        found = [limits.tokens - spent.tokens for limits, spent in pairs if limits.tokens]
        return max(0, min(found)) if found else None

    def reserve(self, lease: ModelLease, call_id: str, bound: Bound) -> None:
        """Count the most that a call can cost, before it is sent.

        Raises:
            LimitReached: it could exceed a limit; nothing is counted.
        """
        _require(lease.own, self._lane(lease.lane), bound, f"the agent session {lease.lane}")
        _require(lease.shared, self.shared, bound, "all agent sessions of the campaign")
        self.running[call_id] = lease.lane, bound
        self.refused.pop(lease.lane, None)
        self._add(lease.lane, bound.tokens, bound.money or 0.0)

    def release(self, call_id: str) -> None:
        """Release what was reserved for a call."""
        lane, bound = self.running.pop(call_id)
        self._add(lane, -bound.tokens, -(bound.money or 0.0))

    def settle(self, call: ModelCalled) -> None:
        """Replace what was reserved for a call by what it cost."""
        self.release(call.call_id)
        self.take([call])

    def _lane(self, lane: str) -> Spent:
        return self.lanes.setdefault(lane, Spent())

    def _add(self, lane: str, tokens: int, money: float) -> None:
        self._lane(lane).add(tokens, money)
        self.shared.add(tokens, money)


def _require(limits: ModelLimits, spent: Spent, bound: Bound, owner: str) -> None:
    if limits.tokens and spent.tokens + bound.tokens > limits.tokens:
        raise LimitReached(
            f"The call is not sent: it could cost {bound.tokens} tokens, and of the {limits.tokens} tokens of {owner} "
            f"{max(0, limits.tokens - spent.tokens)} are left. Send a shorter request, or name a smaller limit of the "
            "answer; only a person can raise `tokens` in the campaign file."
        )
    if not limits.money:
        return
    if bound.money is None:
        raise LimitReached(
            f"The call is not sent: {owner} may spend at most {limits.money:g}, and the price file has no price for "
            "this call. Add a dated price to prices.yaml of the home, or limit tokens instead of money."
        )
    if spent.money + bound.money > limits.money:
        raise LimitReached(
            f"The call is not sent: it could cost {bound.money:.4g}, and of the {limits.money:g} of {owner} "
            f"{max(0.0, limits.money - spent.money):.4g} is left. Send a shorter request, or name a smaller limit of "
            "the answer; only a person can raise `money` in the campaign file."
        )
