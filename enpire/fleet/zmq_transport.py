"""The fleet over ZeroMQ: a ROUTER in the orchestrator, a DEALER in each station; peers with keys use a gateway.

The orchestrator answers each hello with a higher lease than before, and refuses messages with an older lease. It
numbers its own messages per lease; a station that finds a gap says hello again with a list of the orders it holds. No
message of a peer can make `poll` raise.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from enpire.campaign.acceptance import EARLIER_PURPOSES, for_station
from enpire.errors import EnpireError, TransportProblem, UsageError
from enpire.fleet.uploads import Uploads
from enpire.ids import is_version_id, version_id
from enpire.store import versions as policy_files
from enpire.types import Episode, Order
from enpire.wire.arrivals import Announced, Arrival, Delivered, Heartbeat, Joined, Left
from enpire.wire.curve_keys import EncryptedBind
from enpire.wire.host_services import THIS_HOST, HostServices
from enpire.wire.listening_address import FleetAddress
from enpire.wire.log_limiter import LogLimiter
from enpire.wire.messages import (
    CONTROLS,
    PART,
    Acknowledge,
    Alive,
    ControlMessage,
    Envelope,
    Fenced,
    Goodbye,
    Hello,
    Message,
    Orders,
    Parcel,
    PicturesPart,
    PolicyMissing,
    PolicyPart,
    Refuse,
    Rejoin,
    Release,
    WantPolicy,
    Welcome,
    decode,
    encode,
    is_heartbeat,
)
from enpire.wire.previews import PreviewReceiver
from enpire.wire.private_socket import PREVIEWS
from enpire.wire.server_socket import FromPeer, Peer, ServerSocket
from enpire.wire.socket_limits import LINGER_MS, SocketLimits

_WRITING_S = 0.005
"""Longest wait for messages while images are written: written parts make room for new requests."""
_DRAIN_S = 0.05
"""Longest time that one poll reads messages, so that a flood cannot block the loop."""
_HELLOS = 32
"""Most hellos that one poll handles."""
_UNREAD = 100
"""Most unread messages of one station: more than a correct station sends at once."""
_HELLO_S = 1.0
"""A second hello of a station within this time is ignored; the station repeats it."""
_FLOOD_S = 2.0
"""Extra time before a silent station counts as gone, while unread messages wait."""


@dataclass(slots=True)
class _Session:
    """The connection of one station under one lease."""

    station: str
    peer: Peer
    lease: int
    heard_s: float
    greeting: int = 0
    """Number of its hello."""
    sent: int = 0
    purposes: str = EARLIER_PURPOSES
    """Purposes of orders that the station knows."""


class ZmqFleet:
    """`enpire.wire.arrivals.Fleet` over a ROUTER socket. Use it from one thread.

    Args:
        bind: where to listen: a private socket, or an address that other processes reach with keys. The campaign's own
            stations use a private socket in either case (`private`).
        versions: folder of the policy versions that stations fetch.
        incoming: folder for image files that are not complete yet.
        first_lease: the first fence token: one more than the last in the ledger.
        heartbeat_s: time between two heartbeats of a station.
        silent_s: a station that is silent for this long has left.
        host: clock, sockets and helper threads.
    """

    def __init__(  # noqa: PLR0913 - settings of the fleet, and the services of its machine
        self,
        bind: str | EncryptedBind,
        versions: Path,
        incoming: Path,
        first_lease: int = 1,
        heartbeat_s: float = 0.5,
        silent_s: float = 5.0,
        host: HostServices = THIS_HOST,
    ) -> None:
        self._versions = versions
        self._next_lease = first_lease
        self._heartbeat_s, self._silent_s = heartbeat_s, silent_s
        self._stations: dict[str, _Session] = {}
        self._peers: dict[Peer, _Session] = {}
        self._fenced: OrderedDict[Peer, str] = OrderedDict()
        self._greeted: OrderedDict[str, float] = OrderedDict()
        """Station -> when its last hello was accepted."""
        self._waiting: deque[Arrival] = deque()
        self._clock = host.clock
        self._uploads = Uploads(incoming, host.helper(), host.clock, self._send_to)
        self._log_limiter = LogLimiter(host.clock, "refusals")
        self._context = host.sockets()
        try:
            self._server = ServerSocket(self._context, bind, "fleet", SocketLimits(unread=_UNREAD), previews=True)
        except TransportProblem:
            self._context.destroy(linger=0)
            self._uploads.close()
            raise
        self.previews = PreviewReceiver(self._context, self._server.private + PREVIEWS)

    @property
    def address(self) -> str:
        """Where stations connect: with keys, or at the private socket if there is no other."""
        return self._server.address

    @property
    def addresses(self) -> FleetAddress:
        """Where the campaign's own stations connect, and where others do."""
        private = self._server.private
        return FleetAddress(private=private, public="" if self.address == private else self.address)

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        """Everything that arrived, waiting at most `timeout_s` for the first."""
        deadline = self._clock() + timeout_s
        # Read first in any case: unsent orders may wait here already, and must not delay messages of stations.
        self._drain()
        self._waiting.extend(self._silent())
        while not self._waiting and (left_s := deadline - self._clock()) > 0 and self._listen(left_s):
            self._drain()
            self._waiting.extend(self._silent())
        arrivals = tuple(self._waiting)
        self._waiting.clear()
        return arrivals

    def send(self, station: str, orders: Sequence[Order]) -> None:
        """Send orders. An order that cannot be sent comes back from `poll` as aborted, since it cannot have begun."""
        session = self._stations.get(station)
        lease = session.lease if session else 0
        fresh = [order for order in orders if session and order.lease in (0, session.lease)]
        known = tuple(for_station(order, session.purposes) for order in fresh) if session else ()
        if session and known and not self._send(session, Orders(orders=known)):
            fresh = []
            self._waiting.extend(self._forget(session, "its connection is gone"))
        for order in orders:
            if order not in fresh:
                self._waiting.append(_unsent(order, lease))

    def fetch(self, announced: Announced) -> None:
        """Get the images of an episode, from the first missing byte on; it is delivered when they are complete."""
        if announced.station in self._stations:
            self._uploads.fetch(announced)

    def acknowledge(self, station: str, order_ids: Sequence[str]) -> None:
        """Let the station delete these episodes. If the message is lost, the station delivers them again."""
        self._send_to(station, Acknowledge(order_ids=tuple(order_ids)))

    def refuse(self, station: str, order_ids: Sequence[str], why: str) -> None:
        """Leave these episodes to the station, which offers them again after its next start."""
        self._send_to(station, Refuse(order_ids=tuple(order_ids), why=why[:1000]))

    def release(self, station: str, order_ids: Sequence[str]) -> None:
        """Release orders that have not begun; each comes back as an aborted episode with the cause `released`."""
        self._send_to(station, Release(order_ids=tuple(order_ids)))

    def control(self, station: str, control: str, argument: str = "", stop_ids: Sequence[str] = ()) -> None:
        """Send `pause`, `resume`, `stop` (argument: by whom), `deploy` (argument: policy id) or `leave`.

        `stop_ids` is the id of this `stop`, or the ids of the stops that this `resume` ends.

        Raises:
            UsageError: there is no such control.
        """
        for known in CONTROLS:
            if control == known:
                message = ControlMessage(control=known, argument=argument, stop_ids=tuple(stop_ids))
                return self._send_to(station, message)
        raise UsageError(f"A station has no control {control!r}; allowed are: {', '.join(CONTROLS)}.")

    def close(self) -> None:
        """Close the sockets; the stations keep their episodes. Allowed twice."""
        self.previews.close()
        self._uploads.close()
        self._server.close()
        self._context.destroy(linger=LINGER_MS)

    def _send_to(self, station: str, message: Message) -> None:
        session = self._stations.get(station)
        if session is not None:
            self._send(session, message)

    def _send(self, session: _Session, message: Message) -> bool:
        session.sent += 1
        return self._server.send(session.peer, encode(message, session.lease, session.sent))

    def _listen(self, timeout_s: float) -> bool:
        """Whether there may be work: a message, or images that were written."""
        if self._uploads.writing and timeout_s > _WRITING_S:
            self._wait(_WRITING_S)
            return True
        return self._wait(timeout_s)

    def _wait(self, timeout_s: float) -> bool:
        """Whether a message arrived in time."""
        return bool(self._server.socket.poll(int(timeout_s * 1000)))

    def _drain(self) -> None:
        until_s, heartbeats, joined = self._clock() + _DRAIN_S, dict[Peer, FromPeer](), 0
        while joined < _HELLOS and self._clock() <= until_s and (came := self._server.receive()) is not None:
            earlier = heartbeats.pop(came.peer, None)
            if came.peer in self._peers and is_heartbeat(came.frames[-1].buffer):
                heartbeats[came.peer] = came  # an older unread heartbeat is out of date
                continue
            for message in (earlier, came):
                if message is not None:
                    arrivals = self._received(message)
                    self._waiting.extend(arrivals)
                    joined += any(isinstance(arrival, Joined) for arrival in arrivals)
        for message in heartbeats.values():
            self._waiting.extend(self._received(message))
        for report in self._server.reports():
            self._waiting.extend(self._log_limiter.add("gateway", report))
        self._waiting.extend(self._uploads.step())
        self._waiting.extend(self._log_limiter.left_out())

    def _received(self, came: FromPeer) -> Sequence[Arrival]:
        peer = came.peer
        if came.refused:
            return self._log_limiter.add("unknown", came.refused)
        session = self._peers.get(peer)
        name = session.station if session else _shown(peer)
        if len(came.frames) != 1:
            return self._log_limiter.add(name, f"A message had {len(came.frames)} frames; it must have one.")
        try:
            envelope = decode(came.frames[0].buffer)
        except TransportProblem as problem:
            return self._log_limiter.add(name, str(problem))
        hello = envelope.message if isinstance(envelope.message, Hello) else None
        station = hello.station if hello else session.station if session else came.key
        if came.key not in (None, station):
            return self._log_limiter.add(str(came.key), f"The key of {came.key} was used under the name {station}.")
        if hello is not None:
            return self._hello(peer, hello)
        if peer in self._fenced:
            self._server.send(peer, encode(Fenced()))
            return self._log_limiter.add(name, f"The station {self._fenced[peer]} was replaced by a newer process.")
        if session is None or envelope.lease != session.lease:
            return self._refuse_lease(peer, session, envelope)
        session.heard_s = self._clock()
        return self._handle(session, envelope.message)

    def _refuse_lease(self, peer: Peer, session: _Session | None, envelope: Envelope) -> Sequence[Arrival]:
        """Refuse a message under a wrong lease and ask the station for a hello."""
        self._server.send(peer, encode(Rejoin()))
        kind = type(envelope.message).__name__
        if session is None:
            return self._log_limiter.add(_shown(peer), f"A {kind} came from a station that has not said hello.")
        return self._log_limiter.add(
            session.station, f"A {kind} came under the old lease {envelope.lease}; {session.lease} is valid."
        )

    def _hello(self, peer: Peer, hello: Hello) -> Sequence[Arrival]:
        old = self._stations.get(hello.station)
        if old is not None and old.peer == peer and hello.greeting <= old.greeting:
            return ()  # repeated or late on the wire: it lacks the orders sent since
        if self._clock() - self._greeted.get(hello.station, -1e9) < _HELLO_S:
            return ()
        _keep(self._greeted, hello.station, self._clock())
        if old is not None:
            del self._stations[hello.station]
            self._uploads.forget(hello.station)
            self._peers.pop(old.peer, None)
            if old.peer != peer:
                _keep(self._fenced, old.peer, old.station)
        self._fenced.pop(peer, None)
        session = _Session(
            hello.station, peer, self._next_lease, self._clock(), hello.greeting,
            purposes=hello.facts.get("purposes", EARLIER_PURPOSES),
        )  # fmt: skip
        self._next_lease += 1
        self._stations[hello.station] = self._peers[peer] = session
        welcome = Welcome(
            greeting=hello.greeting, heartbeat_s=self._heartbeat_s, silent_s=self._silent_s,
            preview_port=self._preview_port(peer),
        )  # fmt: skip
        self._send(session, welcome)
        joined = Joined(
            station=hello.station, lanes=hello.lanes, lease=session.lease, running=hello.running,
            spooled=hello.spooled, facts=hello.facts,
        )  # fmt: skip
        return (joined,)

    def _preview_port(self, peer: Peer) -> int:
        """The port for live images of a peer of the gateway; 1 stands for the socket next to a private one."""
        gateway = self._server.gateway
        return gateway.preview_port if gateway is not None and len(peer) > 1 else 1

    def _handle(self, session: _Session, message: Message) -> Sequence[Arrival]:
        match message:
            case Heartbeat():
                self._send(session, Alive())
                return (replace(message, station=session.station, lease=session.lease),)
            case Parcel(episode=episode, arrays_file=data):
                kind = Announced if episode.pictures_sha256 else Delivered
                return (kind(station=session.station, lease=session.lease, episode=episode, arrays_file=data),)
            case PicturesPart():
                self._uploads.arrived(session.station, message)
                return ()
            case WantPolicy():
                self._send(session, self._policy_part(message))
                return ()
            case Goodbye(cause=cause):
                return self._forget(session, cause)
            case _:
                return self._log_limiter.add(session.station, f"A station may not send {type(message).__name__}.")

    def _forget(self, session: _Session, cause: str) -> Sequence[Arrival]:
        self._stations.pop(session.station, None)
        self._uploads.forget(session.station)
        self._peers.pop(session.peer, None)
        return (Left(station=session.station, cause=cause),)

    def _silent(self) -> Sequence[Arrival]:
        # The missing heartbeat may be among the unread messages; a flood extends the time only by `_FLOOD_S`.
        limit_s = self._silent_s + (_FLOOD_S if self._server.socket.poll(0) else 0.0)
        late = [known for known in self._stations.values() if self._clock() - known.heard_s > limit_s]
        return [left for known in late for left in self._forget(known, f"not heard for {self._silent_s:g} s")]

    def _policy_part(self, want: WantPolicy) -> Message:
        policy_id = want.policy_id
        # The id becomes a path, so only a hash may pass.
        if not is_version_id(policy_id):
            return PolicyMissing(policy_id=policy_id, why="it is not the sha256 of a policy version")
        try:
            packed = policy_files.pack(self._versions / version_id(policy_id))
            data = packed.read(want.part * PART, PART)
        except (EnpireError, OSError) as problem:
            return PolicyMissing(policy_id=policy_id, why=str(problem)[:2000])
        parts = -(-packed.size // PART)
        if want.part >= parts:
            return PolicyMissing(policy_id=policy_id, why=f"it has {parts} parts, not {want.part + 1}")
        return PolicyPart(policy_id=policy_id, part=want.part, parts=parts, data=data)


def _shown(peer: Peer) -> str:
    """The name in the ledger of a peer that has not said hello."""
    return peer[-1].hex()[:32]


def _keep[K, V](known: OrderedDict[K, V], key: K, value: V) -> None:
    """Add an entry as the newest, and keep at most 1024 entries."""
    known.pop(key, None)
    known[key] = value
    while len(known) > 1024:
        known.popitem(last=False)


def _unsent(order: Order, lease: int) -> Delivered:
    episode = Episode(
        order=order, outcome="aborted", cause="released: not sent, the station was not connected", confidence=0.0,
        ran_policy_id="", ticks=0, began_s=0.0, ended_s=0.0,
    )  # fmt: skip
    return Delivered(station=order.station, lease=lease, episode=episode, arrays_file=b"")
