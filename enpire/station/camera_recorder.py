"""Records camera images at every command: compressed and written in a thread next to the control loop.

A lane's images go into one file per episode (`enpire.store.pictures`), which is durable before the episode is. The
control loop only hands arrays over. An episode whose images cannot be kept ends: nothing could be learned from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from enpire.errors import EnpireError, StorageFull, UsageError
from enpire.gate.trials import DISK_FULL
from enpire.interfaces import DeclaresImages, Policy
from enpire.store.pictures import PicturesWriter, Seen
from enpire.types import IntArray, Observation, OutcomeKind
from enpire.wire.host_services import THIS_HOST
from enpire.wire.messages import Parcel

MOST_WAITING = 256 * 2**20
"""Most bytes of images that may wait for compression: 145 pairs of 640 x 480 images, 5 s at 30 Hz."""
Cameras = tuple[str, ...] | Literal["all"]
End = tuple[OutcomeKind, str]
"""Outcome and cause of an episode whose images cannot be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """Which camera images a station records."""

    cameras: Cameras = ()
    """Cameras to record in every episode."""
    policy_images: bool = False
    """Also record every image that a policy uses: for robots whose episodes cannot be replayed."""
    waits: bool = False
    """Whether to wait for the compressor when images come too fast: in simulations only, never on a robot."""

    def check(self, there: Sequence[str]) -> None:
        """Check the cameras against those that give images.

        Raises:
            UsageError: a camera to record gives no images.
        """
        wanted = self.cameras if self.cameras != "all" else () if there else ("all",)
        if missing := [camera for camera in wanted if camera not in there]:
            raise UsageError(
                f"The station file asks to record {missing[0]!r}, but the robot gives images of "
                f"{', '.join(there) or 'no camera'}; correct `record`, or check the cameras (a simulation needs a GL "
                "library; run `enpire doctor`)."
            )


class _ImageFile:
    """The image file of one episode, written by the worker thread."""

    def __init__(self, path: Path, worker: Executor) -> None:
        self._path, self._worker = path, worker
        self._writer: PicturesWriter | None = None
        self.failed: EnpireError | None = None
        """Why these images cannot be kept."""
        self.latest: tuple[int, Seen] | None = None
        """Tick and images of the newest frame, not handed over yet: while a robot holds, its frame is replaced."""

    def hand_over(self, tick: int, seen: Seen) -> Future[None]:
        """Compress and write the images of one tick in the worker thread."""
        return self._worker.submit(self._write, tick, seen)

    def finish(self) -> Future[str]:
        """Make the file durable after the last write; returns its sha256."""
        return self._worker.submit(self._finish)

    def discard(self) -> None:
        """Remove the file."""
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
        assert self._writer is not None  # a file is opened with its first image
        try:
            return self._writer.finish()
        finally:
            self._writer.discard()

    def _discard(self) -> None:
        if self._writer is not None:
            self._writer.discard()


class CameraRecorder:
    """Records the camera images of a station's lanes.

    Args:
        rule: which cameras are recorded.
        place: order_id -> path of the file when its episode is announced.
        worker: makes the executor that compresses and writes.
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
        self._finishing: dict[str, Future[str]] = {}
        self.largest = 0
        """Bytes of the largest file so far: an estimate for the next episode."""

    def look_with(self, look: Callable[[int], Seen]) -> None:
        """Set how to get the images of a lane whose observations carry none."""
        self._look = look

    def begin(self, lane: int, order_id: str, policy: Policy) -> None:
        """Begin an episode in this lane; the rule and the policy decide which cameras are recorded."""
        looks = self._rule.policy_images and isinstance(policy, DeclaresImages) and policy.needs_images
        cameras = "all" if looks else self._rule.cameras
        self._now.pop(lane, None)
        if cameras:
            self._wanted[lane] = order_id, cameras

    def look(self, lane: int) -> Seen:
        """Camera -> image, uint8 (height, width, 3), of one lane now; the recorded images where there are any."""
        return self._now[lane] if lane in self._now else self._look(lane)

    def record(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> Mapping[int, End]:
        """Record the images of these lanes before their next command.

        Args:
            observation: one row for every lane of the rig.
            lanes: int64 (n,), the lanes that roll out.
            ticks: int64 (n,), commands that each lane has had.

        Returns:
            lane -> how its episode ends, where images cannot be kept.
        """
        self._now = {
            lane: {camera: images[lane] for camera, images in observation.images.items()} or self._look(lane)
            for lane in lanes.tolist()
            if lane in self._wanted
        }
        at = dict(zip(lanes.tolist(), ticks.tolist(), strict=True))
        return {lane: end for lane in self._now if (end := self._record(lane, at[lane])) is not None}

    def end(self, lane: int, ticks: int) -> None:
        """The episode of this lane ended with `ticks` recorded commands; with 0 its images are removed."""
        order_id, _ = self._wanted.pop(lane, ("", ()))
        file = self._files.pop(lane, None)
        self._now.pop(lane, None)
        if file is None:
            return
        if not ticks:
            file.discard()
            return
        if file.latest is not None and file.latest[0] <= ticks:
            file.hand_over(*file.latest)
        self._finishing[order_id] = file.finish()

    def completed(self, parcel: Parcel, *, wait: bool = False) -> Parcel | None:
        """The parcel of an episode once its images are durable or lost; None before, unless `wait`."""
        order_id = parcel.episode.order.order_id
        future = self._finishing.get(order_id)
        if future is None:
            return parcel
        if not (wait or future.done()):
            return None
        del self._finishing[order_id]
        try:
            digest = future.result()
        except EnpireError as problem:
            outcome, cause = _end(problem)
            return replace(parcel, episode=replace(parcel.episode, outcome=outcome, cause=cause, confidence=0.0))
        if digest:
            self.largest = max(self.largest, self._place(order_id).stat().st_size)
        return replace(parcel, episode=replace(parcel.episode, pictures_sha256=digest))

    def close(self) -> None:
        """Finish writing and end the worker thread. Files of running episodes are removed."""
        for file in self._files.values():
            file.discard()
        if self._worker is not None:
            self._worker.shutdown(wait=True)

    def _record(self, lane: int, tick: int) -> End | None:
        order_id, cameras = self._wanted[lane]
        shown = self._now[lane]
        wanted = cameras if cameras != "all" else tuple(shown)
        missing = [name for name in wanted if name not in shown]
        if missing or not wanted:
            return _lost(f"camera {missing[0]} gave none" if missing else "no camera gave any")
        file = self._files.get(lane)
        if file is None:
            self._worker = self._worker or self._new_worker()
            file = self._files[lane] = _ImageFile(self._place(order_id), self._worker)
        if file.failed is not None:
            return _end(file.failed)
        if file.latest is not None and file.latest[0] < tick:
            if not self._has_room():
                return _lost("this computer cannot compress them as fast as they come; record fewer cameras")
            then, seen = file.latest
            self._waiting.append((file.hand_over(then, seen), sum(image.nbytes for image in seen.values())))
        file.latest = tick, {name: shown[name] for name in wanted}
        return None

    def _has_room(self) -> bool:
        """Whether more images may wait for compression; waits for room first where the rule says so."""
        while self._waiting and (self._waiting[0][0].done() or (self._rule.waits and self._is_full())):
            self._waiting.popleft()[0].result()
        return not self._is_full()

    def _is_full(self) -> bool:
        return sum(size for _, size in self._waiting) > MOST_WAITING


def _end(problem: EnpireError) -> End:
    """A full disk aborts the episode, so that its trial is reissued; other problems make it invalid."""
    return ("aborted", DISK_FULL) if isinstance(problem, StorageFull) else _lost(str(problem))


def _lost(why: str) -> End:
    return "invalid", f"its pictures cannot be kept: {why}"[:1000]
