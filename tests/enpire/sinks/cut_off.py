"""Writes a campaign's points to MLflow with two sinks, the first one cut off before its last tag; prints what was kept.

Run as a process of its own: `python -m tests.enpire.sinks.cut_off HOME FOLDER CAMPAIGN`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from enpire.sinks.mlflow_sink import MlflowSink
from enpire.sinks.sink import TrackedRun
from tests.enpire.sinks.points_of_home import points_of
from tests.enpire.sinks.readers import from_mlflow


class CutOff(MlflowSink):
    """Ends between the numbers of a batch and the tag with its position."""

    def cut(self) -> None:
        self._client.set_tag = lambda *_: sys.exit("cut off")


if __name__ == "__main__":
    home, folder, campaign_id = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    points = points_of(home)
    run = TrackedRun(folder=folder, project="lab", campaign_id=campaign_id, name="pins", config={"seed": 7})
    first = CutOff(run)
    first.write(points[:5])
    first.cut()
    try:
        first.write(points[5:9])
    except SystemExit:
        again = MlflowSink(run)
        assert again.position() == points[4].seq
        again.write([point for point in points if point.seq > again.position()])
    print(json.dumps(list(from_mlflow(folder, "lab"))))
