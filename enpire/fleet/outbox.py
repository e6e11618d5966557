"""Episodes that ended here and are not durable yet: the way from the robot into the spool."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from enpire.errors import StorageFull, TransportProblem
from enpire.fleet.messages import Parcel
from enpire.fleet.spool import Spool
from enpire.types import Episode, Order

_SPACE_AGAIN_S = 2.0
"""How long after a refused write, or a look at the free space, the disk is asked again."""


class Outbox:
    """Holds what the disk refused until it takes it.

    Args:
        spool: where episodes become durable.
        clock: monotonic seconds.
        say: where one line about a refused write goes.
    """

    def __init__(self, spool: Spool, clock: Callable[[], float], say: Callable[[str], None]) -> None:
        self._spool, self._clock, self._say = spool, clock, say
        self._waiting: deque[Parcel] = deque()
        self._checked_s, self._room = -1e9, True

    def add(self, parcels: Iterable[Parcel]) -> None:
        """Take episodes that ended."""
        self._waiting.extend(parcels)

    def refuse(self, order: Order, cause: str) -> None:
        """End an order that never began."""
        now = self._clock()
        episode = Episode(
            order=order, outcome="aborted", cause=cause[:1000], confidence=0.0, ran_policy_id="", ticks=0, began_s=now,
            ended_s=now,
        )  # fmt: skip
        self._waiting.append(Parcel(episode=episode, arrays_file=b""))

    def spool(self) -> Sequence[Episode]:
        """Make durable what waits here; the episodes that are now. A refusal is said, and tried again later."""
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
                self._waiting[0] = _without_record(self._waiting[0], str(problem))
                self._say(f"an episode is kept without its record: {problem}")
                continue
            durable.append(self._waiting.popleft().episode)
        return durable

    def order_ids(self) -> Sequence[str]:
        """Whose episodes are not durable yet."""
        return [parcel.episode.order.order_id for parcel in self._waiting]

    def room(self) -> bool:
        """Whether the disk has space for the episodes of new orders; looks at most every two seconds."""
        now = self._clock()
        if now - self._checked_s > _SPACE_AGAIN_S:
            self._checked_s = now
            self._room = not self._waiting and self._spool.room()
        return self._room


def _without_record(parcel: Parcel, why: str) -> Parcel:
    """The end of an order whose record cannot be sent: invalid, for nobody can look at what was judged."""
    cause = f"its record cannot be delivered: {why}"[:1000]
    episode = replace(parcel.episode, outcome="invalid", cause=cause, sha256="", pictures_sha256="")
    return Parcel(episode=episode, arrays_file=b"")
