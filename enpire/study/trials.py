"""The trials of a study, from the ledger's events: what ran in which block, what counts, what is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from enpire.campaign.events import Event
from enpire.campaign.order_events import EpisodeLabelled, OrdersEnded, OrdersIssued
from enpire.campaign.study_events import StudyAmended, StudyOpened
from enpire.codec import episode_of
from enpire.errors import LedgerProblem
from enpire.files import document
from enpire.gate.trials import Pair, Reissues, Side, Trial
from enpire.study.plan import StudyPlan, stored_plan
from enpire.types import JUDGED, Episode, Json, Order, OutcomeKind, never_began

Key = tuple[int, str]
"""(block, name of the arm)."""


@dataclass(slots=True)
class StudyTrials:
    """What has happened in one study.

    Every trial that began counts; one that was aborted or is invalid is a failure of its arm. A trial is repeated from
    the same start if it never began, if its result is unknown because the station fell silent, or if its session or its
    station's process ended; a version that ends stations too often loses the last of these (`Reissues`).
    """

    plan: StudyPlan
    arms: Mapping[str, str]
    """Id of the blind copy -> name of its arm."""
    open: dict[Key, Order] = field(default_factory=dict[Key, Order])
    settled: dict[Key, Episode] = field(default_factory=dict[Key, Episode])
    labels: dict[str, OutcomeKind] = field(default_factory=dict[str, OutcomeKind])
    """Order -> what a person says of it."""
    stations: dict[int, str] = field(default_factory=dict[int, str])
    """Block -> the station of its first trial."""
    repeats: Counter[str] = field(default_factory=Counter[str])
    """Arm -> trials that were repeated."""
    amendments: list[StudyAmended] = field(default_factory=list[StudyAmended])
    opened: list[StudyOpened] = field(default_factory=list[StudyOpened])
    reissues: Reissues = field(default_factory=Reissues)
    _complete: int = 0

    def apply(self, event: Event) -> None:
        """Apply one event of the study's campaign."""
        match event:
            case OrdersIssued():
                for order in event.orders:
                    self._begin(order)
            case OrdersEnded():
                orders = {order.order_id: (key, order) for key, order in self.open.items()}
                for result in event.results:
                    if found := orders.get(result.order_id):
                        self._end(found[0], episode_of(result, found[1]))
            case EpisodeLabelled():
                self.labels.pop(event.order_id, None)
                if event.outcome:
                    self.labels[event.order_id] = event.outcome
                self._complete = 0
            case StudyAmended():
                self.amendments.append(event)
                self.plan = amended(self.plan, event.changes)
            case StudyOpened():
                self.opened.append(event)
            case _:
                pass  # also late results: their trials are repeated already

    def _begin(self, order: Order) -> None:
        if order.policy_id not in self.arms:
            raise LedgerProblem(f"Order {order.order_id} ran a version that is no arm of the study.")
        self.open[order.pair, self.arms[order.policy_id]] = order
        self.stations.setdefault(order.pair, order.station)

    def _end(self, key: Key, episode: Episode) -> None:
        del self.open[key]
        if never_began(episode.outcome, episode.cause):
            return
        if episode.outcome == "unknown" or self.reissues.accept(episode):
            self.repeats[key[1]] += 1
        else:
            self.settled[key] = episode

    def outcome(self, block: int, arm: str) -> OutcomeKind | None:
        """How a trial ended, by the plan's judge; None until that is known."""
        episode = self.settled.get((block, arm))
        if episode is None or self.plan.outcome == "verifier" or episode.outcome not in JUDGED:
            return episode.outcome if episode is not None else None
        return self.labels.get(episode.order.order_id)

    @property
    def complete(self) -> int:
        """Number of complete blocks, up to the first incomplete one: slow failures must not be missed."""
        while self._complete < self.plan.blocks and all(self.outcome(self._complete, arm) for arm in self.plan.arms):
            self._complete += 1
        return min(self._complete, self.plan.blocks)

    def waits_for_label(self) -> list[str]:
        """Orders whose trial needs a person's label, oldest first."""
        if self.plan.outcome == "verifier":
            return []
        return [
            episode.order.order_id for episode in self.settled.values()
            if episode.outcome in JUDGED and episode.order.order_id not in self.labels
        ]  # fmt: skip

    def pairs(self, arm: str) -> list[Pair]:
        """The complete blocks as pairs: the control as champion, the arm as candidate."""
        control = self.plan.reference
        return [
            Pair(
                index=block, champion=self._trial(block, control, "champion"),
                candidate=self._trial(block, arm, "candidate"),
            )
            for block in range(self.complete)
        ]  # fmt: skip

    def _trial(self, block: int, arm: str, side: Side) -> Trial:
        outcome = self.outcome(block, arm)
        assert outcome is not None, "the block is complete"
        return Trial(pair=block, side=side, outcome=outcome, ticks=self.settled[block, arm].ticks)


def amended(plan: StudyPlan, changes: Mapping[str, Json]) -> StudyPlan:
    """The plan with amendments."""
    return stored_plan(document(plan), changes, plan.name)
