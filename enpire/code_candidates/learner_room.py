"""Inside the room of a candidate's learner: `python -m enpire.code_candidates.learner_room CHANNEL RELAY`.

It calls `improve(job)` of the candidate's learner.py, then sends the files that this wrote. Nothing else leaves.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from enpire.code_candidates.contract import LearningJob, TaskFacts, TrainingEpisode
from enpire.code_candidates.frames import Frames
from enpire.code_candidates.inside import described, enter, load, write_sent
from enpire.errors import LearningProblem
from enpire.field_reader import Fields
from enpire.files import is_mapping, parse

PART = 4 * 2**20
"""Bytes of a file in one message."""
MOST_METRICS = 64


def main(arguments: list[str]) -> int:
    """Run the learner once; returns the exit code."""
    frames, first = enter(arguments)
    work = Path(first.text("work"))
    job = _job(frames, first, work)
    try:
        folder = write_sent(first)
        metrics = _numbers(load(folder, "learner").improve(job))
        _send_files(frames, job.output)
        frames.send({"done": metrics})
    except BaseException as problem:  # noqa: BLE001 - a candidate's code may raise anything, also SystemExit
        frames.send({"failed": described(problem, work)})
        return 1
    return 0


def _job(frames: Frames, first: Fields, work: Path) -> LearningJob:
    folders = Fields(first.get("folders"), "The folders")
    episodes = Path(folders.text("episodes"))
    output = work / "output"
    output.mkdir()

    def report(stage: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        progress = {"stage": str(stage)[:100], "done": int(done), "total": int(total), "metrics": _numbers(metrics)}
        frames.send({"progress": progress})

    return LearningJob(
        episodes=[_episode(item, episodes) for item in first.items("episodes", 2**20)],
        settings=_settings(first),
        task=parse(TaskFacts, first.mapping("task"), "The task") if first.mapping("task") else None,
        parent=Path(folders.text("parent")) if "parent" in folders else None,
        output=output, round=first.whole("round"), seed=first.whole("seed"), report=report,
    )  # fmt: skip


def _settings(message: Fields) -> dict[str, bool | int | float | str]:
    """The settings as recipe.yaml may hold them."""
    items = message.mapping("settings").items()
    return {name: value for name, value in items if isinstance(value, bool | int | float | str)}


def _episode(item: object, folder: Path) -> TrainingEpisode:
    one = Fields(item, "An episode")
    return TrainingEpisode(
        path=folder / one.text("file"), outcome=one.text("outcome"), purpose=one.text("purpose"),
        ticks=one.whole("ticks"), version=one.text("version"),
    )  # fmt: skip


def _numbers(metrics: object) -> dict[str, float]:
    """The finite numbers of what a candidate calls metrics."""
    if not is_mapping(metrics):
        raise LearningProblem("improve must return its metrics: a mapping of names to numbers, which may be empty")
    found: dict[str, float] = {}
    for name, value in list(metrics.items())[:MOST_METRICS]:
        number = float(str(value))
        if math.isfinite(number):
            found[str(name)[:100]] = number
    return found


def _send_files(frames: Frames, output: Path) -> None:
    for path in sorted(output.iterdir()):
        with path.open("rb") as file:
            while True:
                data = file.read(PART)
                frames.send({"file": path.name, "data": data})
                if len(data) < PART:
                    break


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
