"""Which experiments and versions are in quarantine, computed from the campaign's events alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from enpire.campaign.agent_events import ExperimentSubmitted
from enpire.campaign.events import Event, kinds_of
from enpire.campaign.quarantine_events import (
    APPROVALS,
    EpisodeSuspected,
    ExperimentCleared,
    ExperimentQuarantined,
    LaneSuspected,
    QuarantineEvent,
    Tripwire,
)
from enpire.campaign.training_events import LearnerEnded, LearnerStarted
from enpire.gate.intervals import lower_bound

ENOUGH, USUAL = 3, 0.05
"""A subject is held when a tripwire suspects at least ENOUGH of its successes, and more than USUAL of them by the 95 %
lower bound of their share: a few may be faults of sensors, or unlike the known ones by chance."""
KINDS = kinds_of(QuarantineEvent, ExperimentSubmitted, LearnerStarted, LearnerEnded)
"""Kinds of events that change a quarantine."""


@dataclass(slots=True)
class Quarantine:
    """The subjects in quarantine. A subject is an experiment, or a version that no experiment made."""

    held: dict[str, list[ExperimentQuarantined]] = field(default_factory=dict[str, list[ExperimentQuarantined]])
    """Subject -> why it is held, oldest first."""
    cleared: dict[str, ExperimentCleared] = field(default_factory=dict[str, ExperimentCleared])
    """Subject -> the last time that a person cleared it."""
    tripped: dict[tuple[str, Tripwire], int] = field(default_factory=dict[tuple[str, Tripwire], int])
    """(subject, tripwire) -> number of the last event that holds the subject by this tripwire."""
    suspected: dict[tuple[str, Tripwire], list[EpisodeSuspected]] = field(
        default_factory=dict[tuple[str, Tripwire], list[EpisodeSuspected]]
    )
    """(subject, tripwire) -> suspected successes, of tripwires that no person cleared the subject of."""
    makers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Version -> the experiments whose training made it."""
    parents: dict[str, str] = field(default_factory=dict[str, str])
    """Experiment -> the one that it continues."""
    lanes: dict[str, str] = field(default_factory=dict[str, str])
    """Experiment -> the agent session that submitted it."""
    suspects: dict[tuple[str, Tripwire], LaneSuspected] = field(
        default_factory=dict[tuple[str, Tripwire], LaneSuspected]
    )
    """(agent session, tripwire) -> why its experiments are held, until a person clears one of them."""
    _jobs: dict[str, str] = field(default_factory=dict[str, str])
    _accepted: set[tuple[str, Tripwire]] = field(default_factory=set[tuple[str, Tripwire]])

    def apply(self, event: Event, seq: int = 0) -> None:
        """Apply one event, with its number in the ledger; events of other kinds change nothing."""
        match event:
            case ExperimentSubmitted():
                self.lanes[event.experiment_id] = event.lane
                if event.parent_experiment:
                    self.parents[event.experiment_id] = event.parent_experiment
            case LearnerStarted():
                if event.experiment_id:
                    self._jobs[event.job] = event.experiment_id
            case LearnerEnded():
                self._made(event)
            case LaneSuspected():
                self.suspects.setdefault((event.lane, event.tripwire), event)
            case EpisodeSuspected():
                self.suspected.setdefault((event.subject, event.tripwire), []).append(event)
            case ExperimentQuarantined():
                self.held.setdefault(event.subject, []).append(event)
                self.tripped[event.subject, event.tripwire] = seq
            case ExperimentCleared():
                self._clear(event)
            case _:
                pass

    def why(self, policy_id: str) -> str:
        """Why a version is held, as a sentence; empty if it is free."""
        subject = next((one for one in (policy_id, *self.makers.get(policy_id, ())) if one in self.held), "")
        if not subject:
            return ""
        last = self.held[subject][-1]
        return f"version {policy_id[:12]} is in quarantine ({last.tripwire}: {last.why.rstrip('.')})"

    def holds(self, policy_id: str) -> bool:
        """Whether a version is in quarantine, by itself or by an experiment that made it."""
        return policy_id in self.held or any(one in self.held for one in self.makers.get(policy_id, ()))

    def subject_of(self, policy_id: str) -> tuple[str, str]:
        """(experiment, version) under which a version is held: its newest experiment, empty for a round's candidate."""
        makers = self.makers.get(policy_id, ())
        return (makers[-1] if makers else "", policy_id)

    def may_trip(self, subject: str, tripwire: Tripwire) -> bool:
        """Whether a tripwire may hold a subject: it does not hold it now, and no person cleared it of that."""
        tripped = {event.tripwire for event in self.held.get(subject, ())}
        return tripwire not in tripped and (subject, tripwire) not in self._accepted

    def waits(self, subject: str) -> bool:
        """Whether what holds a subject last is that it waits for an approval."""
        return subject in self.held and self.held[subject][-1].tripwire in APPROVALS

    def by_now(self, subject: str, seen: int) -> tuple[Sequence[Tripwire], Sequence[Tripwire]]:
        """The tripwires that hold a subject: those that tripped until event `seen`, and the later ones."""
        known: list[Tripwire] = []
        later: list[Tripwire] = []
        for event in self.held.get(subject, ()):
            ends = known if self.tripped[subject, event.tripwire] <= seen else later
            if event.tripwire not in ends:
                ends.append(event.tripwire)
        return known, later

    def of_lane(self, lane: str, experiment_id: str) -> Sequence[ExperimentQuarantined]:
        """The quarantines of an experiment that what its agent session did demands and that are not written yet."""
        return [
            ExperimentQuarantined(experiment_id=experiment_id, policy_id="", tripwire=event.tripwire, why=event.why)
            for (suspect, tripwire), event in self.suspects.items()
            if suspect == lane and self.may_trip(experiment_id, tripwire)
        ]

    def was_cleared(self, experiment_id: str, tripwire: Tripwire) -> bool:
        """Whether a person cleared an experiment of a tripwire, and it is free now."""
        return experiment_id not in self.held and (experiment_id, tripwire) in self._accepted

    def due(self) -> Sequence[ExperimentQuarantined]:
        """The quarantines that the suspected successes demand and that are not written yet."""
        found: list[ExperimentQuarantined] = []
        for (subject, tripwire), events in self.suspected.items():
            last, n = events[-1], len(events)
            if n >= ENOUGH and self.may_trip(subject, tripwire) and lower_bound(n, max(n, last.successes)) > USUAL:
                found.append(
                    ExperimentQuarantined(
                        experiment_id=last.experiment_id, policy_id=last.policy_id, tripwire=tripwire,
                        why=f"{n} of {max(n, last.successes)} successes are not believed; the last: {last.why}",
                        episodes=tuple(event.order_id for event in events),
                    )
                )  # fmt: skip
        return found

    def _made(self, event: LearnerEnded) -> None:
        maker = self._jobs.pop(event.job, "")
        makers = self.makers.setdefault(event.policy_id, [])
        if maker and maker not in makers:
            makers.append(maker)

    def _clear(self, event: ExperimentCleared) -> None:
        left = [one for one in self.held.pop(event.subject, []) if one.tripwire in event.still]
        if left:
            self.held[event.subject] = left
        self.cleared[event.subject] = event
        self._accepted |= {(event.subject, tripwire) for tripwire in event.tripwires if tripwire != "operator"}
        for tripwire in event.tripwires:
            self.suspected.pop((event.subject, tripwire), None)  # no person has looked at those of other tripwires
            self.suspects.pop((self.lanes.get(event.subject, ""), tripwire), None)
