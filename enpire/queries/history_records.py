"""Records of a campaign's history: gates, training runs, confirmations and stations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from enpire.campaign.gate_events import Confirmed, GateDecided, GateOpened
from enpire.campaign.training_events import LearnerEnded, LearnerStarted


@dataclass(slots=True)
class GateRecord:
    """One gate: its opening and its decision."""

    opened: GateOpened
    decided: GateDecided | None = None
    dropped: str = ""
    """Why it ended without a decision; empty for an open or a decided gate."""
    opened_s: float = 0.0
    decided_s: float = 0.0


@dataclass(slots=True)
class LearnerRecord:
    """One training run."""

    started: LearnerStarted
    began_s: float
    seq: int = 0
    """Number of the event that started it."""
    ended: LearnerEnded | None = None
    failed: str = ""


@dataclass(slots=True)
class ConfirmRecord:
    """One confirmation."""

    policy_id: str
    n: int
    """Starts that were announced."""
    ended: Confirmed | None = None
    """None while it runs."""
    ended_s: float = 0.0


@dataclass(slots=True)
class StationRecord:
    """One station: its lanes, lease, presence and facts, and its time by phase."""

    lanes: int = 0
    lease: int = 0
    present: bool = False
    cause: str = ""
    """Why it left."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    earlier_s: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds by phase in the sessions before this one."""
    session_s: dict[str, float] = field(default_factory=dict[str, float])

    def seconds(self) -> dict[str, float]:
        """Seconds by phase over all sessions."""
        return {
            phase: self.earlier_s.get(phase, 0.0) + self.session_s.get(phase, 0.0)
            for phase in {**self.earlier_s, **self.session_s}
        }
