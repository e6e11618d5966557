"""Still images of alarms that a chat loads by their address.

A chat signs in nowhere. Each still therefore has a name of 256 random bits, which only the message has, and it is gone
after twelve hours. A station sends live images on request only, so the first one takes a moment.
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
ASK_EVERY_S = 0.25
FOLDER = "stills"
"""First part of the path of a still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Still:
    jpeg: bytes
    ends_s: float
    """Monotonic time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenStill:
    """Where a still is, and what it shows."""

    path: str
    """Below the address of the page."""
    station: str
    camera: str


class Stills:
    """The stills of one server; any thread may call the methods."""

    def __init__(self, live: LiveLab, lasts_s: float = LASTS_S) -> None:
        """Keep nothing before `take`.

        Args:
            live: the lab whose cameras are asked.
            lasts_s: seconds for which a still can be loaded.
        """
        self._live, self._lasts_s = live, lasts_s
        self._kept: dict[str, _Still] = {}
        self._guard = threading.Lock()

    def take(self, stations: Sequence[str], wait_s: float, ended: threading.Event) -> TakenStill | None:
        """Keep a live image of the first of these stations that has a camera.

        Args:
            stations: their names; no names of stations are passed over.
            wait_s: longest wait for the image; `ended` ends it before.
            ended: set when the server stops.

        Returns:
            the still; None where no such station has a camera, or it sends no image.
        """
        asked = self._camera(stations)
        if asked is None or not isinstance(self._live, LiveCameras):
            return None
        deadline_s = time.monotonic() + wait_s
        while True:
            newest = self._live.picture(*asked)
            if newest.jpeg:
                return TakenStill(path=self._keep(newest.jpeg), station=asked[0], camera=asked[1])
            if newest.why or time.monotonic() >= deadline_s or ended.wait(ASK_EVERY_S):
                return None

    def find(self, name: str) -> bytes | None:
        """The JPEG of that name; None if there is none, or its time is over."""
        with self._guard:
            found = self._kept.get(name)
        return found.jpeg if found is not None and time.monotonic() < found.ends_s else None

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

    def _keep(self, jpeg: bytes) -> str:
        name = f"{secrets.token_urlsafe(32)}.jpg"
        now_s = time.monotonic()
        with self._guard:
            valid = [(key, one) for key, one in self._kept.items() if now_s < one.ends_s]
            self._kept = dict(valid[1 - MOST :])
            self._kept[name] = _Still(jpeg=jpeg, ends_s=now_s + self._lasts_s)
        return f"/{FOLDER}/{name}"
