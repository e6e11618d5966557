"""MLflow: a run in a folder of files (`mlflow ui`), or at the server that MLFLOW_TRACKING_URI names.

A tag of the run keeps the position. A process that is killed between the numbers of a batch and the tag has written
numbers above the position: these are found by their step and not written again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from enpire.errors import MissingExtra
from enpire.sinks.points import Point
from enpire.sinks.sink import TrackedRun

_POSITION, _CAMPAIGN = "enpire.position", "enpire.campaign"
_AT_ONCE = 1000
"""Most numbers of one call, by MLflow's limit."""


class MlflowSink:
    """One run of the experiment with the name of the project."""

    interval_s = 2.0

    def __init__(self, run: TrackedRun) -> None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # else importing it reports usage over the network
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Metric
        except ModuleNotFoundError as error:
            raise MissingExtra(f"MLflow is not installed ({error}): pip install 'enpire[mlflow]'.") from error
        address = os.environ.get("MLFLOW_TRACKING_URI") or (run.folder / "mlruns").as_uri()
        self._client: Any = MlflowClient(tracking_uri=address)
        self._metric: Any = Metric
        self._run_id = self._find(run)
        self._known: set[tuple[str, int]] | None = None
        """(name, step) of the numbers above the position that a killed process wrote; None before the first write."""

    def position(self) -> int:
        """The tag of the run."""
        return int(self._client.get_run(self._run_id).data.tags.get(_POSITION, "0"))

    def write(self, points: Sequence[Point]) -> None:
        """Write the numbers, then the tag."""
        known = self._known if self._known is not None else self._above(self.position())
        self._known = set()
        metrics = [
            self._metric(name, value, point.stamp_ns // 1_000_000, point.seq)
            for point in points
            for name, value in point.values.items()
            if (name, point.seq) not in known
        ]
        for first in range(0, len(metrics), _AT_ONCE):
            self._client.log_batch(self._run_id, metrics=metrics[first : first + _AT_ONCE])
        self._client.set_tag(self._run_id, _POSITION, str(points[-1].seq))

    def close(self) -> None:
        """Nothing is open between two writes."""

    def _find(self, run: TrackedRun) -> str:
        experiment = self._client.get_experiment_by_name(run.project)
        number = experiment.experiment_id if experiment else self._client.create_experiment(run.project)
        found = self._client.search_runs([number], f"tags.`{_CAMPAIGN}` = '{run.campaign_id}'")
        if found:
            return found[0].info.run_id
        made = self._client.create_run(number, tags={_CAMPAIGN: run.campaign_id}, run_name=run.name)
        for name, value in run.config.items():
            self._client.log_param(made.info.run_id, name, value)
        return made.info.run_id

    def _above(self, position: int) -> set[tuple[str, int]]:
        names = self._client.get_run(self._run_id).data.metrics
        history = [one for name in names for one in self._client.get_metric_history(self._run_id, name)]
        return {(one.key, one.step) for one in history if one.step > position}
