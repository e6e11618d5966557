"""What the cameras of a station see at every command: compressed and written beside the control loop.

A lane's pictures go into one file per episode (`enpire.store.pictures`), which is durable before the episode is. The
control loop only hands arrays over. What cannot be kept ends the episode: nothing could be learned from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from enpire.errors import EnpireError, StorageFull, UsageError
from enpire.gate.gate import DISK_FULL
from enpire.interfaces import Policy, Sees
from enpire.store.pictures import PicturesWriter, Seen
from enpire.types import IntArray, Observation, OutcomeKind
from enpire.wire.host_services import THIS_HOST
from enpire.wire.messages import Parcel

MOST_WAITING = 256 * 2**20
"""Bytes of pictures that may wait for the compressor: 145 of two cameras of 640 x 480, five seconds at 30 Hz."""
Cameras = tuple[str, ...] | Literal["all"]
End = tuple[OutcomeKind, str]
"""How an episode ends whose pictures cannot be kept, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """What a station records."""

    cameras: Cameras = ()
    """Of every episode."""
    looked_at: bool = False
    """Also all that a policy is shown: for robots whose episodes cannot run again."""
    waits: bool = False
    """Pictures that come too fast hold up a simulation; a robot's control loop waits for nobody."""

    def check(self, there: Sequence[str]) -> None:
        """UsageError when a camera shall be recorded that is not among those that give pictures."""
        wanted = self.cameras if self.cameras != "all" else () if there else ("all",)
        if missing := [camera for camera in wanted if camera not in there]:
            raise UsageError(
                f"The station shall record {missing[0]!r}, but its robot gives pictures of "
                f"{', '.join(there) or 'no camera'}; correct `record`, or see to the cameras (a simulation needs a GL "
                "library, `enpire doctor` says which)."
            )


class _ImageFile:
    """The pictures of one episode, written by the worker."""

    def __init__(self, path: Path, worker: Executor) -> None:
        self._path, self._worker = path, worker
        self._writer: PicturesWriter | None = None
        self.failed: EnpireError | None = None
        """Why these pictures cannot be kept."""
        self.latest: tuple[int, Seen] | None = None
        """The newest instant, which is not handed over yet: a robot that holds still is seen again."""

    def hand_over(self, tick: int, seen: Seen) -> Future[None]:
        """Let the pictures of one instant be compressed and written."""
        return self._worker.submit(self._write, tick, seen)

    def finish(self) -> Future[str]:
        """Make the file durable when all is written; its sha256."""
        return self._worker.submit(self._finish)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._worker.submit(self._discard)

    def _write(self, tick: int, seen: Seen) -> None:
        if self.failed is not None:
            return
        try:
            self._writer = self._writer or PicturesWriter(self._path)
            for camera, image in seen.items():
                self._writer.add(camera, tick, image)
        except EnpireError as problem:
            self.failed = problem
            self._discard()

    def _finish(self) -> str:
        if self.failed is not None:
            raise self.failed
        assert self._writer is not None  # a film begins with its first picture
        try:
            return self._writer.finish()
        finally:
            self._writer.discard()

    def _discard(self) -> None:
        if self._writer is not None:
            self._writer.discard()


class CameraRecorder:
    """The films of a station's lanes.

    Args:
        rule: what is recorded.
        place: order_id -> where the file must lie when its episode is announced.
        worker: makes the thread that compresses and writes.
    """

    def __init__(
        self, rule: RecordingRule | None = None, place: Callable[[str], Path] = Path,
        worker: Callable[[], Executor] = THIS_HOST.helper,
    ) -> None:  # fmt: skip
        self._rule, self._place, self._new_worker = rule or RecordingRule(), place, worker
        self._worker: Executor | None = None
        self._look: Callable[[int], Seen] = lambda _: {}
        self._wanted: dict[int, tuple[str, Cameras]] = {}
        self._files: dict[int, _ImageFile] = {}
        self._now: dict[int, Seen] = {}
        self._waiting: deque[tuple[Future[None], int]] = deque()
        self._developing: dict[str, Future[str]] = {}
        self.largest = 0
        """Bytes of the largest file so far: what the next episode may take."""

    def look_with(self, look: Callable[[int], Seen]) -> None:
        """How a lane is looked at whose observations have no pictures."""
        self._look = look

    def begin(self, lane: int, order_id: str, policy: Policy) -> None:
        """A new episode in this lane; whether it is recorded, the rule and its policy say."""
        looks = self._rule.looked_at and isinstance(policy, Sees) and policy.needs_images
        cameras = "all" if looks else self._rule.cameras
        self._now.pop(lane, None)
        if cameras:
            self._wanted[lane] = order_id, cameras

    def look(self, lane: int) -> Seen:
        """camera -> picture of one lane now; the very ones that are recorded, where they are."""
        return self._now[lane] if lane in self._now else self._look(lane)

    def expose(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> Mapping[int, End]:
        """Record what these lanes (n,) see before their next command, after `ticks` (n,) commands.

        `observation` has one row for every lane of the rig. Returns lane -> how its episode ends, where it must.
        """
        self._now = {
            lane: {camera: images[lane] for camera, images in observation.images.items()} or self._look(lane)
            for lane in lanes.tolist()
            if lane in self._wanted
        }
        at = dict(zip(lanes.tolist(), ticks.tolist(), strict=True))
        return {lane: end for lane in self._now if (end := self._record(lane, at[lane])) is not None}

    def end(self, lane: int, ticks: int) -> None:
        """The episode of this lane ended with so many commands in its record; of one without, nothing is kept."""
        order_id, _ = self._wanted.pop(lane, ("", ()))
        film = self._files.pop(lane, None)
        self._now.pop(lane, None)
        if film is None:
            return
        if not ticks:
            film.discard()
            return
        if film.latest is not None and film.latest[0] <= ticks:
            film.hand_over(*film.latest)
        self._developing[order_id] = film.finish()

    def developed(self, parcel: Parcel, *, wait: bool = False) -> Parcel | None:
        """The parcel of an episode when its pictures are durable or lost, None before (or waits)."""
        order_id = parcel.episode.order.order_id
        future = self._developing.get(order_id)
        if future is None:
            return parcel
        if not (wait or future.done()):
            return None
        del self._developing[order_id]
        try:
            digest = future.result()
        except EnpireError as problem:
            outcome, cause = _end(problem)
            return replace(parcel, episode=replace(parcel.episode, outcome=outcome, cause=cause, confidence=0.0))
        if digest:
            self.largest = max(self.largest, self._place(order_id).stat().st_size)
        return replace(parcel, episode=replace(parcel.episode, pictures_sha256=digest))

    def close(self) -> None:
        """End the worker when all that was handed over is written. What did not end is discarded."""
        for film in self._files.values():
            film.discard()
        if self._worker is not None:
            self._worker.shutdown(wait=True)

    def _record(self, lane: int, tick: int) -> End | None:
        order_id, cameras = self._wanted[lane]
        shown = self._now[lane]
        wanted = cameras if cameras != "all" else tuple(shown)
        missing = [name for name in wanted if name not in shown]
        if missing or not wanted:
            return _lost(f"camera {missing[0]} gave none" if missing else "no camera gave any")
        film = self._files.get(lane)
        if film is None:
            self._worker = self._worker or self._new_worker()
            film = self._files[lane] = _ImageFile(self._place(order_id), self._worker)
        if film.failed is not None:
            return _end(film.failed)
        if film.latest is not None and film.latest[0] < tick:
            if not self._has_room():
                return _lost("this computer cannot compress them as fast as they come; record fewer cameras")
            then, seen = film.latest
            self._waiting.append((film.hand_over(then, seen), sum(image.nbytes for image in seen.values())))
        film.latest = tick, {name: shown[name] for name in wanted}
        return None

    def _has_room(self) -> bool:
        """Whether more pictures may wait, now or, where the rule says so, after a while."""
        while self._waiting and (self._waiting[0][0].done() or (self._rule.waits and self._is_full())):
            self._waiting.popleft()[0].result()
        return not self._is_full()

    def _is_full(self) -> bool:
        return sum(size for _, size in self._waiting) > MOST_WAITING


def _end(problem: EnpireError) -> End:
    """A disk without space is nobody's fault, and a trial that it cut off is given again."""
    return ("aborted", DISK_FULL) if isinstance(problem, StorageFull) else _lost(str(problem))


def _lost(why: str) -> End:
    return "invalid", f"its pictures cannot be kept: {why}"[:1000]
