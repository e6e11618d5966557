"""Still images of alarms that a chat loads by their address.

A chat signs in nowhere. Each still therefore has a name of 256 random bits, which only the message has, and it is gone
after twelve hours. An image is taken only if it came from the station while its alarm began: a station that hangs, or a
tab that was open for hours, leaves an older one behind.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from web_ui.live import LiveCameras, LiveLab

LASTS_S = 12 * 3600.0
"""Seconds for which a still can be loaded: a night."""
MOST = 50
"""Most stills that are kept, in memory; the oldest one goes first."""
EARLIEST_NS, LATEST_NS = -1_000_000_000, 15_000_000_000
"""An image of an alarm came from the station at most 1 s before and 15 s after this server saw the alarm begin."""
FOLDER = "stills"
"""First part of the path of a still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Still:
    jpeg: bytes
    ends_s: float
    """Monotonic time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmImage:
    """An image of a station, of the time at which an alarm began."""

    station: str
    camera: str
    jpeg: bytes
    came_ns: int
    """Wall-clock time at which it came from the station, in ns."""
    of_ns: int
    """Wall-clock time at which the alarm began, in ns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenStill:
    """Where a still is, and what it shows."""

    path: str
    """Below the address of the page."""
    image: AlarmImage


class Stills:
    """The stills of one server; any thread may call the methods."""

    def __init__(self, live: LiveLab, lasts_s: float = LASTS_S) -> None:
        """Keep nothing before `keep`.

        Args:
            live: the lab whose cameras are asked.
            lasts_s: seconds for which a still can be loaded.
        """
        self._live, self._lasts_s = live, lasts_s
        self._kept: dict[str, _Still] = {}
        self._guard = threading.Lock()

    def look(self, stations: Sequence[str], of_ns: int) -> AlarmImage | None:
        """The newest image of the first of these stations that has a camera, at once.

        A station sends images on request, so the first call gives none; call it again.

        Args:
            stations: their names; no names of stations are passed over.
            of_ns: wall-clock time at which the alarm began, in ns.

        Returns:
            None where no such station has a camera, or its newest image is not of that time.
        """
        asked = self._camera(stations)
        if asked is None or not isinstance(self._live, LiveCameras):
            return None
        newest = self._live.picture(*asked)
        if not newest.jpeg or not EARLIEST_NS <= newest.came_ns - of_ns <= LATEST_NS:
            return None
        return AlarmImage(station=asked[0], camera=asked[1], jpeg=newest.jpeg, came_ns=newest.came_ns, of_ns=of_ns)

    def keep(self, image: AlarmImage) -> TakenStill:
        """Let a chat load an image from now on."""
        name = f"{secrets.token_urlsafe(32)}.jpg"
        now_s = time.monotonic()
        with self._guard:
            valid = [(key, one) for key, one in self._kept.items() if now_s < one.ends_s]
            self._kept = dict(valid[1 - MOST :])
            self._kept[name] = _Still(jpeg=image.jpeg, ends_s=now_s + self._lasts_s)
        return TakenStill(path=f"/{FOLDER}/{name}", image=image)

    def find(self, name: str) -> bytes | None:
        """The JPEG of that name; None if there is none, or its time is over."""
        with self._guard:
            found = self._kept.get(name)
        return found.jpeg if found is not None and time.monotonic() < found.ends_s else None

    def forget(self) -> None:
        """End the time of all stills."""
        with self._guard:
            self._kept = {}

    def stations(self) -> tuple[str, ...]:
        """All stations of the running campaign."""
        now = self._live.snapshot()
        return tuple(line.name for line in now.stations) if now is not None else ()

    def _camera(self, stations: Sequence[str]) -> tuple[str, str] | None:
        """The first station with a camera that is connected, and that camera."""
        now = self._live.snapshot()
        lines = {line.name: line for line in now.stations} if now is not None else {}
        for name in stations:
            line = lines.get(name)
            if line is not None and line.cameras and line.phase != "offline":
                return name, line.cameras[0]
        return None
