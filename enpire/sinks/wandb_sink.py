"""Weights & Biases, offline: `wandb sync` uploads the folders later, with an account.

W&B keeps points on disk only when a run is finished. So each batch is one offline part of the same run, and a small
file names the finished parts, with the position. A part that a killed process left is removed and written again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from enpire.errors import FileProblem, MissingExtra
from enpire.files import is_json_object
from enpire.ids import file_name
from enpire.sinks.points import Point
from enpire.sinks.sink import TrackedRun
from enpire.store import durable, removal


class WandbSink:
    """One run, as offline parts below `wandb/` in the folder."""

    interval_s = 60.0

    def __init__(self, run: TrackedRun) -> None:
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise MissingExtra(f"W&B is not installed ({error}): pip install 'enpire[wandb]'.") from error
        self._wandb: Any = wandb
        self._run = run
        self._file = run.folder / f"{file_name(run.campaign_id, 'a campaign')}.json"
        self._position, self._finished = _read(self._file)
        for part in self._parts():
            if part.name not in self._finished:
                removal.remove(part, run.folder)

    def position(self) -> int:
        """The last event of a finished part."""
        return self._position

    def write(self, points: Sequence[Point]) -> None:
        """Write a part, then the file that says it is finished."""
        quiet = self._wandb.Settings(
            silent=True, console="off", x_disable_stats=True, x_disable_meta=True, disable_git=True, disable_code=True
        )
        run = self._wandb.init(
            project=self._run.project, id=self._run.campaign_id, name=self._run.name, config=dict(self._run.config),
            dir=str(self._run.folder), mode="offline", settings=quiet,
        )  # fmt: skip
        try:
            for point in points:
                run.log({**point.values, "time_s": point.stamp_ns * 1e-9}, step=point.seq)
        finally:
            run.finish()
        self._finished = sorted(part.name for part in self._parts())
        self._position = points[-1].seq
        content = {"position": self._position, "finished": self._finished}
        durable.write(self._file, json.dumps(content).encode())

    def close(self) -> None:
        """Nothing is open between two writes."""

    def _parts(self) -> list[Path]:
        return list((self._run.folder / "wandb").glob(f"offline-run-*-{self._run.campaign_id}"))


def _read(path: Path) -> tuple[int, list[str]]:
    """(position, names of the finished parts)."""
    if not path.is_file():
        return 0, []
    found: object = json.loads(path.read_text(encoding="utf-8"))
    match (found.get("position"), found.get("finished")) if is_json_object(found) else (None, None):
        case (int(position), [*names]):
            return position, [str(name) for name in names]
        case _:
            raise FileProblem(f"{path} must hold `position` and `finished`; give another folder with --dir.")
