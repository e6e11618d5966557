"""Robot utilisation and robot-hours of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from enpire.errors import UsageError
from enpire.types import MOVING, PHASES, WORKING, Phase

PhaseSeconds = Mapping[Phase, float]
"""Wall-clock seconds of one station by phase, mean over its lanes (`Heartbeat.seconds`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotTime:
    """The stations' time during a campaign."""

    mru: float
    """Mean robot utilisation in [0, 1]: time on orders (reset, rollout, verdict, with their waits) over the campaign's
    wall-clock time, mean over the stations. A station that joins late or leaves early counts as idle for the rest."""
    motion: float | None
    """The same of the time in motion alone, without waits for policies and verdicts; None where no station reports
    these waits."""
    seconds: PhaseSeconds
    """By phase, summed over the stations; time in which a station was absent is `offline`."""
    robot_h: float
    """Hours in which stations were present, in any phase, summed over the stations."""


def robot_time(stations: Mapping[str, PhaseSeconds], wall_s: float) -> RobotTime:
    """Utilisation and time by phase of several stations.

    Args:
        stations: station -> seconds by phase since the campaign began.
        wall_s: seconds since the campaign began, above 0.

    Raises:
        UsageError: `wall_s` is not above 0, or a station reports more time than the campaign lasted (beyond 2 % and 2 s
            of clock error).
    """
    if wall_s <= 0:
        raise UsageError(f"A campaign of {wall_s} s has no utilisation; give the wall-clock seconds since it began.")
    totals: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
    working_s = moving_s = present_s = 0.0
    for name, seconds in stations.items():
        reported_s = sum(seconds.values())
        if reported_s > 1.02 * wall_s + 2.0:
            raise UsageError(
                f"Station {name} reports {reported_s:.1f} s in a campaign of {wall_s:.1f} s; "
                "give the seconds since the campaign began, not since the station started."
            )
        for phase, value in seconds.items():
            totals[phase] += value
        totals["offline"] += max(0.0, wall_s - reported_s)
        working_s += sum(value for phase, value in seconds.items() if phase in WORKING)
        moving_s += sum(value for phase, value in seconds.items() if phase in MOVING)
        present_s += reported_s - seconds.get("offline", 0.0)
    share = 1 / (wall_s * len(stations)) if stations else 0.0
    reported = not stations or any("wait-policy" in seconds for seconds in stations.values())
    motion = min(1.0, moving_s * share) if reported else None
    return RobotTime(mru=min(1.0, working_s * share), motion=motion, seconds=totals, robot_h=present_s / 3600)


def real_time_factor(rollout_robot_s: float, ticks: int, period_s: float) -> float | None:
    """Seconds of robot time in the rollouts' ticks per wall-clock second in motion; about 1 for real robots.

    Args:
        rollout_robot_s: wall-clock seconds in the phase rollout, over all lanes.
        ticks: commanded periods of all rollouts.
        period_s: seconds of one tick; 0 if not recorded.
    """
    return ticks * period_s / rollout_robot_s if rollout_robot_s > 0 and ticks and period_s > 0 else None
