"""The points of the sample campaign of a home, as a tracker gets them."""

from __future__ import annotations

from pathlib import Path

from enpire.queries import campaigns
from enpire.sinks.points import KINDS, Point, PointReader
from tests.fakes.sample_campaign import CAMPAIGN


def points_of(home: Path) -> list[Point]:
    """All points, oldest first."""
    reader = PointReader()
    with campaigns.open_records(home) as records:
        found, after = list[Point](), 0
        while page := records.reading.events(after, CAMPAIGN, KINDS):
            found += [point for entry in page if (point := reader.read(entry)) is not None]
            after = page[-1].seq
        return found
