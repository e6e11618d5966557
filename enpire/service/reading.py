"""What is recorded in a home: campaigns, versions, episodes, hypotheses, events. Nothing here writes."""

from __future__ import annotations

from enpire.campaign.command_events import CommandAccepted
from enpire.campaign.events import kinds_of
from enpire.campaign.station_events import StationJoined, StationLeft
from enpire.campaign.study_events import StudyBegan
from enpire.queries.campaign_history import MARKS, History
from enpire.queries.campaigns import (
    Records,
    campaign_view,
    campaigns,
    episode,
    episodes,
    events_after,
    find_campaign,
    find_version,
    history,
    is_driven,
    last_events,
    latest_begun,
    open_records,
    same_start,
    unchecked,
    versions,
)
from enpire.queries.gate_pairs import GatePair, gate_pairs
from enpire.queries.hypotheses import experiment_view
from enpire.store.order_page import Page
from enpire.store.rows import OrderRow
from enpire.store.text_search import ranked

__all__ = [
    "MARKS", "GatePair", "History", "OrderRow", "Page", "Records", "campaign_view", "campaigns",
    "episode", "episodes", "events_after", "experiment_view", "find_campaign", "find_version", "gate_pairs",
    "held_stations", "history", "is_driven", "is_study", "last_events", "latest_begun", "open_records", "ranked",
    "same_start", "unchecked", "versions",
]  # fmt: skip


def is_study(records: Records, campaign_id: str) -> bool:
    """Whether a campaign holds the trials of a study."""
    return bool(records.reading.events(0, campaign_id, kinds_of(StudyBegan)))


def held_stations(records: Records) -> tuple[int, int]:
    """(stopped, paused): how many stations of the running campaign operators hold, each counted once."""
    from enpire.campaign.station_holds import StationHolds

    holds = StationHolds()
    past = history(records, latest_begun(records), kinds_of(StationJoined, StationLeft))
    for entry in records.ledger.events(kinds=kinds_of(CommandAccepted)):
        if isinstance(entry.event, CommandAccepted):
            holds.accept(entry.event, entry.seq)
    found = [holds.at(name) for name, station in past.stations.items() if station.present]
    return sum("stop" in held for held in found), sum("stop" not in held and "pause" in held for held in found)
