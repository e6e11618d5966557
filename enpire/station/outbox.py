"""Ended episodes that are not durable yet, on their way from the robot into the spool."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import islice

from enpire.errors import StorageFull, TransportProblem
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.spool import Spool
from enpire.types import Episode, Order, without_record
from enpire.wire.host_services import HostServices
from enpire.wire.messages import Parcel

_SPACE_AGAIN_S = 2.0
"""Time between two tries of a refused write, and between two checks of the free space."""


class Outbox:
    """Holds ended episodes until the spool has written them. Robots do not wait for a write.

    Args:
        spool: where episodes become durable.
        host: its clock, and its helper, which writes to the spool, one write at a time.
        say: prints one line about a refused write.
        camera_recorder: knows when the pictures of an episode are durable.
        lanes: of the station, so the most episodes that run at once.
    """

    def __init__(
        self, spool: Spool, host: HostServices, say: Callable[[str], None],
        camera_recorder: CameraRecorder | None = None, lanes: int = 1,
    ) -> None:  # fmt: skip
        self._spool, self._helper, self._clock, self._say = spool, host.helper(), host.clock, say
        self._camera_recorder, self._lanes = camera_recorder or CameraRecorder(), lanes
        self._recorded: list[Parcel] = []
        """Episodes whose images are still being written."""
        self._waiting: deque[Parcel] = deque()
        self._write: tuple[Future[None], int] | None = None
        """The running write, of so many of the oldest waiting episodes."""
        self._one_by_one = False
        """Whether a write failed and what waited then still waits: each write is of one episode."""
        self._replaced = 0
        """Times that the oldest waiting episode was replaced by one that says less."""
        self._refused_s: float | None = None
        """When the disk refused the last write; None while it takes writes."""
        self._checked_s, self._room = -1e9, True

    def add(self, parcels: Iterable[Parcel]) -> None:
        """Add ended episodes."""
        self._recorded.extend(parcels)

    def refuse(self, order: Order, cause: str) -> None:
        """End an order that never began."""
        self._waiting.append(self._aborted(order, cause))

    def spool(self, *, to_the_last: bool = False) -> Sequence[Episode]:
        """Let the helper write the waiting episodes to the spool; returns those that are durable since the last call.

        A refused write is printed and tried again after two seconds. Episodes whose images are still being written are
        left for a later call. With `to_the_last`, it returns when everything is written. An episode that cannot be
        delivered is kept without its record, and where that does not help, as an aborted order that names the reason.
        """
        ended = [(parcel, self._camera_recorder.completed(parcel, wait=to_the_last)) for parcel in self._recorded]
        self._recorded = [parcel for parcel, whole in ended if whole is None]
        self._waiting.extend(whole for _, whole in ended if whole is not None)
        durable: list[Episode] = []
        refused: list[Parcel] = []
        if self._refused_s is not None and self._clock() - self._refused_s < _SPACE_AGAIN_S and not to_the_last:
            return durable
        while self._waiting:
            is_earlier = self._write is not None
            write, count = self._write or self._begin_write()
            if not (to_the_last or write.done()):
                break
            self._write = None
            try:
                write.result()
            except StorageFull as full:
                self._refused_s, self._one_by_one = self._clock(), True
                self._say(str(full))
                if not to_the_last:
                    break
                if count == 1 and not is_earlier:
                    refused.append(self._waiting.popleft())  # it has had its last try
                continue
            except TransportProblem as problem:
                if count == 1:
                    self._say_less(problem)
                self._one_by_one = True
                continue
            self._refused_s, self._replaced = None, 0
            written = [self._waiting.popleft() for _ in range(count)]
            self._spool.announce(*written)
            self._one_by_one = self._one_by_one and bool(self._waiting)
            durable += [parcel.episode for parcel in written]
        self._waiting.extendleft(reversed(refused))
        return durable

    def _begin_write(self) -> tuple[Future[None], int]:
        count = 1 if self._one_by_one else len(self._waiting)
        self._write = self._helper.submit(self._spool.write, *islice(self._waiting, count)), count
        return self._write

    def close(self) -> None:
        """End the helper, after a running write. Allowed twice."""
        self._helper.shutdown()

    def _say_less(self, problem: TransportProblem) -> None:
        """Replace the oldest episode, which cannot be delivered: by one without its record, then by an aborted order.

        If not even that can be delivered, the order itself is at fault. It leaves, and the orchestrator ends it as
        aborted when the station greets it the next time without this order.
        """
        episode, self._replaced = self._waiting[0].episode, self._replaced + 1
        if self._replaced == 1:
            kept = without_record(episode, f"its record cannot be delivered: {problem}")
            self._waiting[0] = Parcel(episode=kept, arrays_file=b"")
            self._say(f"an episode is kept without its record: {problem}")
            return
        self._waiting.popleft()
        if self._replaced == 2:
            why = f"its episode cannot be delivered, even without its record: {problem}"
            self._waiting.appendleft(self._aborted(episode.order, why.encode("ascii", "backslashreplace").decode()))
            self._say(f"order {episode.order.order_id!a} is reported as aborted: {why}")
        else:
            self._replaced = 0
            self._say(f"order {episode.order.order_id!a} ends without a report, because it cannot be sent: {problem}")

    def _aborted(self, order: Order, cause: str) -> Parcel:
        """The end of an order without an episode, now."""
        now = self._clock()
        episode = Episode(
            order=order, outcome="aborted", cause=cause[:1000], confidence=0.0, ran_policy_id="", ticks=0, began_s=now,
            ended_s=now,
        )  # fmt: skip
        return Parcel(episode=episode, arrays_file=b"")

    def order_ids(self) -> Sequence[str]:
        """Ids of the orders whose episodes are not durable yet."""
        return [parcel.episode.order.order_id for parcel in (*self._recorded, *self._waiting)]

    def room(self) -> bool:
        """Whether the disk takes the episodes of new orders; its free space is checked at most every two seconds."""
        now = self._clock()
        if now - self._checked_s > _SPACE_AGAIN_S:
            self._checked_s = now
            self._room = self._spool.room(self._lanes * self._camera_recorder.largest)
        return self._room and self._refused_s is None
