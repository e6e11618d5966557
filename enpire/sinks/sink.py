"""The interface of a tracker, and the loop that feeds it from the ledger."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from enpire.campaign.session_events import CampaignEnded, CampaignStarted
from enpire.errors import UsageError
from enpire.ids import file_name
from enpire.parts import PartGroup
from enpire.queries.campaigns import open_records
from enpire.sinks.points import KINDS, Point, PointReader
from enpire.store import durable

PROJECT = "enpire"
"""The default project of the runs."""
_BATCH = 500
"""Most points of one `write`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """The run that shows one campaign."""

    folder: Path
    """Where the tracker keeps its files; exists."""
    project: str
    campaign_id: str
    """Also the id of the run."""
    name: str
    """Of the campaign."""
    config: Mapping[str, str | int | float]
    """Task, seed, goal and version of the program."""


class Sink(Protocol):
    """A tracker that shows one campaign as one run.

    It must not lose a point and not repeat one, also when its process is killed in a `write`: the next process opens it
    with the same `TrackedRun`, asks for its position, and resumes from there.
    """

    interval_s: float
    """Time between two looks at the ledger, in seconds."""

    def position(self) -> int:
        """Number of the last event of which it keeps the point; 0 at first."""
        ...

    def write(self, points: Sequence[Point]) -> None:
        """Keep points with rising `seq`, all above `position`; returns when they are kept."""

    def close(self) -> None:
        """Close the files. Allowed twice."""


@runtime_checkable
class ReadsSpans(Protocol):
    """A tracker of spans: it gets only the points with spans."""

    reads_spans: bool


SINKS: PartGroup[[TrackedRun], Sink] = PartGroup("sinks")


@dataclass(slots=True, kw_only=True)
class Following:
    """What was written so far."""

    points: int = 0
    """Points that this process wrote."""
    seq: int = 0
    """The last event that was read."""
    ended: bool = False
    """Whether the campaign has ended."""


def follow(
    home: Path, campaign_id: str, open_sink: Callable[[TrackedRun], Sink], run: tuple[Path, str]
) -> Generator[Following]:
    """Write the points of a campaign into a tracker; yields after every look at the ledger, the first at once.

    Args:
        home: of the lab.
        campaign_id: whose events are read.
        open_sink: makes the tracker.
        run: (folder of the tracker, name of the project).

    Raises:
        UsageError: another process writes this campaign into the same folder.
    """
    folder, project = run
    durable.make_folder(folder)
    with _alone(folder / f".{file_name(campaign_id, 'a campaign')}.lock"):
        reader, state = PointReader(), Following()
        sink = open_sink(_tracked(home, campaign_id, folder, project))
        try:
            position, spans = sink.position(), isinstance(sink, ReadsSpans) and sink.reads_spans
            while True:
                for points in _new_points(home, campaign_id, reader, state):
                    new = [point for point in points if point.seq > position and (point.spans or not spans)]
                    if new:
                        sink.write(new)
                        state.points += len(new)
                yield state
                time.sleep(sink.interval_s)
        finally:
            sink.close()


def _new_points(home: Path, campaign_id: str, reader: PointReader, state: Following) -> Iterator[Sequence[Point]]:
    """Batches of points of the events after `state.seq`, which it moves."""
    batch: list[Point] = []
    with open_records(home) as records:  # anew: an orchestrator may have died in a write since
        while page := records.reading.events(state.seq, campaign_id, KINDS):
            for entry in page:
                point = reader.read(entry)
                batch += [point] if point is not None else []
                state.ended = state.ended or isinstance(entry.event, CampaignEnded)  # late results may follow it
            state.seq = page[-1].seq
            if len(batch) >= _BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def _tracked(home: Path, campaign_id: str, folder: Path, project: str) -> TrackedRun:
    with open_records(home) as records:
        for entry in records.reading.events(0, campaign_id, (CampaignStarted.KIND,)):
            if isinstance(event := entry.event, CampaignStarted):
                goal = {f"goal_{name}": value for name, value in event.goal.items()}
                config = {"task": event.task, "seed": event.seed, "code": event.code, **goal}
                return TrackedRun(
                    folder=folder, project=project, campaign_id=campaign_id, name=event.name, config=config
                )
    raise UsageError(f"The ledger has no beginning of campaign {campaign_id}; see `enpire campaign list`.")


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """Hold a lock; two processes would write every point twice."""
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            raise UsageError(
                f"Another process writes this campaign into {path.parent}; end it first, or give another folder "
                "with --dir."
            ) from problem
        yield
