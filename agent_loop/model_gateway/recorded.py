"""What a campaign's ledger says about calls of language models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_loop.model_gateway.spending import Spending
from enpire.campaign.agent_events import ModelCalled, TokensSpent
from enpire.campaign.events import kinds_of
from enpire.service import reading

KINDS = kinds_of(ModelCalled, TokensSpent)


def recorded_spending(home: Path, campaign_id: str, ended: Sequence[ModelCalled]) -> Spending:
    """All spending of a campaign: the calls in its ledger, and `ended` ones that it may not hold yet."""
    spending, after = Spending(), 0
    with reading.open_records(home) as records:
        while page := records.reading.events(after, campaign_id, KINDS):
            for entry in page:
                if isinstance(entry.event, ModelCalled):
                    spending.take([entry.event])
                elif isinstance(entry.event, TokensSpent) and not entry.event.self_reported:
                    spending.take_earlier(entry.event.lane, entry.event.total)
            after = page[-1].seq
    spending.take(ended)
    return spending
