"""A running lab at one instant: one immutable object for the terminal, the page and the live file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from enpire.types import Interval, Phase

LETTERS: Mapping[str, str] = {
    "success": "s", "failure": "f", "unsafe": "u", "aborted": "a", "invalid": "i", "unknown": "?",
}  # fmt: skip
"""Outcome -> its letter in `StationLine.verdicts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensed:
    """One number of the newest state of a robot."""

    name: str
    unit: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StationLine:
    """One station."""

    name: str
    phase: Phase
    """The phase of most of its lanes."""
    lanes: int = 1
    episodes: int = 0
    """Episodes that ended on it in this campaign."""
    episodes_per_min: float = 0.0
    """Mean over this session."""
    verdicts: str = ""
    """Its last outcomes, oldest first, one letter of LETTERS each."""
    deployed: str = ""
    """Id of the policy version that it runs, as it reports."""
    paused: bool = False
    stopped: bool = False
    alarm: str = ""
    """One sentence where it needs an operator; else empty."""
    cameras: tuple[str, ...] = ()
    """Cameras of its task."""
    stopped_by: str = ""
    """Who requested the stop that holds it; empty without one."""
    stopped_itself: bool = False
    """Whether the robot holds a stop by itself: its button, or its guard."""
    rate_hz: float = 0.0
    """Control periods per second; 0 where it is not known, or the simulation has no rate."""
    jitter_ms: float = 0.0
    """95th percentile of how far the length of a control period differs from the task's."""
    sensed: tuple[Sensed, ...] = ()
    """Newest state of its first robot."""
    service_by: str = ""
    """Who marked it as needing service; empty if it needs none."""
    service_why: str = ""
    motions: tuple[str, ...] = ()
    """What its idle robots can be commanded to do: `reset`, `home`."""
    moved_by: str = ""
    """What commands its first robot now: a policy version, `scripted:expert`, operator, reset, home; empty: nothing."""
    viability: float | None = None
    """p_v of the supervised rollout of its first robot, in [0, 1]; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLine:
    """Success in one round: of the data collection on training starts (`collect`), or of a champion on hidden ones."""

    round: int
    """Of `hidden`: the round in which the version was first deployed."""
    purpose: str
    """`collect`, or `hidden` with all trials of the version pooled."""
    interval: Interval
    id: str = ""
    """The version of `hidden`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerLine:
    """The progress of the training run."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """One open gate."""

    id: str = ""
    k: int = 0
    """Number of the gate in its campaign, from 1."""
    candidate: str = ""
    pairs: int
    max_pairs: int
    wins: int
    """Pairs in which only the candidate succeeded."""
    losses: int
    """Pairs in which only the champion succeeded."""
    log_e: float
    """Log evidence that the candidate is better, in nats."""
    need: float
    """Threshold of the log evidence for a promotion, in nats."""
    more: int | None = None
    """Estimated number of further pairs until a decision; None while there is no estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotUse:
    """What the robots did in this session."""

    mru: float | None = None
    """Mean robot utilisation, in [0, 1]; None in the first second, as the others."""
    motion: float | None = None
    """Share of the time in motion, in [0, 1]; None where no station reports its waits."""
    real_time_factor: float | None = None
    """Seconds of robot time in one second of a rollout; None before the first rollout ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSnapshot:
    """The lab at one instant. Immutable, so any thread may read it."""

    campaign_id: str = ""
    campaign_name: str = ""
    task: str = ""
    elapsed_s: float = 0.0
    """Wall-clock seconds of all sessions of the campaign."""
    wall_budget_s: float = 0.0
    """0 without a budget."""
    round: int = 0
    phase_text: str = ""
    """The phase of the campaign, as text."""
    stations: tuple[StationLine, ...] = ()
    rounds: tuple[RoundLine, ...] = ()
    """Oldest first; the last may be incomplete."""
    learner: LearnerLine | None = None
    gates: tuple[GateLine, ...] = ()
    """The open gates, oldest first."""
    champion: str = ""
    champion_interval: Interval | None = None
    """Success of the champion on hidden starts."""
    goal: float = 0.0
    """Goal of the success rate, in [0, 1]."""
    goal_by: Literal["rate", "bound"] = "rate"
    """Figure that must reach the goal: the measured rate or its exact lower bound."""
    use: RobotUse = field(default_factory=RobotUse)
    episodes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Ended episodes by outcome, and `open` orders."""
    home: str = ""
    paused: bool = False
    paused_why: str = ""
    """One sentence where the campaign paused itself; else empty."""
    labels: str = ""
    """The verifier's error rate by the labels, one sentence; empty without labels."""
    waited_for: Mapping[str, str] = field(default_factory=dict[str, str])
    """Id of each command that is late at its stations -> which stations have not obeyed, as a sentence."""
    quarantined: Mapping[str, str] = field(default_factory=dict[str, str])
    """Experiment or version in quarantine -> why; an operator clears it."""
    stopped: bool = False
    branches: int = 0
    """Branches for which robots act."""
    newest_event: int = 0
    """Number of the newest ledger event. A resume names it, so that it ends no stop that came later."""
