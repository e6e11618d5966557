"""When robots begin to act for branches: at once, or after rounds whose gates show no more success."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from enpire.campaign.branch_events import RoundsHandedOver
from enpire.campaign.events import Event
from enpire.campaign.gate_events import GateDecided
from enpire.campaign.quarantine_events import ExperimentQuarantined
from enpire.campaign.session_events import CampaignStarted, LimitsChanged
from enpire.campaign.training_events import LearnerStarted
from enpire.files import whole_number


@dataclass(slots=True)
class HandOver:
    """What the ledger says of the rounds of one campaign, as far as branches wait for them."""

    after: int = 0
    """`BranchPlan.hand_over_after` of the campaign."""
    most_rounds: int = 0
    """Rounds that the budget allows."""
    round: int = 0
    """Rounds begun."""
    waits: bool = False
    """Whether robots do not act for branches yet, because rounds still show more success."""
    without_gain: int = 0
    """Rounds in a row whose candidates were not promoted as better; one that a tripwire holds counts, too."""
    held: set[str] = field(default_factory=set[str])
    """Candidates of rounds that were held and are counted."""

    @property
    def stalled(self) -> bool:
        """Whether so many rounds in a row were without more success that branches take over."""
        return self.without_gain >= self.after

    def apply(self, event: Event, is_of_branch: Callable[[str], bool]) -> None:
        """Apply one event; `is_of_branch` says whether a branch made a version. Other events change nothing."""
        match event:
            case CampaignStarted():
                self.after = whole_number(event.campaign, "branches", "hand_over_after")
                self.most_rounds = whole_number(event.campaign, "budget", "rounds")
                self.waits = self.after > 0
            case LimitsChanged():
                self.most_rounds = int(event.limits.get("budget", {}).get("rounds", self.most_rounds))
            case RoundsHandedOver():
                self.waits = False
            case LearnerStarted() if not event.turn:
                self.round = max(self.round, event.round)
            case GateDecided() if event.decision == "promote" and event.reason == "better":
                self.without_gain = 0  # also where the better version is of a branch
            case GateDecided() if event.candidate not in self.held:
                self.without_gain += not is_of_branch(event.candidate)
            case ExperimentQuarantined() if event.policy_id and event.policy_id not in self.held:
                self.held.add(event.policy_id)
                self.without_gain += not is_of_branch(event.policy_id)
            case _:
                pass
