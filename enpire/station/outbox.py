"""Episodes that ended here and are not durable yet: the way from the robot into the spool."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from enpire.errors import StorageFull, TransportProblem
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.spool import Spool
from enpire.types import Episode, Order, without_record
from enpire.wire.messages import Parcel

_SPACE_AGAIN_S = 2.0
"""How long after a refused write, or a look at the free space, the disk is asked again."""


class Outbox:
    """Holds what the disk refused until it takes it.

    Args:
        spool: where episodes become durable.
        clock: monotonic seconds.
        say: where one line about a refused write goes.
        filming: knows when the pictures of an episode are durable.
        lanes: of the station: so many episodes may be under way at once.
    """

    def __init__(
        self, spool: Spool, clock: Callable[[], float], say: Callable[[str], None],
        filming: CameraRecorder | None = None, lanes: int = 1,
    ) -> None:  # fmt: skip
        self._spool, self._clock, self._say = spool, clock, say
        self._camera_recorder, self._lanes = filming or CameraRecorder(), lanes
        self._filmed: list[Parcel] = []
        """Episodes whose pictures are still being written."""
        self._waiting: deque[Parcel] = deque()
        self._checked_s, self._room = -1e9, True

    def add(self, parcels: Iterable[Parcel]) -> None:
        """Take episodes that ended."""
        self._filmed.extend(parcels)

    def refuse(self, order: Order, cause: str) -> None:
        """End an order that never began."""
        now = self._clock()
        episode = Episode(
            order=order, outcome="aborted", cause=cause[:1000], confidence=0.0, ran_policy_id="", ticks=0, began_s=now,
            ended_s=now,
        )  # fmt: skip
        self._waiting.append(Parcel(episode=episode, arrays_file=b""))

    def spool(self, *, to_the_last: bool = False) -> Sequence[Episode]:
        """Make durable what waits here; the episodes that are now. A refusal is said, and tried again later.

        Episodes whose pictures are still being written come later, unless it shall be done `to_the_last`.
        """
        ended = [(parcel, self._camera_recorder.developed(parcel, wait=to_the_last)) for parcel in self._filmed]
        self._filmed = [parcel for parcel, whole in ended if whole is None]
        self._waiting.extend(whole for _, whole in ended if whole is not None)
        durable: list[Episode] = []
        if not self._room and self._clock() - self._checked_s < _SPACE_AGAIN_S:
            return durable
        while self._waiting:
            try:
                self._spool.put(self._waiting[0])
            except StorageFull as full:
                self._room, self._checked_s = False, self._clock()
                self._say(str(full))
                break
            except TransportProblem as problem:
                episode = without_record(self._waiting[0].episode, f"its record cannot be delivered: {problem}")
                self._waiting[0] = Parcel(episode=episode, arrays_file=b"")
                self._say(f"an episode is kept without its record: {problem}")
                continue
            durable.append(self._waiting.popleft().episode)
        return durable

    def order_ids(self) -> Sequence[str]:
        """Whose episodes are not durable yet."""
        return [parcel.episode.order.order_id for parcel in (*self._filmed, *self._waiting)]

    def room(self) -> bool:
        """Whether the disk has space for the episodes of new orders; looks at most every two seconds."""
        now = self._clock()
        if now - self._checked_s > _SPACE_AGAIN_S:
            self._checked_s = now
            self._room = not self._waiting and self._spool.room(self._lanes * self._camera_recorder.largest)
        return self._room
