"""Follows a campaign and is killed inside a write, after the tracker kept a part of the points.

Run as a process of its own: `python -m tests.enpire.sinks.killed TRACKER HOME FOLDER CAMPAIGN`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from enpire.sinks.points import Point
from enpire.sinks.sink import SINKS, Sink, TrackedRun, follow


class Killed:
    """A tracker whose process ends at once in its first write: 5 points are kept, the next ones are not."""

    interval_s = 0.0

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def position(self) -> int:
        return self._sink.position()

    def write(self, points: Sequence[Point]) -> None:
        self._sink.write(points[:5])
        os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        self._sink.close()


if __name__ == "__main__":
    tracker, home, folder, campaign_id = sys.argv[1:]

    def open_sink(run: TrackedRun) -> Sink:
        return Killed(SINKS.make(tracker, run))

    for _ in follow(Path(home), campaign_id, open_sink, (Path(folder), "lab")):
        pass
