"""Ended episodes that are not durable yet, on their way from the robot into the spool."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from enpire.errors import StorageFull, TransportProblem
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.spool import Spool
from enpire.types import Episode, Order, without_record
from enpire.wire.messages import Parcel

_SPACE_AGAIN_S = 2.0
"""Time between two tries of a refused write, and between two checks of the free space."""


class Outbox:
    """Holds ended episodes until the spool has written them.

    Args:
        spool: where episodes become durable.
        clock: monotonic seconds.
        say: prints one line about a refused write.
        camera_recorder: knows when the pictures of an episode are durable.
        lanes: of the station, so the most episodes that run at once.
    """

    def __init__(
        self, spool: Spool, clock: Callable[[], float], say: Callable[[str], None],
        camera_recorder: CameraRecorder | None = None, lanes: int = 1,
    ) -> None:  # fmt: skip
        self._spool, self._clock, self._say = spool, clock, say
        self._camera_recorder, self._lanes = camera_recorder or CameraRecorder(), lanes
        self._recorded: list[Parcel] = []
        """Episodes whose images are still being written."""
        self._waiting: deque[Parcel] = deque()
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
        """Write the waiting episodes to the spool; returns those that are durable now.

        A refused write is printed and tried again after two seconds. Episodes whose images are still being written are
        left for a later call. With `to_the_last`, everything is written now. An episode that cannot be delivered is
        kept without its record, and where that does not help, as an aborted order that names the reason.
        """
        ended = [(parcel, self._camera_recorder.completed(parcel, wait=to_the_last)) for parcel in self._recorded]
        self._recorded = [parcel for parcel, whole in ended if whole is None]
        self._waiting.extend(whole for _, whole in ended if whole is not None)
        durable: list[Episode] = []
        if self._refused_s is not None and self._clock() - self._refused_s < _SPACE_AGAIN_S and not to_the_last:
            return durable
        while self._waiting:
            try:
                self._spool.put(self._waiting[0])
            except StorageFull as full:
                self._refused_s = self._clock()
                self._say(str(full))
                break
            except TransportProblem as problem:
                self._say_less(problem)
                continue
            self._refused_s, self._replaced = None, 0
            durable.append(self._waiting.popleft().episode)
        return durable

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
