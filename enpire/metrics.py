"""What a campaign costs and what its robots do all day: utilisation, robot-hours, tokens, pass@k, time to the goal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass

from enpire.errors import UsageError
from enpire.intervals import wilson
from enpire.types import MOVING, PHASES, Episode, Event, Interval, Phase

PhaseSeconds = Mapping[Phase, float]
"""Robot-time stack of one station: wall seconds by phase, mean over its lanes (`Beat.seconds`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotTime:
    """Where the stations' time went during a campaign."""

    mru: float
    """Mean robot utilisation in [0, 1]: time in reset, rollout or verify over the campaign's wall-clock time, mean
    over the stations. A station that joins late or dies counts as idle for the rest."""
    seconds: PhaseSeconds
    """By phase, summed over the stations; time in which a station was not there is `offline`."""
    robot_h: float
    """Station-hours spent: one robot for one hour each, whatever it did, while it was there."""


def robot_time(stations: Mapping[str, PhaseSeconds], wall_s: float) -> RobotTime:
    """Utilisation and stack of several stations.

    Args:
        stations: station -> seconds by phase since the campaign began.
        wall_s: seconds since the campaign began, above 0.

    Raises:
        UsageError: a station worked longer than the campaign lasted (beyond 2 % and 2 s of clock error).
    """
    if wall_s <= 0:
        raise UsageError(f"A campaign of {wall_s} s has no utilisation; give the wall-clock seconds since it began.")
    totals: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
    moving_s = there_s = 0.0
    for name, seconds in stations.items():
        lived_s = sum(seconds.values())
        if lived_s > 1.02 * wall_s + 2.0:
            raise UsageError(
                f"Station {name} reports {lived_s:.1f} s in a campaign of {wall_s:.1f} s; "
                "give the seconds since the campaign began, not since the station did."
            )
        for phase, value in seconds.items():
            totals[phase] += value
        totals["offline"] += max(0.0, wall_s - lived_s)
        moving_s += sum(value for phase, value in seconds.items() if phase in MOVING)
        there_s += lived_s - seconds.get("offline", 0.0)
    mru = min(1.0, moving_s / (wall_s * len(stations))) if stations else 0.0
    return RobotTime(mru=mru, seconds=totals, robot_h=there_s / 3600)


def since(now: PhaseSeconds, before: PhaseSeconds) -> dict[Phase, float]:
    """Seconds by phase between two beats of one station's process."""
    return {phase: max(0.0, value - before.get(phase, 0.0)) for phase, value in now.items()}


def added(parts: Iterable[PhaseSeconds]) -> dict[Phase, float]:
    """Seconds by phase of one station over several lives of its process."""
    total: dict[Phase, float] = {}
    for part in parts:
        for phase, value in part.items():
            total[phase] = total.get(phase, 0.0) + value
    return total


def pass_at(episodes: Iterable[Episode], k: int) -> Interval:
    """Share of ended episodes that succeeded in at most `k` attempts (pass@k), with its Wilson 95 % interval.

    The attempts of an episode are one more than its in-episode retries. Every end that is not a success counts
    against it, aborted ones too.
    """
    if k < 1:
        raise UsageError(f"pass@{k} cannot be: give 1 or more attempts.")
    ended = list(episodes)
    passed = sum(episode.outcome == "success" and 1 + len(episode.attempts) <= k for episode in ended)
    return wilson(passed, len(ended))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToGoal:
    """What it took until the first passed confirmation; None in every field while there is none (censored)."""

    wall_s: float | None = None
    robot_h: float | None = None
    episodes: int | None = None


def to_goal(events: Sequence[Event]) -> ToGoal:
    """Cost to the first passed confirmation of one campaign's events, oldest first.

    Wall-clock time includes pauses. Robot-hours come from the last "robot time" up to that event, scaled to its moment
    when it is older; they are None when no station's time was recorded.
    """
    began_ns = next((event.stamp_ns for event in events if event.kind == "campaign started"), None)
    goal = next((event for event in events if event.kind == "confirmed" and event.body["passed"] is True), None)
    if began_ns is None or goal is None:
        return ToGoal()
    wall_s = (goal.stamp_ns - began_ns) / 1e9
    before = [event for event in events if event.seq < goal.seq]
    robot_h = None
    for event in before:
        if event.kind == "robot time":
            stations, measured_s = read_robot_time(event.body)
            robot_h = robot_time(stations, measured_s).robot_h * wall_s / measured_s if stations else None
    ended = [event.body["episodes"] for event in before if event.kind == "orders ended"]
    return ToGoal(wall_s=wall_s, robot_h=robot_h, episodes=sum(len(rows) for rows in ended if isinstance(rows, Sized)))


def read_robot_time(body: Mapping[str, object]) -> tuple[dict[str, dict[Phase, float]], float]:
    """(station -> seconds by phase, wall seconds) of an event "robot time"."""
    stations, wall_s = body.get("stations"), body.get("wall_s")
    if not isinstance(stations, Mapping) or not isinstance(wall_s, (int, float)):
        raise UsageError('An event "robot time" needs stations (name -> phase -> seconds) and wall_s.')
    table: dict[str, dict[Phase, float]] = {}
    for name, seconds in stations.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(name, str) or not isinstance(seconds, Mapping):
            raise UsageError('An event "robot time" needs phase -> seconds under every station.')
        table[name] = {phase: float(seconds[phase]) for phase in PHASES if phase in seconds}  # pyright: ignore[reportUnknownArgumentType]
    return table, float(wall_s)


def per_minute(tokens: int, wall_s: float) -> float:
    """Tokens per minute (MTU); 0 before any time passed."""
    return tokens * 60 / wall_s if wall_s > 0 else 0.0
