"""Writes an episode as a Rerun recording (.rrd), one recording for each episode; `rerun FILE` shows it.

Timelines: `command`, the number of the command, and `time`, seconds since the rollout began.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from enpire.datasets.timelines import EncodedImages, Timeline, is_jpeg
from enpire.errors import MissingExtra

if TYPE_CHECKING:
    from types import ModuleType

APPLICATION = "enpire"
"""Under which the viewer groups the recordings."""


def write_rrd(timeline: Timeline, images: Iterable[tuple[int, EncodedImages]], path: Path) -> None:
    """Write one episode to a new file.

    Args:
        timeline: of the episode.
        images: (tick, camera -> JPEG or PNG bytes), in order of ticks.
        path: of the file.

    Raises:
        MissingExtra: Rerun is not installed.
    """
    rr = open_rerun()
    recording: Any = rr.RecordingStream(APPLICATION, recording_id=timeline.episode.order.order_id)
    try:
        recording.save(path)
        _describe(rr, recording, timeline)
        _numbers(rr, recording, timeline)
        _notes(rr, recording, timeline)
        for tick, seen in images:
            for camera, data in seen.items():
                kind = "image/jpeg" if is_jpeg(data) else "image/png"
                columns = rr.EncodedImage.columns(blob=[data], media_type=[kind])
                recording.send_columns(f"cameras/{camera}", indexes=_times(rr, timeline, [tick]), columns=columns)
        recording.flush()
    finally:
        recording.disconnect()


def open_rerun() -> Any:
    """Rerun's module; MissingExtra where it is not installed."""
    try:
        import rerun
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Recordings of Rerun need its package ({error}): pip install 'enpire[rerun]'.") from error
    module: ModuleType = rerun
    return module


def _times(rr: Any, timeline: Timeline, ticks: Sequence[int]) -> list[Any]:
    seconds = np.asarray(ticks, np.float64) * timeline.spec.period_s
    return [rr.TimeColumn("command", sequence=np.asarray(ticks)), rr.TimeColumn("time", duration=seconds)]


def _describe(rr: Any, recording: Any, timeline: Timeline) -> None:
    facts = timeline.facts()
    recording.send_recording_name(f"{facts['episode']} {facts['outcome']}")
    recording.send_recording_start_time_nanos(timeline.began_ns)
    recording.send_property("enpire", rr.AnyValues(**facts))
    for entity, bounds in (("state", timeline.spec.state), ("action", timeline.spec.action)):
        names = [f"{one.name} [{one.unit}]" if one.unit else one.name for one in bounds]
        recording.log(entity, rr.SeriesLines(names=names), static=True)


def _numbers(rr: Any, recording: Any, timeline: Timeline) -> None:
    arrays, count = timeline.arrays, timeline.ticks
    series: list[tuple[str, Sequence[int], Any]] = [
        ("state", range(count + 1), arrays.state),
        ("action", range(count), arrays.action),
        ("source", range(count), arrays.source),
        ("intervention", range(count), timeline.human),
    ]
    for name in timeline.critics:
        decided = list(timeline.decisions(name))
        values = np.array([value for _, value in decided], np.float64)
        series.append((f"critics/{name}", [tick for tick, _ in decided], values))
    for entity, ticks, values in series:
        if len(ticks):
            columns = rr.Scalars.columns(scalars=np.asarray(values, np.float64).reshape(len(ticks), -1))
            recording.send_columns(entity, indexes=_times(rr, timeline, list(ticks)), columns=columns)


def _notes(rr: Any, recording: Any, timeline: Timeline) -> None:
    notes = timeline.notes
    columns = rr.TextLog.columns(text=[note.text for note in notes], level=[note.level for note in notes])
    recording.send_columns("events", indexes=_times(rr, timeline, [note.tick for note in notes]), columns=columns)
    last = [timeline.ticks]
    verdict = rr.TextDocument.columns(text=[timeline.episode.outcome])
    recording.send_columns("verdict", indexes=_times(rr, timeline, last), columns=verdict)
