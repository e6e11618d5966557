"""Rollouts of the collection that end early because a critic predicts failure, and whether it is right."""

from __future__ import annotations

from dataclasses import dataclass, field

from enpire.campaign.counts import Count
from enpire.gate.intervals import lower_bound
from enpire.types import JUDGED, Episode, Order

FALSE_ALARMS = 0.1
"""Largest share of successes among predicted failures; above it, rollouts are no longer stopped early."""


@dataclass(slots=True)
class EarlyStops:
    """Rollouts of the collection with a predicted failure, and the successes among them in the control arm."""

    stopped: int = 0
    """Rollouts that ended early."""
    flagged: Count = field(default_factory=Count)
    """Rollouts of the control arm that would have ended early; successes among them are false alarms."""

    @property
    def refuted(self) -> bool:
        """Whether the 95 % lower bound of the success rate of predicted failures exceeds `FALSE_ALARMS`."""
        return self.flagged.n > 0 and lower_bound(self.flagged.successes, self.flagged.n) > FALSE_ALARMS

    def add(self, order: Order, episode: Episode) -> bool:
        """Count an episode with a predicted failure. Returns whether it was stopped early for it."""
        if order.early_stop is None or episode.predicted_failure_at < 0:
            return False
        if episode.stopped_early:
            self.stopped += 1
            return True
        if not order.early_stop.armed and episode.outcome in JUDGED:
            self.flagged = self.flagged.plus(episode.outcome == "success")
        return False
