"""Between a station and the orchestrator: hello, beats, episodes until acknowledged, and noticing that nobody answers.

The courier never waits for the orchestrator. When it is away, episodes stay in the spool; when it is back, the next
hello says what runs and what is spooled, and everything not acknowledged is delivered again under the new lease.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from enpire.errors import NothingOpens
from enpire.station.spool import Spool
from enpire.store import durable
from enpire.wire.arrivals import Heartbeat
from enpire.wire.host_services import HostServices
from enpire.wire.messages import (
    Acknowledge,
    Alive,
    Envelope,
    Fenced,
    Goodbye,
    Hello,
    Message,
    Refuse,
    Rejoin,
    WantPictures,
    WantPolicy,
    Welcome,
    encode,
)
from enpire.wire.zmq_link import StationLink

_GREET_AGAIN_S = 1.0
_TELL_AGAIN_S = 30.0
"""So often a person reads that nobody answers."""
_IN_FLIGHT, _ANNOUNCED = 64, 2
"""Episodes that are on their way at once: without pictures, and with them."""
_DELIVER_AGAIN_S = 8.0
_OVERTAKEN_S = 1.0
"""An episode that was sent so much earlier than one that is acknowledged by now is sent again."""


class Uplink:
    """Speaks for the station under its lease.

    Args:
        link: the socket.
        spool: what is delivered.
        hello: makes a hello that says what the station holds now.
        say: where a line goes about an orchestrator that does not answer, or refuses episodes.
        host: its clock, and the thread that reads pictures beside the control loop.
    """

    def __init__(
        self, link: StationLink, spool: Spool, hello: Callable[[int], Hello], say: Callable[[str], None],
        host: HostServices,
    ) -> None:  # fmt: skip
        self._link, self._spool, self._hello, self._say = link, spool, hello, say
        self._clock, self._helper = host.clock, host.helper()
        self.lease = 0
        """The fence token; 0 while the station has none."""
        self.fenced = False
        """Another process took this station's name: stop."""
        self.taken_s = -1e9
        """When the orchestrator last took or refused an episode, or asked for pictures of one."""
        self.preview_port = 0
        """Where the orchestrator takes live pictures; 0 for nowhere."""
        self._greeting, self._greeted_s = 0, -1e9
        self._tell_s = self._clock() + _GREET_AGAIN_S
        """When to say that nobody answers."""
        self._heard_number: int = 0
        self._heard_s = self._clock()
        self._beat_s = -1e9
        self._heartbeat_s, self._silent_s = 0.5, 5.0
        self._in_flight: dict[str, float] = {}
        self._announced: dict[str, float] = {}
        """Episodes with pictures that are on their way -> when the orchestrator was last told, or asked for a part."""
        self._parts: deque[tuple[str, Future[bytes]]] = deque()
        """Parts that it asked for."""
        self._acknowledged_s = -1e9
        """When the newest of the acknowledged episodes was sent: older ones without an answer were lost."""

    def hear(self, timeout_s: float) -> Sequence[Message]:
        """What the orchestrator wants, after the courier took what is meant for itself."""
        wanted: list[Message] = []
        for envelope in self._link.receive(timeout_s):
            if self._is_next(envelope):
                message = envelope.message
                if isinstance(message, Acknowledge | Refuse):
                    self._answered(message)
                elif isinstance(message, WantPictures):
                    self._read(message)
                elif not isinstance(message, Welcome | Alive):
                    wanted.append(message)
        return wanted

    def keep_contact(self, beat: Callable[[int], Heartbeat]) -> None:
        """Greet, beat, or notice that the orchestrator is gone: whatever is due."""
        now = self._clock()
        if self.lease and now - self._heard_s > self._silent_s:
            self._lose()
        if not self.lease:
            if now - self._greeted_s > _GREET_AGAIN_S:
                self._greet(now)
            if now >= self._tell_s:
                self._tell_s = now + _TELL_AGAIN_S
                self._say(f"waiting for {self._link.address}, where no orchestrator answers yet")
        elif now - self._beat_s >= self._heartbeat_s:
            self.beat_now(beat)

    def beat_now(self, beat: Callable[[int], Heartbeat]) -> None:
        """Send a heartbeat now, so that operators see a change at once. Sends no hello: that lists held orders."""
        if self.lease:
            self._beat_s = self._clock()
            self._link.send(beat(self.lease), self.lease)

    def ship(self) -> None:
        """Deliver what lies in the spool, as much as may be on its way at once."""
        self._ship_parts()
        if not self.lease:
            return
        now = self._clock()
        if len(self._in_flight) >= _IN_FLIGHT:
            self._in_flight = {key: sent for key, sent in self._in_flight.items() if now - sent < _DELIVER_AGAIN_S}
        for order_id in self._spool.ids():
            if len(self._in_flight) >= _IN_FLIGHT:
                return
            if not self._is_due(order_id, now):
                continue
            parcel = self._spool.get(order_id)
            if parcel is None:
                # It was announced and cannot be delivered: the next hello no longer lists it, so its order ends.
                self._leave_lease()
                return
            if not self._link.send(parcel, self.lease):
                return
            (self._announced if self._spool.has_pictures(order_id) else self._in_flight)[order_id] = now

    def ask(self, wish: WantPolicy | None) -> None:
        """Ask for a part of a policy's files; asked again later when no answer comes."""
        if wish is not None and self.lease:
            self._link.send(wish, self.lease)

    def say_goodbye(self, cause: str) -> None:
        """The last word."""
        if self.lease:
            self._link.send(Goodbye(cause=cause), self.lease)

    def close(self) -> None:
        """Wait for what is being read. Allowed twice."""
        self._helper.shutdown()

    def _is_due(self, order_id: str, now: float) -> bool:
        """Whether an episode is to be sent, for the first time or again."""
        if self._spool.has_pictures(order_id):
            sent_s = self._announced.get(order_id)
            return len(self._announced) < _ANNOUNCED if sent_s is None else now - sent_s >= _DELIVER_AGAIN_S
        sent_s = self._in_flight.get(order_id, -1e9)
        return now - sent_s >= _DELIVER_AGAIN_S or sent_s <= self._acknowledged_s - _OVERTAKEN_S

    def _read(self, want: WantPictures) -> None:
        """Read a part of an episode's pictures, unless it is acknowledged by now."""
        if want.order_id in self._spool:
            self._announced[want.order_id] = self.taken_s = self._clock()
            self._parts.append((want.order_id, self._helper.submit(_sealed, self._spool, want, self.lease)))

    def _ship_parts(self) -> None:
        """Send the parts that were read. One that is lost is asked for again."""
        while self._parts and self._parts[0][1].done():
            order_id, part = self._parts.popleft()
            try:
                self._link.post(part.result())
            except OSError as problem:
                passes = isinstance(durable.refusal(problem, self._spool.pictures(order_id)), NothingOpens)
                if order_id in self._spool and not passes:
                    # As with a damaged episode: the next hello no longer lists it, so its order ends.
                    self._spool.set_aside(order_id)
                    self._leave_lease()

    def _is_next(self, envelope: Envelope) -> bool:
        """Whether a message is meant for the station as it is now: its lease, and nothing lost before it."""
        message = envelope.message
        if isinstance(message, Welcome):
            return self._welcomed(envelope, message)
        if isinstance(message, Rejoin | Fenced):
            # Said without a lease. Right after a hello a rejoin may still answer what was said before it.
            self.fenced = self.fenced or isinstance(message, Fenced)
            if self.lease:
                self._leave_lease()
            return False
        due = self._heard_number + 1
        if not self.lease or envelope.lease != self.lease or envelope.number < due:
            return False
        if envelope.number > due:
            self._leave_lease()
            return False
        self._heard_number, self._heard_s = due, self._clock()
        return True

    def _welcomed(self, envelope: Envelope, welcome: Welcome) -> bool:
        if welcome.greeting != self._greeting or self.lease:
            return False
        self.lease, self._heard_number, self._heard_s = envelope.lease, envelope.number, self._clock()
        self._heartbeat_s, self._silent_s = welcome.heartbeat_s, welcome.silent_s
        self.preview_port = welcome.preview_port
        self._beat_s = -1e9
        return True

    def _answered(self, message: Acknowledge | Refuse) -> None:
        self.taken_s = self._clock()
        for order_id in message.order_ids:
            sent_s = self._in_flight.pop(order_id, -1e9)
            self._acknowledged_s = max(self._acknowledged_s, sent_s)
            self._announced.pop(order_id, None)
            if isinstance(message, Acknowledge):
                self._spool.delete(order_id)
            else:
                self._spool.refuse(order_id)
        if isinstance(message, Refuse):
            said = f"the orchestrator refused {len(message.order_ids)} of the episodes here ({message.why})"
            self._say(f"{said}; kept in {self._spool.refused}, and offered again when this station starts anew")

    def _greet(self, now: float) -> None:
        self._greeted_s = now
        self._greeting += 1
        if not self._link.send(self._hello(self._greeting)):
            # Nobody is there yet; look again soon.
            self._greeted_s = now - _GREET_AGAIN_S + 0.1

    def _lose(self) -> None:
        self._leave_lease()
        self._link.restart()

    def _leave_lease(self) -> None:
        self.lease = 0
        self._greeted_s = self._acknowledged_s = -1e9
        self._in_flight.clear()
        self._announced.clear()
        self._parts.clear()


def _sealed(spool: Spool, want: WantPictures, lease: int) -> bytes:
    return encode(spool.part(want), lease)
