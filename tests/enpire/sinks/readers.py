"""Prints what a tracker kept, as JSON [[step, name, value], ...], read with the tracker's own library.

Run as a process of its own: `python -m tests.enpire.sinks.readers TRACKER FOLDER PROJECT`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Row = tuple[int, str, float]


def from_trackio(folder: Path, project: str) -> Iterator[Row]:
    os.environ["TRACKIO_DIR"] = str(folder)
    from trackio.sqlite_storage import SQLiteStorage

    for run in SQLiteStorage.get_runs(project):
        for row in SQLiteStorage.get_logs(project, run):
            yield from ((row["step"], name, row[name]) for name in row if name not in ("step", "timestamp"))


def from_tensorboard(folder: Path, project: str) -> Iterator[Row]:
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    for run in (folder / project).iterdir():
        shown = EventAccumulator(str(run), size_guidance={SCALARS: 0})
        shown.Reload()
        for tag in shown.Tags()[SCALARS]:
            yield from ((one.step, tag, one.value) for one in shown.Scalars(tag))


def from_wandb(folder: Path, project: str) -> Iterator[Row]:
    from wandb.proto import wandb_internal_pb2

    messages: Any = wandb_internal_pb2
    for path in sorted((folder / "wandb").glob("offline-run-*/*.wandb")):
        for data in _records(path.read_bytes()):
            record: Any = messages.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "run":
                assert record.run.project == project
            items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            yield from (
                (items["_step"], name, value)
                for name, value in items.items()
                if not name.startswith("_") and name != "time_s"
            )


def _records(data: bytes) -> Iterator[bytes]:
    """The records of a file in LevelDB's log format, behind W&B's own 7 bytes."""
    block, place, parts = 32768, 7, b""
    while place + 7 <= len(data):
        if block - place % block < 7:
            place += block - place % block
            continue
        size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        parts += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def from_mlflow(folder: Path, project: str) -> Iterator[Row]:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=(folder / "mlruns").as_uri())
    experiment = client.get_experiment_by_name(project)
    assert experiment is not None
    for run in client.search_runs([experiment.experiment_id]):
        for name in run.data.metrics:
            yield from ((one.step, name, one.value) for one in client.get_metric_history(run.info.run_id, name))


READERS: Mapping[str, Callable[[Path, str], Iterator[Row]]] = {
    "trackio": from_trackio, "tensorboard": from_tensorboard, "wandb": from_wandb, "mlflow": from_mlflow,
}  # fmt: skip

if __name__ == "__main__":
    tracker, place, name = sys.argv[1:]
    print(json.dumps(list(READERS[tracker](Path(place), name))))
