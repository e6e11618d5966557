"""A station that works now, in Rerun: its state, critics, interventions, verdicts and images, as the page gets them.

The timeline is the wall clock. Only what changed is written.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Generator, Mapping
from typing import Any, Literal

import numpy as np

from enpire.datasets.rerun_export import APPLICATION, open_rerun
from enpire.errors import TransportProblem, UnknownName, UsageError
from enpire.home import Home
from enpire.monitor.lab_snapshot import LETTERS, LabSnapshot, StationLine
from enpire.monitor.live_file import LiveFileReader
from enpire.monitor.live_lab import LiveLab
from enpire.types import OPERATOR, PEOPLE

TIMELINE = "wall_clock"
EVERY_S = 0.1
FLUSH_S = 5.0
"""How long the end of a stream waits for a viewer that is away [s]."""
JOINS_S = 30.0
"""How long a station may be missing while stations join [s]."""
_OUTCOMES = {letter: outcome for outcome, letter in LETTERS.items()}
Level = Literal["INFO", "WARN", "ERROR"]


class RerunStream:
    """A Rerun recording that grows while a station works."""

    def __init__(self, place: str) -> None:
        """Open a file, or connect to a viewer.

        Args:
            place: new file NAME.rrd, an address such as rerun+http://127.0.0.1:9876/proxy, or empty for the viewer on
                this machine.

        Raises:
            MissingExtra: Rerun is not installed.
            UsageError: the place is neither.
        """
        self._rr = open_rerun()
        self._recording: Any = self._rr.RecordingStream(APPLICATION, recording_id=secrets.token_hex(16))
        if place.endswith(".rrd") and "://" not in place:
            if os.path.lexists(place):
                raise UsageError(f"{place} exists already: name a new file for the recording.")
            self._recording.save(place)
        elif not place or place.startswith(("rerun://", "rerun+http://", "rerun+https://")):
            self._recording.connect_grpc(place or None)
        else:
            raise UsageError(
                f"{place[:80]!r} is no place for a stream: name a file NAME.rrd, or rerun+http://HOST:PORT/proxy."
            )
        self._shown: StationLine | None = None
        self._names: tuple[str, ...] = ()
        self._images: dict[str, bytes] = {}
        self.written = 0
        """Looks at the station that brought something new."""

    def show(self, line: StationLine, images: Mapping[str, bytes], now_s: float) -> None:
        """Write what changed since the last call.

        Args:
            line: the station now.
            images: camera -> JPEG, of cameras that sent one.
            now_s: wall clock, in seconds.
        """
        before = self._shown
        changed_images = {camera: data for camera, data in images.items() if self._images.get(camera) != data}
        if line == before and not changed_images:
            return
        self._recording.set_time(TIMELINE, timestamp=now_s)
        self._numbers(line, before)
        for text, level in _notes(line, before):
            self._recording.log("events", self._rr.TextLog(text, level=level))
        for outcome in _outcomes(line, before):
            self._recording.log("verdict", self._rr.TextDocument(outcome))
        for camera, data in changed_images.items():
            self._recording.log(f"cameras/{camera}", self._rr.EncodedImage(contents=data, media_type="image/jpeg"))
        self._shown, self._images = line, {**self._images, **changed_images}
        self.written += 1

    def close(self) -> None:
        """Write what waits, and end the recording. Allowed twice. TransportProblem if the viewer does not take it."""
        try:
            self._recording.flush(timeout_sec=FLUSH_S)
        except RuntimeError as problem:
            raise TransportProblem(
                f"The viewer did not take all of the recording ({problem}); start it first."
            ) from problem
        finally:
            self._recording.disconnect()

    def _numbers(self, line: StationLine, before: StationLine | None) -> None:
        names = tuple(f"{one.name} [{one.unit}]" if one.unit else one.name for one in line.sensed)
        if names and names != self._names:
            self._recording.log("state", self._rr.SeriesLines(names=list(names)), static=True)
            self._names = names
        if line.sensed and (before is None or line.sensed != before.sensed):
            self._scalars("state", *(one.value for one in line.sensed))
        if line.viability is not None and (before is None or line.viability != before.viability):
            self._scalars("critics/viability", line.viability)
        if before is None or line.moved_by != before.moved_by:
            self._scalars("intervention", float(line.moved_by == OPERATOR))

    def _scalars(self, entity: str, *values: float) -> None:
        self._recording.log(entity, self._rr.Scalars(np.asarray(values, np.float64)))


def watch(home: Home, station: str, stream: RerunStream) -> Generator[bool]:
    """Show a station of the running campaign in a stream; yields after each look, whether a campaign runs.

    Raises:
        UnknownName: the campaign has no such station.
    """
    live, missing_s = LiveLab(home), time.monotonic() + JOINS_S
    try:
        with LiveFileReader(home, live):
            while True:
                snapshot = live.snapshot()
                if snapshot is not None and (line := _line(snapshot, station, time.monotonic() > missing_s)):
                    found = {camera: live.picture(station, camera).jpeg for camera in line.cameras}
                    stream.show(line, {camera: data for camera, data in found.items() if data}, time.time())
                yield snapshot is not None and bool(snapshot.campaign_id)
                time.sleep(EVERY_S)
    finally:
        stream.close()


def _line(snapshot: LabSnapshot, station: str, late: bool) -> StationLine | None:
    """The line of a station; None while it may still join. UnknownName when it is late and others are there."""
    names = {line.name: line for line in snapshot.stations}
    if station not in names:
        if not (late and names):
            return None
        raise UnknownName(f"The campaign has no station {station[:80]!r}; it has: {', '.join(names)}.")
    return names[station]


def _notes(line: StationLine, before: StationLine | None) -> Generator[tuple[str, Level]]:
    """(text, level) of what began or ended."""
    if before is None or line.phase != before.phase:
        yield f"Phase: {line.phase}", "INFO"
    was, now = before.moved_by if before else "", line.moved_by
    if now != was:
        texts = {OPERATOR: "Intervention: a person takes over", PEOPLE: "Holds until a person demonstrates"}
        yield texts.get(now, f"Moved by {now or 'nothing'}"), "WARN" if now == OPERATOR else "INFO"
    if line.alarm and (before is None or line.alarm != before.alarm):
        yield f"Guard or station: {line.alarm}", "ERROR"
    if line.stopped and not (before and before.stopped):
        yield f"The station is stopped{' by ' + line.stopped_by if line.stopped_by else ''}", "ERROR"
    for outcome in _outcomes(line, before):
        yield f"Verdict: {outcome}", "ERROR" if outcome == "unsafe" else "INFO"


def _outcomes(line: StationLine, before: StationLine | None) -> list[str]:
    """The outcomes of the episodes that ended since the last look, oldest first."""
    new = line.episodes - before.episodes if before else 0
    return [_OUTCOMES.get(letter, letter) for letter in line.verdicts[-new:]] if new > 0 else []
