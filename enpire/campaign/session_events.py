"""Events of a campaign's sessions: it starts, resumes, pauses, continues, ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from enpire.campaign.event_forms import OPTIONAL, EventBase
from enpire.log_lines import printable
from enpire.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStarted(EventBase):
    """A campaign starts. This is its first event; it contains the campaign file as it was read."""

    KIND: ClassVar[str] = "campaign started"
    VERSION: ClassVar[int] = 2
    name: str
    task: str
    campaign: Mapping[str, Json]
    """The campaign file with every default (`enpire.campaign.campaign.Campaign` reads it)."""
    goal: Mapping[str, float | str]
    """success: the rate to confirm, in [0, 1]; by: rate or bound; confirm_starts: on how many starts."""
    seed: int
    home: str
    """Folder of the home, on the computer that started the campaign."""
    code: str
    """Version of ENPIRE."""
    verifier: str
    """Digest of the verifier; empty where version 1 of this event did not record it."""
    limit_ticks: int = field(default=0, metadata=OPTIONAL)
    """Time limit of the task; 0 if not recorded."""
    task_approval: Mapping[str, str] = field(default_factory=dict[str, str], metadata=OPTIONAL)
    """Of a task that an agent wrote: author, and by, at (UTC), digest and reason of the approval of its files."""

    @property
    def approved(self) -> str:
        """Who wrote the task and who approved it, in words; empty for a task that no agent wrote."""
        if not (found := self.task_approval):
            return ""
        author, by, at, digest, reason = (
            printable(str(found.get(key, ""))) for key in ("author", "by", "at", "digest", "reason")
        )
        written = f"written by the agent {author or 'unknown'}"
        if not by:
            return written
        why = f": {reason}" if reason else ""
        return f"{written} and approved by {by} at {at or 'an unknown time'} (sha256 {digest[:12] or 'unknown'}){why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResumed(EventBase):
    """The orchestrator resumes a campaign that has not ended."""

    KIND: ClassVar[str] = "campaign resumed"
    VERSION: ClassVar[int] = 2
    code: str
    """Version of ENPIRE."""
    after: str
    """Cause of the orders that the previous session cut off, such as a full disk; empty after a crash or Ctrl-C."""
    verifier: str = field(default="", metadata=OPTIONAL)
    """Digest of the verifier from now on; empty if not recorded. It gives the same verdicts as the previous one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPaused(EventBase):
    """The campaign pauses: until an operator continues it, no order is issued and no training begins."""

    KIND: ClassVar[str] = "campaign paused"
    VERSION: ClassVar[int] = 2
    by: str
    """An operator, the audit of the verifier, or the change detector."""
    why: str
    """One sentence; empty where an operator paused it."""
    checked: int | None = field(default=None, metadata=OPTIONAL)
    """Labels that the audit compared with successes by the verifier."""
    wrong: int | None = field(default=None, metadata=OPTIONAL)
    """Number of false successes among them."""
    high: float | None = field(default=None, metadata=OPTIONAL)
    """Upper bound of the rate of false successes, in [0, 1]."""
    limit: float | None = field(default=None, metadata=OPTIONAL)
    """The rate that the campaign allows, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignContinued(EventBase):
    """An operator continues a campaign that was paused."""

    KIND: ClassVar[str] = "campaign continued"
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsChanged(EventBase):
    """An operator changes the goal or the budget of the running campaign (`enpire.campaign.limits`)."""

    KIND: ClassVar[str] = "limits changed"
    by: str
    reason: str
    """In the operator's own words; empty for none."""
    limits: Mapping[str, Mapping[str, float]]
    """Section of the campaign file -> key -> its new value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEnded(EventBase):
    """A campaign ends for good."""

    KIND: ClassVar[str] = "campaign ended"
    reached: bool
    """Whether a champion was confirmed at the goal."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDiffers(EventBase):
    """The episode store differs from the ledger: noticed at the start of a session, or while it reads the files."""

    KIND: ClassVar[str] = "store differs"
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRestored(EventBase):
    """An operator put a copy in place of the ledger. Events after `head` are lost."""

    KIND: ClassVar[str] = "ledger restored"
    by: str
    copy: str
    """Name of the copy."""
    head: str
    """Last event of the copy, SEQUENCE:HASH."""
    lost: str
    """Last event of the replaced ledger, SEQUENCE:HASH, as its head file names it; empty where it names none."""


SessionEvent = (
    CampaignStarted
    | CampaignResumed
    | CampaignPaused
    | CampaignContinued
    | LimitsChanged
    | CampaignEnded
    | StoreDiffers
    | LedgerRestored
)
