"""A campaign as people ask about it, folded from its events; orders and episodes are counted by the ledger's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, cast

from enpire.campaign import experiments
from enpire.types import Event

KINDS = (
    "campaign started", "campaign resumed", "campaign paused", "campaign continued", "campaign ended",
    "station joined", "station left", "episode refused", "learner started", "learner ended", "learner failed",
    "version made", "base measured", "gate opened", "gate decided", "deployed", "rolled back", "confirm opened",
    "confirmed", "robot time", "tokens spent",
    *(kind for kind in experiments.KINDS if kind.startswith(("hypothesis", "experiment", "finding"))),
)  # fmt: skip

LONGEST_S = 10.0
"""Once the orchestrator has reported its clock, more seconds between two events are a jump of the wall clock."""


@dataclass(slots=True)
class GateRecord:
    """One gate: how it was opened, how it was decided."""

    opened: Mapping[str, object]
    decided: Mapping[str, object] | None = None
    opened_s: float = 0.0
    decided_s: float = 0.0


@dataclass(slots=True)
class LearnerRecord:
    """One training run."""

    started: Mapping[str, object]
    began_s: float
    ended: Mapping[str, object] | None = None
    failed: str = ""


@dataclass(slots=True)
class ConfirmRecord:
    """One confirmation; `ended` is None while it is going on."""

    opened: Mapping[str, object]
    ended: Mapping[str, object] | None = None
    ended_s: float = 0.0


@dataclass(slots=True)
class StationRecord:
    """One station: who it is, and its time by phase."""

    lanes: int = 0
    lease: int = 0
    present: bool = False
    cause: str = ""
    """Why it left."""
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    earlier_s: dict[str, float] = field(default_factory=dict[str, float])
    """Time by phase in the sessions before this one."""
    session_s: dict[str, float] = field(default_factory=dict[str, float])

    def seconds(self) -> dict[str, float]:
        """Time by phase over all sessions."""
        return {
            phase: self.earlier_s.get(phase, 0.0) + self.session_s.get(phase, 0.0)
            for phase in {**self.earlier_s, **self.session_s}
        }


@dataclass(slots=True)
class History:
    """What happened in one campaign. `elapsed_s` leaves out the time in which no orchestrator ran."""

    campaign_id: str
    started: Mapping[str, object] = field(default_factory=dict[str, object])
    began_ns: int = 0
    last_ns: int = 0
    elapsed_s: float = 0.0
    sessions: int = 0
    earlier_wall_s: float = 0.0
    session_wall_s: float = 0.0
    earlier_robot_s: float = 0.0
    session_robot_s: float = 0.0
    paused: bool = False
    paused_why: str = ""
    ended: Mapping[str, object] | None = None
    goal_s: float | None = None
    """When a confirmation first passed."""
    goal_robot_s: float | None = None
    goal_tokens: int | None = None
    champions: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """(elapsed seconds, version) of every deployment and rollback."""
    base: Mapping[str, object] | None = None
    versions: dict[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    made_s: dict[str, float] = field(default_factory=dict[str, float])
    gates: dict[str, GateRecord] = field(default_factory=dict[str, GateRecord])
    learners: dict[str, LearnerRecord] = field(default_factory=dict[str, LearnerRecord])
    confirms: list[ConfirmRecord] = field(default_factory=list[ConfirmRecord])
    stations: dict[str, StationRecord] = field(default_factory=dict[str, StationRecord])
    refused: int = 0
    ideas: experiments.Ideas = field(default_factory=experiments.Ideas)
    """What agents proposed."""
    proposed_s: dict[str, float] = field(default_factory=dict[str, float])
    """hypothesis -> elapsed seconds when it was proposed."""
    tokens: dict[str, int] = field(default_factory=lambda: {"fresh": 0, "cached": 0, "output": 0})

    @property
    def champion(self) -> str:
        """The version that stations run; empty before the first deployment."""
        return self.champions[-1][1] if self.champions else ""

    @property
    def wall_s(self) -> float:
        """Wall clock over all sessions, as the orchestrator measured it; from the time stamps before it said so."""
        return self.earlier_wall_s + self.session_wall_s or self.elapsed_s

    def apply(self, event: Event) -> None:
        """Fold one event in. The time until a resume is nobody's.

        Between two events the wall clock says how long it took, but it may jump: the orchestrator's own clock, which
        cannot, is reported every few seconds and corrects it.
        """
        if self.last_ns and event.kind != "campaign resumed":
            step_s = max(0, event.stamp_ns - self.last_ns) * 1e-9
            self.elapsed_s += min(step_s, LONGEST_S) if self.earlier_wall_s + self.session_wall_s else step_s
        self.last_ns = event.stamp_ns
        handler = self.HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event.body)
        self.ideas.apply(event.kind, event.body)

    def robot_s(self) -> float:
        """Robot seconds: time of every lane of every station that was there, whatever it did."""
        return self.earlier_robot_s + self.session_robot_s

    # One method per kind of event.

    def _started(self, body: Mapping[str, object]) -> None:
        self.started, self.began_ns, self.sessions = body, self.last_ns, 1

    def _resumed(self, body: Mapping[str, object]) -> None:
        self.sessions += 1
        self.ended = None
        self.earlier_wall_s, self.session_wall_s = self.earlier_wall_s + self.session_wall_s, 0.0
        self.earlier_robot_s, self.session_robot_s = self.earlier_robot_s + self.session_robot_s, 0.0
        for station in self.stations.values():
            station.earlier_s, station.session_s = station.seconds(), {}
            station.present = False

    def _paused(self, body: Mapping[str, object]) -> None:
        self.paused, self.paused_why = True, text(body, "why")

    def _continued(self, body: Mapping[str, object]) -> None:
        self.paused, self.paused_why = False, ""

    def _ended(self, body: Mapping[str, object]) -> None:
        self.ended = body

    def _joined(self, body: Mapping[str, object]) -> None:
        station = self.stations.setdefault(text(body, "station"), StationRecord())
        station.lanes, station.lease = int(number(body, "lanes")), int(number(body, "lease"))
        station.present, station.cause, station.facts = True, "", mapping(body, "facts")

    def _left(self, body: Mapping[str, object]) -> None:
        station = self.stations.setdefault(text(body, "station"), StationRecord())
        station.present, station.cause = False, text(body, "cause")

    def _refused(self, body: Mapping[str, object]) -> None:
        self.refused += 1

    def _learning(self, body: Mapping[str, object]) -> None:
        self.learners[text(body, "job")] = LearnerRecord(started=body, began_s=self.elapsed_s)

    def _learned(self, body: Mapping[str, object]) -> None:
        if record := self.learners.get(text(body, "job")):
            record.ended = body

    def _not_learned(self, body: Mapping[str, object]) -> None:
        if record := self.learners.get(text(body, "job")):
            record.failed = text(body, "why")

    def _made(self, body: Mapping[str, object]) -> None:
        self.versions[text(body, "policy_id")] = body
        self.made_s.setdefault(text(body, "policy_id"), self.elapsed_s)

    def _base_measured(self, body: Mapping[str, object]) -> None:
        self.base = body

    def _gate_opened(self, body: Mapping[str, object]) -> None:
        self.gates[text(body, "gate_id")] = GateRecord(opened=body, opened_s=self.elapsed_s)

    def _gate_decided(self, body: Mapping[str, object]) -> None:
        if record := self.gates.get(text(body, "gate_id")):
            record.decided, record.decided_s = body, self.elapsed_s

    def _deployed(self, body: Mapping[str, object]) -> None:
        self.champions.append((self.elapsed_s, text(body, "policy_id")))

    def _rolled_back(self, body: Mapping[str, object]) -> None:
        self.champions.append((self.elapsed_s, text(body, "to")))

    def _confirming(self, body: Mapping[str, object]) -> None:
        self.confirms.append(ConfirmRecord(opened=body))

    def _confirmed(self, body: Mapping[str, object]) -> None:
        if not self.confirms or self.confirms[-1].ended is not None:
            self.confirms.append(ConfirmRecord(opened=body))
        self.confirms[-1].ended, self.confirms[-1].ended_s = body, self.elapsed_s
        if body.get("passed") and self.goal_s is None:
            self.goal_s, self.goal_robot_s = self.elapsed_s, self.robot_s()
            self.goal_tokens = sum(self.tokens.values())

    def _robot_time(self, body: Mapping[str, object]) -> None:
        self.session_wall_s, self.session_robot_s = number(body, "wall_s"), number(body, "robot_s")
        self.elapsed_s = self.wall_s
        for name, seconds in mapping(body, "stations").items():
            station = self.stations.setdefault(name, StationRecord())
            station.session_s = {
                phase: float(cast("float", value)) for phase, value in cast("Mapping[str, object]", seconds).items()
            }

    def _proposed(self, body: Mapping[str, object]) -> None:
        self.proposed_s[text(mapping(body, "hypothesis"), "hypothesis_id")] = self.elapsed_s

    def _tokens(self, body: Mapping[str, object]) -> None:
        for sort in self.tokens:
            self.tokens[sort] += int(number(body, sort))

    HANDLERS: ClassVar[Mapping[str, Callable[..., None]]] = {
        "campaign started": _started,
        "campaign resumed": _resumed,
        "campaign paused": _paused,
        "campaign continued": _continued,
        "campaign ended": _ended,
        "station joined": _joined,
        "station left": _left,
        "episode refused": _refused,
        "learner started": _learning,
        "learner ended": _learned,
        "learner failed": _not_learned,
        "version made": _made,
        "base measured": _base_measured,
        "gate opened": _gate_opened,
        "gate decided": _gate_decided,
        "deployed": _deployed,
        "rolled back": _rolled_back,
        "confirm opened": _confirming,
        "confirmed": _confirmed,
        "robot time": _robot_time,
        "hypothesis proposed": _proposed,
        "tokens spent": _tokens,
    }
    """kind of event -> the method that folds it in."""


def text(body: Mapping[str, object], key: str) -> str:
    """A text field of an event; empty where an older event lacks it."""
    return str(body.get(key, ""))


def number(body: Mapping[str, object], key: str) -> float:
    """A number of an event; 0 where an older event lacks it."""
    value = body.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def mapping(body: Mapping[str, object], key: str) -> Mapping[str, object]:
    """A mapping of an event; empty where an older event lacks it."""
    value = body.get(key)
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
