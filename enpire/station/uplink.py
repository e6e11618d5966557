"""The station's connection to the orchestrator: hello, heartbeats, delivery until acknowledged, detection of silence.

The uplink never waits for the orchestrator. While that is away, episodes stay in the spool; when it is back, the next
hello lists the running orders and the spool, and every episode not acknowledged is delivered under the new lease.
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

_HELLO_AGAIN_S = 1.0
_REPORT_AGAIN_S = 30.0
"""Time between two lines that say that no orchestrator answers."""
_IN_FLIGHT, _ANNOUNCED = 64, 2
"""Most episodes that wait for an acknowledgement: without images, and with images."""
_DELIVER_AGAIN_S = 8.0
_OVERTAKEN_S = 1.0
"""An episode that was sent this much earlier than an acknowledged one counts as lost and is sent again."""


class Uplink:
    """Sends and receives for the station under its lease.

    Args:
        link: the socket.
        spool: the episodes to deliver.
        hello: makes a hello with the orders that the station holds now.
        say: prints one line when the orchestrator does not answer, or refuses episodes.
        host: clock, and the thread that reads images next to the control loop.
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
        """Another process uses this station's name: this one must stop."""
        self.taken_s = -1e9
        """When the orchestrator last took or refused an episode, or requested images."""
        self.preview_port = 0
        """Port at which the orchestrator takes live images; 0 for none."""
        self._greeting, self._greeted_s = 0, -1e9
        self._report_s = self._clock() + _HELLO_AGAIN_S
        """When to print that no orchestrator answers."""
        self._heard_number: int = 0
        self._heard_s = self._clock()
        self._heartbeat_sent_s = -1e9
        self._heartbeat_s, self._silent_s = 0.5, 5.0
        self._in_flight: dict[str, float] = {}
        self._announced: dict[str, float] = {}
        """Announced episodes with images -> when they were last announced, or a part was last requested."""
        self._parts: deque[tuple[str, Future[bytes]]] = deque()
        """Parts of images that the orchestrator requested."""
        self._acknowledged_s = -1e9
        """When the newest acknowledged episode was sent: older ones without a reply were lost."""

    def hear(self, timeout_s: float) -> Sequence[Message]:
        """Messages for the station, without those that the uplink handles itself."""
        messages: list[Message] = []
        for envelope in self._link.receive(timeout_s):
            if self._is_next(envelope):
                message = envelope.message
                if isinstance(message, Acknowledge | Refuse):
                    self._answered(message)
                elif isinstance(message, WantPictures):
                    self._read(message)
                elif not isinstance(message, Welcome | Alive):
                    messages.append(message)
        return messages

    def keep_contact(self, heartbeat: Callable[[int], Heartbeat]) -> None:
        """Send a hello or a heartbeat if one is due; drop the lease if the orchestrator is silent."""
        now = self._clock()
        if self.lease and now - self._heard_s > self._silent_s:
            self._lose()
        if not self.lease:
            if now - self._greeted_s > _HELLO_AGAIN_S:
                self._greet(now)
            if now >= self._report_s:
                self._report_s = now + _REPORT_AGAIN_S
                self._say(f"waiting for {self._link.address}, where no orchestrator answers yet")
        elif now - self._heartbeat_sent_s >= self._heartbeat_s:
            self.send_heartbeat(heartbeat)

    def send_heartbeat(self, heartbeat: Callable[[int], Heartbeat]) -> None:
        """Send a heartbeat now, so that operators see a change at once. Sends no hello: that lists held orders."""
        if self.lease:
            self._heartbeat_sent_s = self._clock()
            self._link.send(heartbeat(self.lease), self.lease)

    def ship(self) -> None:
        """Deliver episodes from the spool, as many as may be unacknowledged at once."""
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
                # It was announced and is damaged: the next hello does not list it, so the orchestrator ends its order.
                self._leave_lease()
                return
            if not self._link.send(parcel, self.lease):
                return
            (self._announced if self._spool.has_pictures(order_id) else self._in_flight)[order_id] = now

    def request(self, message: WantPolicy | None) -> None:
        """Request a part of a policy's files; the caller repeats the request if no reply comes."""
        if message is not None and self.lease:
            self._link.send(message, self.lease)

    def say_goodbye(self, cause: str) -> None:
        """Tell the orchestrator that the station leaves."""
        if self.lease:
            self._link.send(Goodbye(cause=cause), self.lease)

    def close(self) -> None:
        """Wait for the reading thread and end it. Allowed twice."""
        self._helper.shutdown()

    def _is_due(self, order_id: str, now: float) -> bool:
        """Whether to send an episode now, for the first time or again."""
        if self._spool.has_pictures(order_id):
            sent_s = self._announced.get(order_id)
            return len(self._announced) < _ANNOUNCED if sent_s is None else now - sent_s >= _DELIVER_AGAIN_S
        sent_s = self._in_flight.get(order_id, -1e9)
        return now - sent_s >= _DELIVER_AGAIN_S or sent_s <= self._acknowledged_s - _OVERTAKEN_S

    def _read(self, want: WantPictures) -> None:
        """Read a part of an episode's images, unless the episode is acknowledged by now."""
        if want.order_id in self._spool:
            self._announced[want.order_id] = self.taken_s = self._clock()
            self._parts.append((want.order_id, self._helper.submit(_sealed, self._spool, want, self.lease)))

    def _ship_parts(self) -> None:
        """Send the parts that were read. The orchestrator requests a lost part again."""
        while self._parts and self._parts[0][1].done():
            order_id, part = self._parts.popleft()
            try:
                self._link.post(part.result())
            except OSError as problem:
                is_passing = isinstance(durable.refusal(problem, self._spool.pictures(order_id)), NothingOpens)
                if order_id in self._spool and not is_passing:
                    # As with a damaged episode: the next hello does not list it, so the orchestrator ends its order.
                    self._spool.set_aside(order_id)
                    self._leave_lease()

    def _is_next(self, envelope: Envelope) -> bool:
        """Whether a message has the present lease and the next number."""
        message = envelope.message
        if isinstance(message, Welcome):
            return self._welcomed(envelope, message)
        if isinstance(message, Rejoin | Fenced):
            # Sent without a lease. Right after a hello, a rejoin may still answer an earlier message.
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
        self._heartbeat_sent_s = -1e9
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
            line = f"the orchestrator refused {len(message.order_ids)} of the episodes here ({message.why})"
            self._say(f"{line}; kept in {self._spool.refused}, and offered again at the next start of this station")

    def _greet(self, now: float) -> None:
        self._greeted_s = now
        self._greeting += 1
        if not self._link.send(self._hello(self._greeting)):
            # No orchestrator is connected yet; try again soon.
            self._greeted_s = now - _HELLO_AGAIN_S + 0.1

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
