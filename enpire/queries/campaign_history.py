"""The history of one campaign, computed from its events. The orders table counts orders and episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

from enpire.campaign import experiments
from enpire.campaign.agent_events import (
    AgentStarted,
    ConclusionPosted,
    ExperimentEvent,
    ExperimentSubmitted,
    HypothesisProposed,
    ModelCalled,
    TokensSpent,
)
from enpire.campaign.branch_events import BranchDecision, BranchEnded, BranchEnteredGate, BranchEvent
from enpire.campaign.branches import Branches
from enpire.campaign.events import Event, LedgerEntry, kinds_of
from enpire.campaign.gate_events import (
    BaseMeasured,
    ConfirmationOpened,
    Confirmed,
    Deployed,
    GateDecided,
    GateEvent,
    GateOpened,
    RolledBack,
)
from enpire.campaign.limits import Limits, merged
from enpire.campaign.order_events import EpisodeRefused
from enpire.campaign.quarantine_events import ExperimentCleared, ExperimentQuarantined
from enpire.campaign.session_events import (
    CampaignContinued,
    CampaignEnded,
    CampaignPaused,
    CampaignResumed,
    CampaignStarted,
    LedgerRestored,
    LimitsChanged,
    SessionEvent,
    StoreDiffers,
)
from enpire.campaign.station_events import (
    OperatorNeeded,
    PeerRefused,
    RobotTime,
    StationEvent,
    StationHeld,
    StationJoined,
    StationLeft,
    StationRuns,
)
from enpire.campaign.training_events import (
    LearnerEnded,
    LearnerFailed,
    LearnerKilled,
    LearnerStarted,
    TrainingEvent,
    VersionImported,
    VersionMade,
)
from enpire.queries.history_records import ConfirmRecord, GateRecord, LearnerRecord, StationRecord
from enpire.queries.model_spending import Spendings
from enpire.queries.quarantines import Quarantines
from enpire.types import Json

MARKS = kinds_of(CampaignStarted, CampaignResumed, CampaignPaused, CampaignContinued, CampaignEnded)
"""The kinds that give the state of a campaign."""
KINDS = (
    *MARKS,
    *kinds_of(
        LimitsChanged,
        StationJoined,
        StationLeft,
        RobotTime,
        EpisodeRefused,
        LearnerStarted,
        LearnerEnded,
        LearnerFailed,
    ),
    *kinds_of(VersionMade, VersionImported, GateEvent, ExperimentEvent, BranchEvent, ConclusionPosted, TokensSpent),
    *kinds_of(ModelCalled, AgentStarted, ExperimentQuarantined, ExperimentCleared),
)
"""The kinds that a history reads. Events of orders and episodes are left out because there are many of them."""

LONGEST_S = 10.0
"""Most seconds that count between two events after the orchestrator has reported its clock; a longer step is a jump of
the wall clock."""


@dataclass(slots=True)
class History:
    """The history of one campaign. `elapsed_s` excludes the time in which no orchestrator ran."""

    campaign_id: str
    started: CampaignStarted | None = None
    """None before its first event was applied."""
    began_ns: int = 0
    last_ns: int = 0
    elapsed_s: float = 0.0
    sessions: int = 0
    earlier_wall_s: float = 0.0
    session_wall_s: float = 0.0
    earlier_robot_s: float = 0.0
    session_robot_s: float = 0.0
    period_s: float = 0.0
    """Seconds of one tick; 0 where an earlier version did not record it."""
    limits: Limits = field(default_factory=dict[str, Mapping[str, float]])
    """Goal and budget as operators changed them."""
    paused: bool = False
    paused_why: str = ""
    ended: CampaignEnded | None = None
    goal_s: float | None = None
    """Elapsed seconds when a confirmation first passed."""
    goal_robot_s: float | None = None
    goal_tokens: int | None = None
    champions: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """(elapsed seconds, version) of every deployment and rollback."""
    rolled_back: dict[str, str] = field(default_factory=dict[str, str])
    """Version that was rolled back and not deployed again -> why."""
    base: BaseMeasured | None = None
    versions: dict[str, VersionMade] = field(default_factory=dict[str, VersionMade])
    origins: dict[str, VersionImported] = field(default_factory=dict[str, VersionImported])
    made_s: dict[str, float] = field(default_factory=dict[str, float])
    gates: dict[str, GateRecord] = field(default_factory=dict[str, GateRecord])
    learners: dict[str, LearnerRecord] = field(default_factory=dict[str, LearnerRecord])
    confirms: list[ConfirmRecord] = field(default_factory=list[ConfirmRecord])
    stations: dict[str, StationRecord] = field(default_factory=dict[str, StationRecord])
    refused: int = 0
    proposals: experiments.Proposals = field(default_factory=experiments.Proposals)
    """Hypotheses and experiments of agents."""
    branches: Branches = field(default_factory=Branches)
    """Branches, without their search rollouts (`enpire.queries.branches` adds them)."""
    measured: dict[str, tuple[int, BranchDecision]] = field(default_factory=dict[str, tuple[int, BranchDecision]])
    """experiment -> number of the event that decided its branch, and this event."""
    proposed_s: dict[str, float] = field(default_factory=dict[str, float])
    """hypothesis -> elapsed seconds when it was proposed."""
    tokens: dict[str, int] = field(default_factory=lambda: {"fresh": 0, "cached": 0, "output": 0})
    """All tokens of language models; what was written into a cache counts as fresh."""
    spendings: Spendings = field(default_factory=Spendings)
    quarantines: Quarantines = field(default_factory=lambda: Quarantines([]))

    @property
    def name(self) -> str:
        """The campaign's name; empty before its first event was applied."""
        return self.started.name if self.started else ""

    @property
    def task(self) -> str:
        """The campaign's task; empty before its first event was applied."""
        return self.started.task if self.started else ""

    @property
    def goal(self) -> float:
        """The success rate to reach, in [0, 1]; 0 before the campaign's first event was applied."""
        return float(self._goal("success"))

    @property
    def goal_by(self) -> Literal["rate", "bound"]:
        """Figure that must reach the goal: the measured rate or its lower bound."""
        return "bound" if self.started and self.started.goal.get("by") == "bound" else "rate"

    @property
    def confirm_starts(self) -> int:
        """Number of starts of a confirmation; 0 before the campaign's first event was applied."""
        return int(self.started.goal.get("confirm_starts", 0)) if self.started else 0

    @property
    def goal_commands(self) -> int:
        """Largest allowed median number of commands of a confirmation's successes; 0: no limit."""
        return int(self._goal("commands"))

    @property
    def limit_ticks(self) -> int:
        """Time limit of the task; 0 where the campaign's first event did not record it."""
        return self.started.limit_ticks if self.started else 0

    def _goal(self, key: str) -> float | str:
        begun = self.started.goal.get(key, 0) if self.started else 0
        return self.limits.get("goal", {}).get(key, begun)

    def section(self, name: str) -> Mapping[str, Json]:
        """One section of the campaign file of the campaign's start with later changes; empty without this section."""
        written = self.started.campaign.get(name) if self.started else None
        return {**written, **self.limits.get(name, {})} if isinstance(written, Mapping) else {}

    @property
    def champion(self) -> str:
        """The version that stations run; empty before the first deployment."""
        return self.champions[-1][1] if self.champions else ""

    @property
    def wall_s(self) -> float:
        """Wall-clock seconds over all sessions by the orchestrator's clock; by time stamps before its first report."""
        return self.earlier_wall_s + self.session_wall_s or self.elapsed_s

    def apply(self, entry: LedgerEntry) -> None:
        """Apply one event. The time before a resume does not count, because no orchestrator ran.

        The wall clock gives the time between two events, but it may jump. The orchestrator's own clock cannot jump. It
        is reported every few seconds and corrects the sum.
        """
        event = entry.event
        if self.last_ns and not isinstance(event, CampaignResumed):
            step_s = max(0, entry.stamp_ns - self.last_ns) * 1e-9
            self.elapsed_s += min(step_s, LONGEST_S) if self.earlier_wall_s + self.session_wall_s else step_s
        self.last_ns = entry.stamp_ns
        self.proposals.apply(event)
        self.branches.apply(event)
        if isinstance(event, SessionEvent):
            self._apply_session(event)
        elif isinstance(event, StationEvent):
            self._apply_station(event)
        elif isinstance(event, TrainingEvent):
            self._apply_training(event, entry.seq)
        elif isinstance(event, GateEvent):
            self._apply_gate(event)
        else:
            self._apply_other(event, entry.seq)

    def robot_s(self) -> float:
        """Robot seconds: time in all phases, summed over all lanes of the stations that were present."""
        return self.earlier_robot_s + self.session_robot_s

    def _apply_other(self, event: Event, seq: int) -> None:
        match event:
            case BranchEnteredGate() | BranchEnded():
                self.measured[event.experiment_id] = (seq, event)
            case EpisodeRefused():
                self.refused += 1
            case ExperimentQuarantined() | ExperimentCleared():
                self._quarantine(event)
            case HypothesisProposed():
                self.proposed_s[event.hypothesis.hypothesis_id] = self.elapsed_s
            case TokensSpent() | ModelCalled() | AgentStarted() | ExperimentSubmitted():
                self.spendings.apply(event)
                self._count_tokens(event)
            case _:
                pass

    def _quarantine(self, event: ExperimentQuarantined | ExperimentCleared) -> None:
        self.quarantines.apply(event, self.elapsed_s)
        if isinstance(event, ExperimentQuarantined):
            made = self.branches.by_experiment.get(event.experiment_id)
            held = {event.policy_id, *(made.versions if made else ())}
            open_gates = [one for one in self.gates.values() if one.opened.candidate in held]
            self._drop_gates(f"the candidate is in quarantine ({event.tripwire})", open_gates)

    def _count_tokens(self, event: TokensSpent | ModelCalled | AgentStarted | ExperimentSubmitted) -> None:
        """Add to the sums; what agents report beside the model gateway's count is in `spendings` only."""
        if isinstance(event, ModelCalled):
            spent = (event.fresh + event.cache_write, event.cache_read, event.output)
        elif isinstance(event, TokensSpent) and not event.self_reported:
            spent = (event.fresh, event.cached, event.output)
        else:
            return
        for name, tokens in zip(("fresh", "cached", "output"), spent, strict=True):
            self.tokens[name] += tokens

    def _apply_session(self, event: SessionEvent) -> None:
        match event:
            case CampaignStarted():
                self.started, self.began_ns, self.sessions = event, self.last_ns, 1
            case CampaignResumed():
                self._resume()
            case CampaignPaused():
                self.paused, self.paused_why = True, event.why or self.paused_why
            case CampaignContinued():
                self.paused, self.paused_why = False, ""
            case CampaignEnded():
                self.ended = event
            case LimitsChanged():
                self.limits = merged(self.limits, event.limits)
            case StoreDiffers() | LedgerRestored():
                pass
            case _:
                assert_never(event)

    def _resume(self) -> None:
        self.sessions += 1
        self.ended = None
        self.earlier_wall_s, self.session_wall_s = self.earlier_wall_s + self.session_wall_s, 0.0
        self.earlier_robot_s, self.session_robot_s = self.earlier_robot_s + self.session_robot_s, 0.0
        for station in self.stations.values():
            station.earlier_s, station.session_s = station.seconds(), {}
            station.present = False

    def _apply_station(self, event: StationEvent) -> None:
        match event:
            case StationJoined():
                station = self.stations.setdefault(event.station, StationRecord())
                station.lanes, station.lease = event.lanes, event.lease
                station.present, station.cause, station.facts = True, "", event.facts
            case StationLeft():
                station = self.stations.setdefault(event.station, StationRecord())
                station.present, station.cause = False, event.cause
            case RobotTime():
                self.session_wall_s, self.session_robot_s = event.wall_s, event.robot_s
                self.period_s = event.period_s or self.period_s
                self.elapsed_s = self.wall_s
                for name, seconds in event.stations.items():
                    self.stations.setdefault(name, StationRecord()).session_s = dict(seconds)
            case StationHeld() | StationRuns() | OperatorNeeded() | PeerRefused():
                pass
            case _:
                assert_never(event)

    def _apply_training(self, event: TrainingEvent, seq: int) -> None:
        match event:
            case LearnerStarted():
                self.learners[event.job] = LearnerRecord(started=event, began_s=self.elapsed_s, seq=seq)
            case LearnerEnded():
                if record := self.learners.get(event.job):
                    record.ended = event
            case LearnerFailed():
                if record := self.learners.get(event.job):
                    record.failed = event.why
            case VersionMade():
                self.versions[event.policy_id] = event
                self.made_s.setdefault(event.policy_id, self.elapsed_s)
            case VersionImported():
                self.origins[event.policy_id] = event
                self.versions[event.policy_id] = VersionMade(
                    policy_id=event.policy_id, policy_kind=event.policy_kind, parent="", recipe_hash="", data_hash="",
                    round=0,
                )  # fmt: skip
                self.made_s.setdefault(event.policy_id, self.elapsed_s)
            case LearnerKilled():
                pass
            case _:
                assert_never(event)

    def _apply_gate(self, event: GateEvent) -> None:
        match event:
            case BaseMeasured():
                self.base = event
            case GateOpened():
                self.gates[event.gate_id] = GateRecord(opened=event, opened_s=self.elapsed_s)
            case GateDecided():
                if record := self.gates.get(event.gate_id):
                    record.decided, record.decided_s = event, self.elapsed_s
            case Deployed():
                self.champions.append((self.elapsed_s, event.policy_id))
                self.rolled_back.pop(event.policy_id, None)
                self._drop_gates(f"{event.policy_id[:12]} was promoted: {event.reason}")
            case RolledBack():
                self.champions.append((self.elapsed_s, event.to))
                self.rolled_back[event.policy_id] = event.reason
                self.rolled_back.pop(event.to, None)
                self._drop_gates(f"rolled back to {event.to[:12]}: {event.reason}")
            case ConfirmationOpened():
                self.confirms.append(ConfirmRecord(policy_id=event.policy_id, n=event.n))
            case Confirmed():
                self._confirm(event)
            case _:
                assert_never(event)

    def _drop_gates(self, why: str, gates: Iterable[GateRecord] | None = None) -> None:
        """End open gates, all if none are named, without a decision."""
        for record in self.gates.values() if gates is None else gates:
            if record.decided is None and not record.dropped:
                record.dropped, record.decided_s = why, self.elapsed_s

    def _confirm(self, event: Confirmed) -> None:
        if not self.confirms or self.confirms[-1].ended is not None:
            self.confirms.append(ConfirmRecord(policy_id=event.policy_id, n=event.n))
        self.confirms[-1].ended, self.confirms[-1].ended_s = event, self.elapsed_s
        if event.passed and self.goal_s is None:
            self.goal_s, self.goal_robot_s = self.elapsed_s, self.robot_s()
            self.goal_tokens = sum(self.tokens.values())
