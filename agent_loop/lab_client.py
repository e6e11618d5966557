"""Where an agent meets the lab: it reads the ledger, and leaves wishes that the loop answers with events."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from enpire.campaign.experiments import KINDS, Ideas
from enpire.campaign.recipe import Recipe
from enpire.errors import EnpireError, UsageError
from enpire.queries import campaigns
from enpire.queries.models import CampaignView
from enpire.requests import agent_requests
from enpire.requests.agent_requests import RequestKind, Sender
from enpire.types import Event

PATIENCE_S = 30.0
"""How long a wish may wait for its answer."""
POLL_S = 0.1


class RequestRefused(EnpireError):
    """The loop refused what an agent asked for; the text says why."""


@dataclass(slots=True)
class LabClient:
    """One agent lane's place in one campaign. Any thread may use it: every question opens the ledger anew."""

    home: Path
    sender: Sender

    def ideas(self) -> Ideas:
        """Everything that was proposed so far."""
        ideas, after = Ideas(), 0
        with campaigns.open_records(self.home) as records:
            while page := records.reading.events(after, self.sender.campaign_id, KINDS):
                for event in page:
                    ideas.apply(event.kind, event.body)
                after = page[-1].seq
        return ideas

    def campaign(self) -> CampaignView:
        """Where the campaign stands."""
        with campaigns.open_records(self.home) as records:
            return campaigns.campaign_view(records, self.sender.campaign_id)

    def started(self) -> Mapping[str, object]:
        """The event that began the campaign: its file, its goal."""
        with campaigns.open_records(self.home) as records:
            return campaigns.history(records, self.sender.campaign_id, ("campaign started",)).started

    def recipe(self, ideas: Ideas) -> Recipe:
        """The recipe in force, with its search space; UsageError when the campaign's recipe declares none."""
        if ideas.declared is None:
            raise UsageError(
                "This campaign's recipe declares no `space`, so agents can change nothing; add one to the recipe file."
            )
        return ideas.recipe_in_force(ideas.declared)

    def wish(self, kind: RequestKind, said: Mapping[str, object]) -> Event:
        """Ask the loop for something; the event that answers.

        Raises:
            RequestRefused: the loop says no, in one sentence.
            UsageError: no campaign runs here, or the loop did not answer in time.
        """
        self._require_loop()
        with campaigns.open_records(self.home) as records:
            tail = records.reading.tail(1)
            after = tail[-1].seq if tail else 0
            wish_id = agent_requests.leave(self.home / "inbox", self.sender, kind, said)
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                answers = _answers(records, after, self.sender.campaign_id, wish_id)
                if answers:
                    return _accepted(answers)
                time.sleep(POLL_S)
        raise UsageError(
            f"The loop did not answer within {PATIENCE_S:.0f} s; is the campaign paused or busy? Try again."
        )

    def tell(self, kind: RequestKind, said: Mapping[str, object]) -> bool:
        """Leave a wish without waiting for its event; False when no campaign runs here."""
        if not campaigns.is_driven(self.home):
            return False
        agent_requests.leave(self.home / "inbox", self.sender, kind, said)
        return True

    def over(self) -> bool:
        """Whether the campaign has ended, or nobody drives it."""
        with campaigns.open_records(self.home) as records:
            past = campaigns.history(records, self.sender.campaign_id, campaigns.MARKS)
        return past.ended is not None or not campaigns.is_driven(self.home)

    def newest(self) -> int:
        """The seq of the last event that concerns agents."""
        with campaigns.open_records(self.home) as records:
            return _newest(records, 0, self.sender.campaign_id)

    def wait(self, after: int, patience_s: float) -> int:
        """Wait until something that concerns agents happens after an event; the seq of the newest such event."""
        deadline = time.monotonic() + patience_s
        with campaigns.open_records(self.home) as records:
            while (newest := _newest(records, after, self.sender.campaign_id)) == after:
                if time.monotonic() >= deadline or not campaigns.is_driven(self.home):
                    break
                time.sleep(POLL_S * 2)
        return newest

    def _require_loop(self) -> None:
        if not campaigns.is_driven(self.home):
            raise UsageError(f"No campaign runs in {self.home}; `enpire run` starts or resumes one.")


STIRRING = tuple(kind for kind in KINDS if kind not in {"brief read", "agent turned", "tokens spent", "wish refused"})
"""Kinds that may change an agent's mind."""


def _newest(records: campaigns.Records, after: int, campaign_id: str) -> int:
    newest = after
    while page := records.reading.events(newest, campaign_id, STIRRING):
        newest = page[-1].seq
    return newest


def _answers(records: campaigns.Records, after: int, campaign_id: str, wish_id: str) -> list[Event]:
    page = records.reading.events(after, campaign_id, KINDS)
    return [event for event in page if event.body.get("wish_id") == wish_id]


def _accepted(answers: list[Event]) -> Event:
    for event in answers:
        if event.kind in {"wish refused", "experiment refused"}:
            raise RequestRefused(str(event.body["why"]))
    return answers[0]
