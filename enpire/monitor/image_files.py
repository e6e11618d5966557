"""Live images for a page in another process: it names the cameras that it shows, and the loop writes their images.

Both sides use one folder of the home. A request is a file that the page touches again and again; the loop answers with
a JPEG, or with the reason why there is none. The time of such a file is when its image came from the station. Nothing
is synced, because an image is valid for a moment only.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from enpire.errors import FileProblem
from enpire.home import Home
from enpire.ids import file_name
from enpire.store import removal
from enpire.wire.live_images import Preview, Previews

WANTED_S = 3.0
"""How long the loop writes the images of a camera after the last request, in seconds."""
ASK_EVERY_S = 0.5
LOOK_EVERY_S = 0.2
"""How often the loop looks for requests and writes images, in seconds."""
WANTED, IMAGE, REASON = ".wanted", ".jpg", ".why"
"""Endings of the files STATION/CAMERA: a request, the newest image, the reason why there is none."""


def _folder(home: Home) -> Path:
    return home.root / "live_images"


class ImageFileWriter:
    """The loop's side. Call `write` often, from one thread."""

    def __init__(self, home: Home, previews: Previews) -> None:
        """Take images from `previews`."""
        self._folder = _folder(home)
        self._previews = previews
        self._written: dict[Path, int] = {}
        """Request -> `came_ns` of the image that was written last."""
        self._looked_s = -LOOK_EVERY_S

    def write(self) -> None:
        """Write the newest image of each requested camera; a disk that refuses leaves the page without images."""
        if time.monotonic() < self._looked_s + LOOK_EVERY_S:
            return
        self._looked_s = time.monotonic()
        with contextlib.suppress(OSError):
            for wanted in self._folder.glob(f"*/*{WANTED}") if self._folder.is_dir() else ():
                if time.time() - wanted.stat().st_mtime < WANTED_S:
                    self._write(wanted)

    def _write(self, wanted: Path) -> None:
        newest = self._previews.look(wanted.parent.name, wanted.stem)
        if newest.came_ns == self._written.get(wanted, 0):
            return
        self._written[wanted] = newest.came_ns
        content, end = (newest.why.encode(), REASON) if newest.why else (newest.jpeg, IMAGE)
        staged = wanted.with_suffix(f"{end}-new")
        staged.write_bytes(content)
        os.utime(staged, ns=(newest.came_ns, newest.came_ns))
        removal.replace(staged, wanted.with_suffix(end), self._folder)


class ImageFileReader:
    """The page's side: `Previews` of a loop in another process. Thread-safe: a lost race reads an image twice."""

    def __init__(self, home: Home) -> None:
        """Ask for nothing before the first look."""
        self._folder = _folder(home)
        self._asked_s: dict[Path, float] = {}
        self._read: dict[Path, tuple[int, Preview]] = {}

    def look(self, station: str, camera: str) -> Preview:
        """The newest image, at once. The loop stops writing images of a camera three seconds after the last call."""
        try:
            folder = self._folder / file_name(station, "a station")
            wanted = folder / f"{file_name(camera, 'a camera')}{WANTED}"
            self._ask(wanted)
            return self._newest(wanted)
        except FileProblem as problem:
            return Preview(why=str(problem))
        except OSError as problem:
            return Preview(why=f"Live images cannot be read: {problem.strerror}.")

    def _ask(self, wanted: Path) -> None:
        now_s = time.monotonic()
        if now_s >= self._asked_s.get(wanted, -ASK_EVERY_S) + ASK_EVERY_S:
            self._asked_s[wanted] = now_s
            wanted.parent.mkdir(parents=True, exist_ok=True)
            wanted.touch()

    def _newest(self, wanted: Path) -> Preview:
        """The file that was written last; nothing if it is older than a request."""
        found = [path for end in (IMAGE, REASON) if (path := wanted.with_suffix(end)).is_file()]
        if not found:
            return Preview()
        path = max(found, key=lambda one: one.stat().st_mtime_ns)
        written = path.stat()
        known = self._read.get(wanted)
        if known is not None and known[0] == written.st_mtime_ns:
            return known[1]
        if time.time() - written.st_mtime > WANTED_S:
            return Preview()
        content, came_ns = path.read_bytes(), written.st_mtime_ns
        if path.suffix == IMAGE:
            preview = Preview(jpeg=content, came_ns=came_ns)
        else:
            preview = Preview(why=content.decode("utf-8", "replace"), came_ns=came_ns)
        self._read[wanted] = came_ns, preview
        return preview
