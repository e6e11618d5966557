"""What a running lab looks like at one instant: one frozen object that the terminal and the web page both read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from enpire.types import Interval, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class StationLine:
    """One station as a person watches it."""

    name: str
    phase: Phase
    """What most of its lanes do."""
    lanes: int = 1
    episodes: int = 0
    """Episodes that ended on it in this campaign."""
    episodes_per_min: float = 0.0
    """Over the last half minute or so."""
    verdicts: str = ""
    """Its last outcomes, oldest first, one letter each: s(uccess) f(ailure) u(nsafe) a(borted) i(nvalid) ?(unknown)."""
    deployed: str = ""
    """The policy id that it answers to run."""
    paused: bool = False
    stopped: bool = False
    alarm: str = ""
    """One sentence when it needs a person."""
    cameras: tuple[str, ...] = ()
    """What its task looks with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLine:
    """Success in one round, for one purpose (`collect` on training starts, `gate` and `confirm` on hidden ones)."""

    round: int
    purpose: str
    interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerLine:
    """How far the learner is."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """The gate that is open."""

    pairs: int
    max_pairs: int
    wins: int
    """Pairs in which only the candidate succeeded."""
    losses: int
    """Pairs in which only the champion succeeded."""
    log_e: float
    """Evidence that the candidate is better, in nats."""
    need: float
    """The evidence at which it is promoted, in nats."""
    more: int | None = None
    """About this many more pairs decide; None while nobody can say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSnapshot:
    """The lab at one instant. Immutable: whoever holds it may read it from any thread."""

    campaign_id: str = ""
    campaign_name: str = ""
    task: str = ""
    elapsed_s: float = 0.0
    """Wall time since the campaign began (without the time in which nothing ran)."""
    wall_budget_s: float = 0.0
    """0 when there is no budget."""
    round: int = 0
    phase_text: str = ""
    """What the lab does now, in words for a person."""
    stations: tuple[StationLine, ...] = ()
    rounds: tuple[RoundLine, ...] = ()
    """Oldest first; the last one may still be growing."""
    learner: LearnerLine | None = None
    gate: GateLine | None = None
    champion: str = ""
    champion_interval: Interval | None = None
    """Success of the champion on hidden starts."""
    goal: float = 0.0
    """The success to reach, in [0, 1]."""
    mru: float | None = None
    """Mean robot utilisation, in [0, 1]."""
    episodes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Ended episodes by outcome, and `open` orders."""
    home: str = ""
    paused: bool = False
    paused_why: str = ""
    """One sentence where the campaign paused itself."""
    labels: str = ""
    """What people's labels say about the verifier, one sentence; empty without labels."""
    waited_for: Mapping[str, str] = field(default_factory=dict[str, str])
    """Commands that stations should have obeyed by now: id -> which ones have not, in a sentence."""
    stopped: bool = False
