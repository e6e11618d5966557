"""Events of stations: a station joins, leaves, holds, or needs an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from enpire.campaign.event_forms import OPTIONAL, EventBase, stored


@dataclass(frozen=True, slots=True, kw_only=True)
class StationJoined(EventBase):
    """A station connects, or connects again under a newer lease."""

    KIND: ClassVar[str] = "station joined"
    station: str
    lanes: int
    """Robots of the station."""
    lease: int
    facts: Mapping[str, str]
    """What the station reports about itself: driver, versions, digest of its verifier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationLeft(EventBase):
    """A station leaves, or its heartbeats stop."""

    KIND: ClassVar[str] = "station left"
    station: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StationHeld(EventBase):
    """A station that joins is stopped or paused again, because an operator's command is still in force."""

    KIND: ClassVar[str] = "station held"
    station: str
    command: str = field(metadata=stored("verb"))
    """stop, pause or service."""
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StationRuns(EventBase):
    """A station reports that it runs another policy version."""

    KIND: ClassVar[str] = "station runs"
    station: str
    policy_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorNeeded(EventBase):
    """An operator should look at a station."""

    KIND: ClassVar[str] = "person needed"
    station: str
    alarm: str
    """One sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRefused(EventBase):
    """A message is refused: its sender is not a station of this campaign, or its content is not valid."""

    KIND: ClassVar[str] = "peer refused"
    peer: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotTime(EventBase):
    """Robot time of this session so far, by phase. Written every few seconds."""

    KIND: ClassVar[str] = "robot time"
    stations: Mapping[str, Mapping[str, float]]
    """Station -> phase -> seconds, mean over the station's lanes."""
    wall_s: float
    """Seconds since the session began, by the orchestrator's monotonic clock."""
    robot_s: float
    """Seconds in which stations were present, times their lanes."""
    period_s: float = field(default=0.0, metadata=OPTIONAL)
    """Seconds of robot time in one tick of an episode; 0 where an earlier version did not record it."""


StationEvent = StationJoined | StationLeft | StationHeld | StationRuns | OperatorNeeded | PeerRefused | RobotTime
