"""Fetches the camera images of episodes from the spools of the stations, in parts, into files next to the store.

A thread appends, syncs and hashes the parts, so that no heartbeat and no stop waits for a disk. Few parts are requested
at once, so that other messages do not wait long behind them. The files survive sessions and processes: an upload
resumes at the end of its file. Only a file with the right hash is delivered.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path

from enpire.ids import file_name
from enpire.store import durable
from enpire.types import without_record
from enpire.wire.arrivals import Announced, Delivered, Refused
from enpire.wire.messages import LARGEST_PICTURES, PicturesPart, WantPictures

LEAST, MOST = 2**14, 2**20
"""Smallest and largest part in bytes. A part has as many bytes as the network carries in its share of `_SOON_S`, and at
most twice as many as the part before."""
_SOON_S = 1.0
"""Longest time that heartbeats and small episodes of a station wait behind its parts on a slow network."""
_AT_ONCE, _IN_ALL = 4, 8
"""Most parts that are requested or not yet written: of one upload, and of all uploads."""
_AGAIN_S = 5.0
"""A part that has not arrived after this time is requested again."""
_TRIES = 2
"""Tries of an upload; after the last wrong one its episode ends as invalid."""
_PER_STATION = 4
"""Most uploads that may wait for one station; a correct station announces fewer at a time."""
KEEP_FREE = 64 * 2**20
"""Free bytes of the disk that uploads leave for the ledger and small episodes."""


class _File:
    """The part of an episode's image file that has arrived. Only the worker thread uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digest = hashlib.sha256()

    def open(self, *, anew: bool) -> int:
        """Hash the bytes of an earlier upload, or remove them (`anew`); returns the size of the file."""
        durable.make_folder(self.path.parent)
        if anew:
            self.remove()
        try:
            with self.path.open("rb") as file:
                while data := file.read(MOST):
                    self._digest.update(data)
                return file.tell()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise durable.refusal(error, self.path) from error

    def append(self, data: bytes) -> int:
        durable.append(self.path, data)
        self._digest.update(data)
        return len(data)

    def remove(self) -> int:
        durable.remove(self.path)
        return 0

    def sha256(self) -> str:
        return self._digest.hexdigest()


@dataclass(slots=True, eq=False)
class _Upload:
    """The requested and received parts of one image file."""

    announced: Announced
    file: _File
    tries: int = 1
    got: int = -1
    """Bytes received in order; -1 until the file is open."""
    written: int = 0
    """Bytes that are durable."""
    writing: int = 0
    """Parts received and not yet durable."""
    total: int = -1
    """Bytes of the whole file; -1 until the first part."""
    asked: int = 0
    """The next byte to request."""
    requested: dict[int, float] = field(default_factory=dict[int, float])
    """Offset of each requested part that has not arrived -> time of the request."""
    size: int = LEAST
    """Bytes of the next part to request."""
    largest: int = 0
    """Bytes of the largest requested part."""
    came_s: float = -1e9
    """When the last part arrived."""
    answers: bool = False
    """Whether its last part arrived in time: then several may be requested at once."""
    reported: bool = False
    """Whether missing disk space was reported."""

    def opened(self, size: int) -> None:
        self.got = self.written = self.asked = size

    def wrote(self, size: int) -> None:
        self.written += size
        self.writing -= 1

    @property
    def pending(self) -> int:
        """Parts that are requested or not yet written."""
        return len(self.requested) + self.writing

    @property
    def may_request(self) -> bool:
        """Whether one more part may be requested."""
        few = self.pending < (_AT_ONCE if self.answers else 1)
        return few and self.got >= 0 and (self.total < 0 or self.asked < self.total)

    def next_request(self, now_s: float) -> WantPictures:
        want = WantPictures(order_id=self.file.path.name, offset=self.asked, size=self.size)
        self.requested[self.asked] = now_s
        self.asked += self.size
        self.largest = max(self.largest, self.size)
        return want

    def expire(self, now_s: float) -> None:
        """Give up parts that are overdue, and request small parts again from there on."""
        if self.requested and now_s - min(self.requested.values()) > _AGAIN_S:
            self.requested.clear()
            self.asked, self.size, self.answers = self.got, LEAST, False

    def fault(self, part: PicturesPart) -> str:
        """Why this part is not valid; empty when it is."""
        end = part.offset + len(part.data)
        if part.total > LARGEST_PICTURES:
            return f"they are {part.total} bytes, and at most {LARGEST_PICTURES} can be sent"
        if self.total not in (-1, part.total):
            return f"they were {self.total} bytes, and are {part.total} now"
        if end > part.total or (not part.data and end < part.total):
            return f"bytes {part.offset} to {end} of {part.total} came in one part"
        if len(part.data) > self.largest:  # a late reply may be longer than the last request
            return f"{len(part.data)} bytes came in one part, and at most {self.largest} were asked for"
        return ""

    def take(self, part: PicturesPart, now_s: float) -> None:
        """Count a valid part, and set the size of the next one from the measured rate."""
        took_s = max(now_s - max(self.came_s, self.requested.pop(part.offset, now_s)), 1e-3)
        carried = len(part.data) / took_s * _SOON_S / _AT_ONCE
        self.size, self.came_s = max(LEAST, min(MOST, 2 * self.size, int(carried))), now_s
        self.got, self.total, self.answers = self.got + len(part.data), part.total, True
        self.asked = max(self.asked, self.got)
        self.requested = {offset: asked_s for offset, asked_s in self.requested.items() if offset >= self.got}


class Uploads:
    """All uploads of a fleet. Use it from one thread.

    Args:
        folder: where the files grow, each named as its order.
        worker: executor with one thread that writes; `close` shuts it down.
        clock: monotonic seconds.
        say: sends a message to a station.
    """

    def __init__(
        self, folder: Path, worker: Executor, clock: Callable[[], float], say: Callable[[str, WantPictures], None]
    ) -> None:
        self._folder, self._worker, self._clock, self._say = folder, worker, clock, say
        self._of: OrderedDict[str, dict[str, _Upload]] = OrderedDict()
        self._tasks: deque[tuple[Future[int], Callable[[int], None]]] = deque()
        self._ready: list[Delivered | Refused] = []

    @property
    def writing(self) -> bool:
        """Whether the worker is busy: call `step` again soon."""
        return bool(self._tasks)

    def fetch(self, announced: Announced) -> None:
        """Get the images of an episode, from the first missing byte on. A second call does nothing."""
        order_id, mine = announced.episode.order.order_id, self._of.setdefault(announced.station, {})
        if order_id not in mine and len(mine) < _PER_STATION:
            self._begin(_Upload(announced, _File(self._folder / file_name(order_id, "an episode"))))

    def arrived(self, station: str, part: PicturesPart) -> None:
        """Take a part. A part that was not requested, or arrives twice or out of order, is dropped."""
        upload = self._of.get(station, {}).get(part.order_id)
        if upload is None or not upload.requested or part.offset != upload.got:
            return
        if why := upload.fault(part):
            self._retry(upload, why)
            return
        upload.take(part, self._clock())
        upload.writing += 1
        self._tasks.append((self._worker.submit(upload.file.append, part.data), upload.wrote))

    def step(self) -> Sequence[Delivered | Refused]:
        """Request more parts; returns the episodes that are complete now, and refusals for the log.

        Raises:
            StorageFull, OutcomeUnknown: the disk refused a part.
        """
        while self._tasks and self._tasks[0][0].done():
            task, then = self._tasks.popleft()
            then(task.result())
        for upload in [upload for mine in self._of.values() for upload in mine.values()]:
            if upload.written == upload.total:
                self._finish(upload)
        self._request()
        ready, self._ready = self._ready, []
        return ready

    def forget(self, station: str) -> None:
        """Request nothing more from a station that left or said hello again; its files stay."""
        self._of.pop(station, None)

    def close(self) -> None:
        """Wait for the last write. Allowed twice."""
        self._worker.shutdown()

    def _begin(self, upload: _Upload) -> None:
        self._of[upload.announced.station][upload.file.path.name] = upload
        self._tasks.append((self._worker.submit(upload.file.open, anew=upload.tries > 1), upload.opened))

    def _request(self) -> None:
        """Request parts from the stations in turn, each for its oldest upload, while more may be pending."""
        now_s = self._clock()
        oldest = [next(iter(mine.values())) for mine in self._of.values() if mine]
        for upload in oldest:
            upload.expire(now_s)
        room = _IN_ALL - sum(upload.pending for upload in oldest)
        for upload in oldest:
            while room > 0 and upload.may_request and self._has_room(upload):
                self._say(upload.announced.station, upload.next_request(now_s))
                self._of.move_to_end(upload.announced.station)
                room -= 1

    def _has_room(self, upload: _Upload) -> bool:
        """Whether the disk has space for all pending uploads. Without it the upload waits, and reports this once."""
        if upload.total < 0:
            return True  # the first part is small, and tells the size
        rest = sum(max(0, one.total - one.written) for mine in self._of.values() for one in mine.values())
        free = shutil.disk_usage(self._folder).free - KEEP_FREE
        if rest > free and not upload.reported:
            upload.reported = True
            needed = f"{rest - free} more bytes of free disk below {self._folder}"
            self._report(upload, f"wait: {rest} more bytes need {needed}")
        return rest <= free

    def _finish(self, upload: _Upload) -> None:
        came = upload.announced
        if upload.file.sha256() != came.episode.pictures_sha256:
            self._retry(upload, "their bytes do not match their hash")
            return
        del self._of[came.station][upload.file.path.name]
        whole = Delivered(
            station=came.station, lease=came.lease, episode=came.episode, arrays_file=came.arrays_file,
            pictures=upload.file.path,
        )  # fmt: skip
        self._ready.append(whole)

    def _retry(self, upload: _Upload, why: str) -> None:
        """Fetch the images once more; after the last try the episode ends as invalid."""
        came = upload.announced
        if upload.tries < _TRIES:
            self._report(upload, f"are fetched again: {why}")
            self._begin(_Upload(came, _File(upload.file.path), tries=upload.tries + 1))
            return
        del self._of[came.station][upload.file.path.name]
        self._tasks.append((self._worker.submit(upload.file.remove), upload.opened))
        episode = without_record(came.episode, f"its pictures cannot be had: {why}")
        self._ready.append(Delivered(station=came.station, lease=came.lease, episode=episode, arrays_file=b""))

    def _report(self, upload: _Upload, why: str) -> None:
        peer, order_id = upload.announced.station, upload.file.path.name
        self._ready.append(Refused(peer=peer, why=f"The pictures of its episode {order_id} {why}."))
