"""trackio: a local database of runs and a dashboard (`trackio show`), without an account.

One transaction writes a batch, with the number of the event as step: the database itself knows the position.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from enpire.errors import MissingExtra, UsageError
from enpire.sinks.points import Point
from enpire.sinks.sink import TrackedRun


class TrackioSink:
    """One run in the database of its project, below the folder."""

    interval_s = 2.0

    def __init__(self, run: TrackedRun) -> None:
        self._run = run
        os.environ["TRACKIO_DIR"] = str(run.folder)  # trackio reads it when it is imported
        try:
            from trackio import utils
            from trackio.sqlite_storage import SQLiteStorage
        except ModuleNotFoundError as error:
            raise MissingExtra(f"trackio is not installed ({error}): pip install 'enpire[trackio]'.") from error
        if run.folder != utils.TRACKIO_DIR:
            raise UsageError(f"This process uses trackio in {utils.TRACKIO_DIR}; follow from a process of its own.")
        self._storage: Any = SQLiteStorage

    def position(self) -> int:
        """The highest step of the run."""
        run_id = self._run.campaign_id
        return self._storage.get_max_step_for_run(self._run.project, self._run.name, run_id=run_id) or 0

    def write(self, points: Sequence[Point]) -> None:
        """Write a batch in one transaction."""
        stamps = [datetime.fromtimestamp(point.stamp_ns * 1e-9, UTC).isoformat() for point in points]
        run_id = self._run.campaign_id
        self._storage.bulk_log(
            project=self._run.project, run=self._run.name, run_id=run_id, config=dict(self._run.config),
            metrics_list=[dict(point.values) for point in points], steps=[point.seq for point in points],
            timestamps=stamps, log_ids=[f"{run_id}-{point.seq}" for point in points],
        )  # fmt: skip

    def close(self) -> None:
        """Nothing is open between two writes."""
