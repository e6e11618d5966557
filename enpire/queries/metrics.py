"""What a campaign costs and what its robots do all day: utilisation, robot-hours, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from enpire.errors import UsageError
from enpire.types import MOVING, PHASES, Phase

PhaseSeconds = Mapping[Phase, float]
"""Robot-time stack of one station: wall seconds by phase, mean over its lanes (`Heartbeat.seconds`)."""


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
