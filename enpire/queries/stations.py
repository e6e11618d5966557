"""Stations of a campaign as documents."""

from __future__ import annotations

from enpire.queries.campaign_history import History
from enpire.queries.metrics import PhaseSeconds
from enpire.queries.models import StationView
from enpire.types import PHASES, WORKING


def robot_seconds(past: History) -> dict[str, PhaseSeconds]:
    """Station -> seconds by phase, without phases that have none."""
    return {
        name: {phase: seconds for phase in PHASES if (seconds := station.seconds().get(phase, 0.0))}
        for name, station in past.stations.items()
    }


def station_views(past: History) -> tuple[StationView, ...]:
    """Every station of a campaign, by name."""
    return tuple(
        StationView(
            id=name,
            state="present" if station.present else "left",
            cause=station.cause,
            lanes=station.lanes,
            lease=station.lease,
            facts=dict(station.facts),
            utilisation=min(1.0, sum(s for phase, s in station.seconds().items() if phase in WORKING) / past.wall_s)
            if past.wall_s > 0
            else None,
            robot_time=station.seconds(),
        )
        for name, station in sorted(past.stations.items())
    )
