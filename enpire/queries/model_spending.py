"""What the agents of a campaign have spent on language models: tokens, and money where its price is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from enpire.campaign.agent_events import AgentStarted, ExperimentSubmitted, ModelCalled, TokensSpent
from enpire.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCountView:
    """Tokens as an agent counts them itself. Such counts can be far off; no budget uses them."""

    fresh: int
    cached: int
    cache_write: int
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSpending:
    """What one agent session, or all of them, spent on language models, by the providers' counts."""

    lane: str
    """Name of the agent session; empty for the sum."""
    calls: int
    lost: int
    """Calls whose end or count did not arrive; their true cost is unknown."""
    failed: int
    """Calls that the provider refused, at no cost."""
    fresh: int
    cache_read: int
    cache_write: int
    output: int
    counted_for_budget: int
    """The tokens above, and of each lost call the most that it could cost."""
    money: Mapping[str, float]
    """Currency -> known cost."""
    calls_of_unknown_cost: int
    tokens_limit: int
    """0: no limit."""
    money_limit: float
    self_reported: OwnCountView | None
    """None if the agent reports nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingView:
    """The spending of a campaign."""

    total: LaneSpending
    lanes: tuple[LaneSpending, ...]


@dataclass(slots=True)
class SpendingRecord:
    """The calls of one agent session, added up."""

    calls: int = 0
    lost: int = 0
    failed: int = 0
    tokens: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("fresh", "cache_read", "cache_write", "output"), 0)
    )
    counted: int = 0
    copied: int = 0
    """Tokens that an agent of an earlier version copied from the provider's count."""
    money: dict[str, float] = field(default_factory=dict[str, float])
    unknown: int = 0
    own: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, event: ModelCalled | TokensSpent) -> None:
        """Add one call, or one report of an agent."""
        if isinstance(event, TokensSpent) and not event.self_reported:
            self.copied += event.total
            return
        if isinstance(event, TokensSpent):
            for name in ("fresh", "cached", "cache_write", "output"):
                self.own[name] = self.own.get(name, 0) + int(getattr(event, name))
            return
        self.calls += 1
        self.lost += event.outcome == "lost"
        self.failed += event.outcome == "failed"
        for name in self.tokens:
            self.tokens[name] += int(getattr(event, name))
        self.counted += event.tokens
        if event.money is None:
            self.unknown += 1
        elif event.money:
            self.money[event.currency] = self.money.get(event.currency, 0.0) + event.money

    def view(self, lane: str, limits: tuple[int, float]) -> LaneSpending:
        """The document."""
        return LaneSpending(
            lane=lane, calls=self.calls, lost=self.lost, failed=self.failed, counted_for_budget=self.counted,
            money={name: round(amount, 6) for name, amount in self.money.items()},
            calls_of_unknown_cost=self.unknown, tokens_limit=limits[0], money_limit=limits[1],
            self_reported=OwnCountView(**self.own) if self.own else None, **self.tokens,
        )  # fmt: skip


@dataclass(slots=True)
class Spendings:
    """The spending of all agent sessions of one campaign, from its events."""

    lanes: dict[str, SpendingRecord] = field(default_factory=dict[str, SpendingRecord])
    total: SpendingRecord = field(default_factory=SpendingRecord)
    agents: dict[str, str] = field(default_factory=dict[str, str])
    """Agent session -> plug-in name of its agent."""
    experiments: dict[str, SpendingRecord] = field(default_factory=dict[str, SpendingRecord])
    """Experiment -> what its session spent since its experiment before."""
    since: dict[str, SpendingRecord] = field(default_factory=dict[str, SpendingRecord])
    """Agent session -> what it spent since its last experiment."""

    def apply(self, event: ModelCalled | TokensSpent | AgentStarted | ExperimentSubmitted) -> None:
        """Apply one event."""
        if isinstance(event, ExperimentSubmitted):
            self.experiments[event.experiment_id] = self.since.pop(event.lane, SpendingRecord())
            return
        if isinstance(event, AgentStarted):
            self.agents[event.lane] = event.agent
            return
        self.since.setdefault(event.lane, SpendingRecord()).add(event)
        if isinstance(event, ModelCalled) or event.self_reported:
            self.lanes.setdefault(event.lane, SpendingRecord()).add(event)
            self.total.add(event)

    def view(self, campaign: Mapping[str, Json]) -> SpendingView | None:
        """The document, with the limits of a campaign file; None without any spending."""
        if not self.lanes:
            return None
        budget = campaign.get("budget")
        rows = [record.view(lane, self._limits(lane, campaign)) for lane, record in sorted(self.lanes.items())]
        return SpendingView(total=self.total.view("", _limits(budget)), lanes=tuple(rows))

    def _limits(self, lane: str, campaign: Mapping[str, Json]) -> tuple[int, float]:
        """The limits of an agent session of the campaign file; none for a session that was started by hand."""
        plans = campaign.get("agents")
        for plan in plans if isinstance(plans, list) else []:
            if isinstance(plan, dict) and lane.rpartition("-")[0] == plan.get("name") == self.agents.get(lane):
                tokens, money = _limits(plan)
                return tokens or _limits(plan.get("options"))[0], money
        return 0, 0.0


def _limits(section: Json) -> tuple[int, float]:
    """(tokens, money) of a section of a campaign file."""
    if not isinstance(section, dict):
        return 0, 0.0
    tokens, money = section.get("tokens"), section.get("money")
    return (
        tokens if isinstance(tokens, int) else 0,
        float(money) if isinstance(money, int | float) else 0.0,
    )
