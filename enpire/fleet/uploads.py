"""The pictures of episodes on their way from the spools of the stations: pulled in parts, into files beside the store.

A thread appends, syncs and hashes what comes, so that no beat and no stop waits for a disk; few parts are under
way at once, so that none waits long behind them on the wire. The files outlive sessions and processes: an upload goes
on at the byte where its file ends. Only a file with the right hash is delivered.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path

from enpire.store import durable
from enpire.types import without_record
from enpire.wire.arrivals import Announced, Delivered, Refused
from enpire.wire.messages import LARGEST_PICTURES, PicturesPart, WantPictures

LEAST, MOST = 2**14, 2**20
"""Bytes of one part: as many as the wire carries in its share of `_SOON_S`, at most twice as many as the one before."""
_SOON_S = 1.0
"""Beats and small episodes of the same station wait about so long behind its parts, at most, on a thin wire."""
_AT_ONCE, _IN_ALL = 4, 8
"""Parts that are under way or not yet written: of one upload, of all of them."""
_AGAIN_S = 5.0
"""A part that has not come after so long is asked for again."""
_TRIES = 2
"""So many times wrong, and the episode ends as invalid."""
_PER_STATION = 4
"""Uploads that may wait here for one station; ours announce fewer at a time."""
KEEP_FREE = 64 * 2**20
"""Bytes of the disk that no upload takes: the ledger and small episodes need them."""


class _File:
    """The pictures of one episode as far as they are here. Only the worker touches it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digest = hashlib.sha256()

    def open(self, *, anew: bool) -> int:
        """Read what lies here from before, or remove it; its size."""
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
    """What was asked for, and what came."""

    announced: Announced
    file: _File
    tries: int = 1
    got: int = -1
    """Bytes that came, in order; -1 until the file is open."""
    written: int = 0
    """Bytes of them that are durable."""
    writing: int = 0
    """Parts that are not."""
    total: int = -1
    """Bytes of the whole file; -1 until a part says it."""
    asked: int = 0
    """The next byte to ask for."""
    under_way: dict[int, float] = field(default_factory=dict[int, float])
    """Offset of each part that was asked for and has not come -> when."""
    size: int = LEAST
    """Bytes of the next part to ask for."""
    largest: int = 0
    """Bytes of the largest part that was asked for."""
    came_s: float = -1e9
    """When the last part came."""
    answers: bool = False
    """Its last part came in time: more than one may be asked for at once."""
    told: bool = False
    """Somebody knows that there is no room for it."""

    def opened(self, size: int) -> None:
        self.got = self.written = self.asked = size

    def wrote(self, size: int) -> None:
        self.written += size
        self.writing -= 1

    @property
    def costs(self) -> int:
        """Parts that are under way or not yet written."""
        return len(self.under_way) + self.writing

    @property
    def wants(self) -> bool:
        """Whether one more part may be asked for."""
        few = self.costs < (_AT_ONCE if self.answers else 1)
        return few and self.got >= 0 and (self.total < 0 or self.asked < self.total)

    def ask(self, now_s: float) -> WantPictures:
        want = WantPictures(order_id=self.file.path.name, offset=self.asked, size=self.size)
        self.under_way[self.asked] = now_s
        self.asked += self.size
        self.largest = max(self.largest, self.size)
        return want

    def look(self, now_s: float) -> None:
        """Give up the parts that have not come for long: from there on it is asked again, and for little."""
        if self.under_way and now_s - min(self.under_way.values()) > _AGAIN_S:
            self.under_way.clear()
            self.asked, self.size, self.answers = self.got, LEAST, False

    def fault(self, part: PicturesPart) -> str:
        """Why no station may send this part; empty when it may."""
        end = part.offset + len(part.data)
        if part.total > LARGEST_PICTURES:
            return f"they are {part.total} bytes, and at most {LARGEST_PICTURES} can be sent"
        if self.total not in (-1, part.total):
            return f"they were {self.total} bytes, and are {part.total} now"
        if end > part.total or (not part.data and end < part.total):
            return f"bytes {part.offset} to {end} of {part.total} came in one part"
        if len(part.data) > self.largest:  # an answer that comes late may be longer than what was asked for last
            return f"{len(part.data)} bytes came in one part, and at most {self.largest} were asked for"
        return ""

    def take(self, part: PicturesPart, now_s: float) -> None:
        """Count a part that fits, and learn from it how large the next may be."""
        took_s = max(now_s - max(self.came_s, self.under_way.pop(part.offset, now_s)), 1e-3)
        carried = len(part.data) / took_s * _SOON_S / _AT_ONCE
        self.size, self.came_s = max(LEAST, min(MOST, 2 * self.size, int(carried))), now_s
        self.got, self.total, self.answers = self.got + len(part.data), part.total, True
        self.asked = max(self.asked, self.got)
        self.under_way = {offset: asked_s for offset, asked_s in self.under_way.items() if offset >= self.got}


class Uploads:
    """All uploads of a fleet. Use it from one thread.

    Args:
        folder: where the files grow, each named as its order.
        worker: the thread that writes; `close` shuts it down.
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
        """Whether the worker is busy: look again soon."""
        return bool(self._tasks)

    def fetch(self, announced: Announced) -> None:
        """Get the pictures of an episode, from where they stand. A second time, nothing happens."""
        order_id, mine = announced.episode.order.order_id, self._of.setdefault(announced.station, {})
        if order_id not in mine and len(mine) < _PER_STATION:
            self._begin(_Upload(announced, _File(self._folder / order_id)))

    def arrived(self, station: str, part: PicturesPart) -> None:
        """Take a part. One that nobody asked for, or that comes twice or too early, is dropped."""
        upload = self._of.get(station, {}).get(part.order_id)
        if upload is None or not upload.under_way or part.offset != upload.got:
            return
        if why := upload.fault(part):
            self._spoilt(upload, why)
            return
        upload.take(part, self._clock())
        upload.writing += 1
        self._tasks.append((self._worker.submit(upload.file.append, part.data), upload.wrote))

    def step(self) -> Sequence[Delivered | Refused]:
        """See what is written and ask for more; the episodes that are whole now, and complaints.

        StorageFull or OutcomeUnknown when the disk refused a part.
        """
        while self._tasks and self._tasks[0][0].done():
            task, then = self._tasks.popleft()
            then(task.result())
        for upload in [upload for mine in self._of.values() for upload in mine.values()]:
            if upload.written == upload.total:
                self._whole(upload)
        self._ask()
        ready, self._ready = self._ready, []
        return ready

    def forget(self, station: str) -> None:
        """The station is gone, or says hello again: what came from it stays, and nothing more is asked for."""
        self._of.pop(station, None)

    def close(self) -> None:
        """Wait for what is being written. Allowed twice."""
        self._worker.shutdown()

    def _begin(self, upload: _Upload) -> None:
        self._of[upload.announced.station][upload.file.path.name] = upload
        self._tasks.append((self._worker.submit(upload.file.open, anew=upload.tries > 1), upload.opened))

    def _ask(self) -> None:
        """Ask the stations in turn, each for its oldest, as long as more parts may be under way."""
        now_s = self._clock()
        oldest = [next(iter(mine.values())) for mine in self._of.values() if mine]
        for upload in oldest:
            upload.look(now_s)
        room = _IN_ALL - sum(upload.costs for upload in oldest)
        for upload in oldest:
            while room > 0 and upload.wants and self._has_room(upload):
                self._say(upload.announced.station, upload.ask(now_s))
                self._of.move_to_end(upload.announced.station)
                room -= 1

    def _has_room(self, upload: _Upload) -> bool:
        """Whether the disk has space for all that is to come. Without it the upload waits, and says so once."""
        if upload.total < 0:
            return True  # the first part is small, and says how many bytes there are
        rest = sum(max(0, one.total - one.written) for mine in self._of.values() for one in mine.values())
        free = shutil.disk_usage(self._folder).free - KEEP_FREE
        if rest > free and not upload.told:
            upload.told = True
            self._complain(upload, f"wait: {rest} more bytes need {rest - free} more free ones below {self._folder}")
        return rest <= free

    def _whole(self, upload: _Upload) -> None:
        came = upload.announced
        if upload.file.sha256() != came.episode.pictures_sha256:
            self._spoilt(upload, "their bytes do not match their hash")
            return
        del self._of[came.station][upload.file.path.name]
        whole = Delivered(
            station=came.station, lease=came.lease, episode=came.episode, arrays_file=came.arrays_file,
            pictures=upload.file.path,
        )  # fmt: skip
        self._ready.append(whole)

    def _spoilt(self, upload: _Upload, why: str) -> None:
        """Get them once more; after that the order ends."""
        came = upload.announced
        if upload.tries < _TRIES:
            self._complain(upload, f"are fetched anew: {why}")
            self._begin(_Upload(came, _File(upload.file.path), tries=upload.tries + 1))
            return
        del self._of[came.station][upload.file.path.name]
        self._tasks.append((self._worker.submit(upload.file.remove), upload.opened))
        episode = without_record(came.episode, f"its pictures cannot be had: {why}")
        self._ready.append(Delivered(station=came.station, lease=came.lease, episode=episode, arrays_file=b""))

    def _complain(self, upload: _Upload, why: str) -> None:
        peer, order_id = upload.announced.station, upload.file.path.name
        self._ready.append(Refused(peer=peer, why=f"The pictures of its episode {order_id} {why}."))
