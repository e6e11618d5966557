"""What the API says, as typed documents; FastAPI turns them into OpenAPI, the socket into JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from enpire.types import Interval
from web_ui.live import CommandState

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A proportion with its 95 % interval."""

    successes: int
    n: int
    low: float
    high: float
    rate: float | None
    """None without trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationTile:
    """One station as its tile shows it."""

    name: str
    phase: str
    since_ms: int
    """Wall clock, milliseconds: when this server saw it enter the phase."""
    lanes: int
    episodes: int
    episodes_per_min: float
    verdicts: str
    """Last outcomes, oldest first, one letter each: s f u a i ?"""
    deployed: str
    paused: bool
    stopped: bool
    alarm: str
    cameras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The campaign that runs, in the figures that every page shows."""

    id: str
    name: str
    task: str
    elapsed_s: int
    wall_budget_s: float
    round: int
    phase_text: str
    goal: float
    champion: str
    success: Rate | None
    """Of the champion on hidden starts."""
    mru: float | None
    episodes: Mapping[str, int]
    paused: bool
    paused_why: str
    """One sentence where the campaign paused itself."""
    stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPoint:
    """Success in one round, for one purpose."""

    round: int
    purpose: str
    success: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerBar:
    """How far the learner is."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateBar:
    """The gate that is open: evidence so far and what it needs, in nats."""

    pairs: int
    max_pairs: int
    wins: int
    losses: int
    log_e: float
    need: float
    more: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDocument:
    """Everything that the Fleet page shows."""

    connected: bool
    """Whether a lab runs behind this server, in its process or beside it; without one only the records are shown."""
    why: str = ""
    """What keeps the lab from being shown, one sentence; empty where nothing does."""
    campaign: Headline | None = None
    learner: LearnerBar | None = None
    gate: GateBar | None = None
    rounds: tuple[RoundPoint, ...] = ()
    stations: Mapping[str, StationTile] = field(default_factory=dict[str, StationTile])
    usual: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """phase -> seconds at the 95th and 99th percentile of its stays, once enough were seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDocument:
    """One command and how far it is."""

    id: str
    verb: str
    target: str
    """A station (empty: every one), a policy version, an episode."""
    by: str
    reason: str
    state: CommandState
    requested_ms: int
    """Wall clock, milliseconds."""
    took_s: float | None = None
    """From the request until it was effective, as this server saw it; None when it was not handed in here."""
    why: str = ""
    """Why it was refused."""


def rate_of(interval: Interval) -> Rate:
    """The proportion for the page."""
    return Rate(
        successes=interval.successes, n=interval.n, low=interval.low, high=interval.high,
        rate=interval.rate if interval.n else None,
    )  # fmt: skip


def plain(value: object) -> Json:
    """A document as JSON values; None, nan and infinity are left out of objects, so that a delta can say "gone"."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((item.name, plain(getattr(value, item.name))) for item in dataclasses.fields(value))
        return {name: item for name, item in pairs if item is not None}
    if isinstance(value, Mapping):
        pairs = ((str(name), plain(item)) for name, item in value.items())
        return {name: item for name, item in pairs if item is not None}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"{type(value).__name__} cannot stand in a document.")


def delta(old: Json, new: Json) -> dict[str, Json]:
    """What turns one JSON object into another: a merge patch (RFC 7396), null for what is gone."""
    assert isinstance(old, dict)
    assert isinstance(new, dict)
    patch: dict[str, Json] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = delta(before, value)
            if inner:
                patch[name] = inner
        elif value != before or name not in old:
            patch[name] = value
    return patch
