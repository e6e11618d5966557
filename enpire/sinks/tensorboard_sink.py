"""TensorBoard: event files, which `tensorboard --logdir DIR` shows.

The numbers of one point are one record of the file, with the number of the event as step. A record is complete or is
not read, so the highest step in the files is the position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enpire.errors import MissingExtra
from enpire.ids import file_name
from enpire.sinks.points import Point
from enpire.sinks.sink import TrackedRun
from enpire.store import durable


class TensorboardSink:
    """One folder of event files, PROJECT/CAMPAIGN; each process that follows adds a file."""

    interval_s = 2.0

    def __init__(self, run: TrackedRun) -> None:
        try:
            from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader  # pyright: ignore[reportMissingTypeStubs]
            from tensorboard.compat.proto import event_pb2, summary_pb2  # pyright: ignore[reportMissingTypeStubs]
            from tensorboard.summary.writer.event_file_writer import EventFileWriter  # pyright: ignore[reportMissingTypeStubs]
        except ModuleNotFoundError as error:
            raise MissingExtra(f"TensorBoard is not installed ({error}): pip install 'enpire[tensorboard]'.") from error
        self._folder = run.folder / file_name(run.project, "a project") / file_name(run.campaign_id, "a campaign")
        durable.make_folder(self._folder)
        self._loader: Any = LegacyEventFileLoader
        self._events: Any = event_pb2
        self._summaries: Any = summary_pb2
        self._open: Any = EventFileWriter
        self._writer: Any = None

    def position(self) -> int:
        """The highest step in the files."""
        files = sorted(self._folder.glob("events.out.tfevents.*"))
        return max((event.step for path in files for event in self._loader(str(path)).Load()), default=0)

    def write(self, points: Sequence[Point]) -> None:
        """Write one record for each point, then flush."""
        if self._writer is None:
            self._writer = self._open(str(self._folder))
        for point in points:
            values = [self._summaries.Summary.Value(tag=tag, simple_value=n) for tag, n in point.values.items()]
            summary = self._summaries.Summary(value=values)
            self._writer.add_event(self._events.Event(wall_time=point.stamp_ns * 1e-9, step=point.seq, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        """Close the file of this process."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
