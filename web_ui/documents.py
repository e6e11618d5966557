"""The documents of the API as dataclasses: FastAPI makes OpenAPI from them, the WebSocket makes JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Literal, cast

from enpire.service.watching import Sensed
from enpire.types import Interval
from web_ui.live import CommandKind, CommandState

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
    """One station, as its tile shows it."""

    name: str
    phase: str
    since_ms: int
    """Wall-clock time at which this server saw the station enter the phase, in milliseconds."""
    lanes: int
    episodes: int
    episodes_per_min: float
    verdicts: str
    """Last outcomes, oldest first, one letter each: s success, f failure, u unsafe, a aborted, i invalid, ? unknown."""
    deployed: str
    paused: bool
    stopped: bool
    alarm: str
    cameras: tuple[str, ...] = ()
    stopped_by: str = ""
    """Who requested the stop that holds it."""
    stopped_itself: bool = False
    """Whether the robot holds a stop by itself: its button, or its guard."""
    rate_hz: float = 0.0
    """Control periods per second; 0 where it is not known."""
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
    """What commands its first robot now: a policy version, scripted:expert, operator, reset, home; empty: nothing."""
    operator: str = ""
    """Who takes its first robot over on a page of this server; empty otherwise."""
    viability: float | None = None
    """p_v of the supervised rollout of its first robot, in [0, 1]; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The running campaign in numbers, as every page shows it."""

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
    """Success of the champion on hidden starts."""
    mru: float | None
    """Mean robot utilisation of this session, in [0, 1]."""
    episodes: Mapping[str, int]
    paused: bool
    paused_why: str
    """Why the campaign paused itself, one sentence; empty otherwise."""
    stopped: bool
    newest_event: int
    """Number of the newest ledger event; commands name it as `seen`."""
    simulator_truth: bool = False
    """Whether the simulation itself says what succeeded, and no verifier of sensors."""
    motion: float | None = None
    """Share of the time in motion, in [0, 1], without waits for policies and verdicts."""
    real_time_factor: float | None = None
    """Seconds of robot time in one second of a rollout."""
    goal_by: Literal["rate", "bound"] = "rate"
    """Figure that must reach the goal: the measured rate or its exact lower bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPoint:
    """Success of one round: `collect` on training starts, or `hidden`, a champion's trials on hidden starts."""

    round: int
    purpose: str
    success: Rate
    id: str = ""
    """The version of `hidden`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerBar:
    """Progress of the training run."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateBar:
    """One open gate: log evidence so far and its threshold, in nats."""

    id: str
    k: int
    """Number of the gate in its campaign, from 1."""
    candidate: str
    pairs: int
    max_pairs: int
    wins: int
    losses: int
    log_e: float
    need: float
    more: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One cause for which an operator is needed, with the stations that it concerns."""

    key: str
    """Target of the command `acknowledge`."""
    text: str
    tone: str
    """bad or warn."""
    names: tuple[str, ...]
    """Stations; or the campaign, or the experiment or version in quarantine."""
    since_ms: int
    """Wall-clock time at which this server saw it first, in milliseconds."""
    newest_ms: int
    """The same of the station that it reached last."""
    responses: tuple[CommandKind, ...]
    """Commands that answer it, with each of `names` as target; without a target to the campaign."""
    default: str
    """What holds until an operator answers, or until the campaign ends."""
    acknowledged_by: str = ""
    acknowledged_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDocument:
    """Everything that the Fleet page shows."""

    connected: bool
    """Whether a campaign runs in this home, in this process or another one; else only records are shown."""
    why: str = ""
    """Why the state of the lab cannot be shown, one sentence; empty otherwise."""
    campaign: Headline | None = None
    learner: LearnerBar | None = None
    gates: tuple[GateBar, ...] = ()
    """The open gates, oldest first."""
    rounds: tuple[RoundPoint, ...] = ()
    stations: Mapping[str, StationTile] = field(default_factory=dict[str, StationTile])
    alarms: Mapping[str, Alarm] = field(default_factory=dict[str, Alarm])
    """What needs an operator, by cause."""
    usual: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """phase -> 95th and 99th percentile of the time in it, in seconds, once enough were measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDocument:
    """One command and its state."""

    id: str
    verb: str
    target: str
    """A station (empty: all stations), a policy version or an episode."""
    by: str
    reason: str
    state: CommandState
    requested_ms: int
    """Wall-clock time, in milliseconds."""
    took_s: float | None = None
    """Seconds from the request until it was effective, measured here; None for commands submitted elsewhere."""
    why: str = ""
    """Why it was refused, or what it still waits for."""


def rate_of(interval: Interval) -> Rate:
    """The interval as a document."""
    return Rate(
        successes=interval.successes, n=interval.n, low=interval.low, high=interval.high,
        rate=interval.rate if interval.n else None,
    )  # fmt: skip


def plain(value: object) -> Json:
    """A document as JSON values. Objects leave out None, nan and infinity, so that null in a delta means "removed".

    Raises:
        TypeError: a value has no JSON form.
    """
    kind = type(value)
    if kind in _AS_IT_IS:
        return cast("Json", value)
    if isinstance(value, float):
        return value if -INFINITY < value < INFINITY else None
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if fields := _fields(kind):
        names, values = fields
        pairs = zip(names, values(value), strict=False)
        known = {name: item if type(item) in _AS_IT_IS else plain(item) for name, item in pairs}
        return {name: item for name, item in known.items() if item is not None} if None in known.values() else known
    if isinstance(value, Mapping):  # last, because it is the slowest test
        found = ((str(name), plain(item)) for name, item in value.items())
        return {name: item for name, item in found if item is not None}
    if isinstance(value, bool | int | str):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form in a document.")


INFINITY = float("inf")
_AS_IT_IS = frozenset({str, bool, int, type(None)})


@cache
def _fields(kind: type) -> tuple[tuple[str, ...], Callable[[object], tuple[Json, ...]]] | None:
    """Names of a dataclass's fields, and what reads all of them; None for other types.

    A fleet of 1,000 stations asks for some 70,000 values a second.
    """
    names = tuple(one.name for one in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
    return (names, attrgetter(*names, names[0])) if names else None  # with one name alone it reads no tuple


def delta(old: Json, new: Json) -> dict[str, Json]:
    """The merge patch (RFC 7396) from one JSON object to another; null for what was removed."""
    assert isinstance(old, dict)
    assert isinstance(new, dict)
    patch: dict[str, Json] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if value is before and name in old:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            inner = delta(before, value)
            if inner:
                patch[name] = inner
        elif value != before or name not in old:
            patch[name] = value
    return patch
