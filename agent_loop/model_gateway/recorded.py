"""What a campaign's ledger says about calls of language models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_loop.model_gateway.spending import Spending
from enpire.campaign.agent_events import ModelCalled, TokensSpent
from enpire.campaign.events import kinds_of
from enpire.service import reading

KINDS = kinds_of(ModelCalled, TokensSpent)
HASH = 32
"""Letters of a hash. What a call asked is two of them: of the question, and of the form of its answer."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A call that was sent and that the provider did not refuse."""

    call_id: str
    is_lost: bool
    tokens: int
    """What it counts for the budgets."""


@dataclass(slots=True)
class EarlierCalls:
    """The calls of one campaign by what they asked. No call is forgotten, so that none is paid for twice unasked."""

    _found: dict[tuple[str, str], Earlier] = field(default_factory=dict[tuple[str, str], Earlier])
    """(session, hash of the question) -> the call."""

    def note(self, call: ModelCalled) -> None:
        """Note a call that ended."""
        asked = call.lane, call.request[:HASH]
        before = self._found.get(asked)
        if call.request and call.outcome != "failed" and not (before and before.is_lost):
            self._found[asked] = Earlier(call.call_id, call.outcome == "lost", call.tokens)

    def of(self, lane: str, question: str) -> Earlier | None:
        """A lost call of a session that asked this in any form, else the newest answered one; None if there is none."""
        return self._found.get((lane, question))


@dataclass(slots=True)
class Recorded:
    """The calls of one campaign: what they cost, and what they asked."""

    spending: Spending = field(default_factory=Spending)
    earlier: EarlierCalls = field(default_factory=EarlierCalls)

    def take(self, call: ModelCalled) -> None:
        """Count and note a call that ended, once."""
        if call.call_id not in self.spending.seen:
            self.earlier.note(call)
        self.spending.take([call])


def recorded_calls(home: Path, campaign_id: str, ended: Sequence[ModelCalled]) -> Recorded:
    """All calls of a campaign: those in its ledger, and `ended` ones that it may not hold yet."""
    recorded = Recorded()
    for event in _events(home, campaign_id):
        if isinstance(event, ModelCalled):
            recorded.take(event)
        elif not event.self_reported:
            recorded.spending.take_earlier(event.lane, event.total)
    for call in sorted(ended, key=lambda one: one.call_id):
        recorded.take(call)
    return recorded


def _events(home: Path, campaign_id: str) -> Iterator[ModelCalled | TokensSpent]:
    after = 0
    with reading.open_records(home) as records:
        while page := records.reading.events(after, campaign_id, KINDS):
            for entry in page:
                if isinstance(entry.event, ModelCalled | TokensSpent):
                    yield entry.event
            after = page[-1].seq
