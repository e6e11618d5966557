"""Serves a rig over ZeroMQ to another process or computer; `robot_drivers.remote` is the client.

One client at a time owns the rig. A request counts only under the owner's lease, and only while the owner waits for its
answer: a request that was delayed and given up is never carried out. A stop is carried out for every client.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from enpire.errors import EnpireError, RobotProblem, TransportProblem
from enpire.field_reader import Fields
from enpire.log_lines import print_line
from enpire.wire.curve_keys import EncryptedBind
from enpire.wire.rpc import Message, decode, encode, error_out
from enpire.wire.server_socket import Peer, ServerSocket
from enpire.wire.socket_limits import SocketLimits
from robot_drivers.guard_worker import GuardWorker, Job
from robot_drivers.rig_messages import MonitoredRig, answer
from robot_drivers.streams import REQUEST_MAX, GuardGone

TURN_MS = 200
"""Longest wait for a message [ms]."""
SILENT_S = 3.0
"""Without a request for this time [s] an owner loses the rig to the next client."""
LONG = ("place", "look", "teleport")
"""Requests that may take longer than a client waits; the server reports meanwhile that the robot is working."""


@dataclass(slots=True, kw_only=True)
class _Owner:
    """The client that moves the rig."""

    lease: str
    name: str
    heard_s: float
    numbers: dict[Peer, int] = field(default_factory=dict[Peer, int])
    """Connection -> number of the last request that came over it."""


class RigServer:
    """One rig behind a ROUTER socket. It answers stops while a slow request is carried out.

    Serve a rig with limits: a simulation in its envelope, or hardware behind its guard (`open_guarded`). The guard's
    watchdog then also stops the robot when the network is lost.
    """

    def __init__(
        self, rig: MonitoredRig, address: str, keys: Path | None = None, say: Callable[[str], None] = print_line,
        *, person_to_resume: bool = False,
    ) -> None:  # fmt: skip
        """Bind.

        Args:
            rig: the rig.
            address: such as tcp://127.0.0.1:7200; without keys it must be a private socket, ipc:///FOLDER/NAME.
            keys: folder with this server's keys and the `allowed` clients (`enpire.wire.curve_keys`).
            say: gets one line about each client that is refused.
            person_to_resume: whether only an operator at the robot may resume it, also after its owner has left.

        Raises:
            TransportProblem: the address is in use, or needs keys and there are none.
        """
        self._rig, self._person_to_resume, self._say = rig, person_to_resume, say
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        bind = address if keys is None else EncryptedBind(address=address, keys=keys)
        try:
            self._server = ServerSocket(self._context, bind, "robot-server", SocketLimits(largest=REQUEST_MAX))
        except TransportProblem:
            self._context.term()
            raise
        self.address = self._server.address
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._worker = GuardWorker(rig, self._wake_out)
        self._owner: _Owner | None = None
        self._stops: set[str] = set()
        """Leases of the owners that stopped the robot; an empty one stands for any other process."""
        self._busy: tuple[Peer, int, str] | None = None
        """The request that the rig carries out: connection, number, name."""
        self.dropped = 0
        """Number of requests that were repeated or too late, and of malformed messages."""

    def run(self, ended: threading.Event) -> None:
        """Serve until `ended` is set; then stop the rig, but do not close it.

        Raises:
            GuardGone: the guard of the rig has ended.
        """
        poller = zmq.Poller()
        poller.register(self._server.socket, zmq.POLLIN)
        poller.register(self._wake_in.fileno(), zmq.POLLIN)
        try:
            while not ended.is_set():
                self._turn(poller)
        finally:
            try:
                self._rig.stop()
            finally:
                self._worker.end()
                with closing(self._wake_in), closing(self._wake_out):
                    self._close_sockets()

    def _turn(self, poller: zmq.Poller) -> None:
        ready = dict(poller.poll(TURN_MS))
        for report in self._server.reports():
            self._say(report)
        if self._server.socket in ready:
            self._serve()
        if self._wake_in.fileno() in ready:
            self._wake_in.recv(4096)
            self._deliver()
        if not ready and self._busy is not None and self._busy[2] in LONG:
            self._answer(self._busy[0], self._busy[1], {"working": True})

    def _serve(self) -> None:
        came = self._server.receive()
        if came is None:
            return
        if came.refused:
            self._say(came.refused)
            return
        if len(came.frames) != 1:
            self.dropped += 1
            return
        peer, [frame] = came.peer, came.frames
        try:
            message = decode(frame.bytes)
            sequence, method = message.whole("sequence"), message.text("verb", 16)
        except TransportProblem as problem:
            self.dropped += 1
            self._answer(peer, 0, error_out(problem))
            return
        try:
            reply = self._reply_to(peer, sequence, method, message)
            if reply is not None:
                self._answer(peer, sequence, {"error": "", **reply})
        except GuardGone as error:
            self._answer(peer, sequence, error_out(error))
            raise
        except EnpireError as error:
            self._answer(peer, sequence, error_out(error))

    def _reply_to(self, peer: Peer, sequence: int, method: str, message: Fields) -> Message | None:
        """The answer to a request; None for one that the rig has to carry out first."""
        if method == "stop":
            # From any client, however old the request is and whatever else it contains.
            lease = message.get("lease") if "lease" in message else ""
            self._stops.add(self._owner.lease if self._owner is not None and lease == self._owner.lease else "")
            self._rig.stop()
            return {}
        if method == "hello":
            return self._greet(message)
        owner = self._admitted(peer, sequence, message)
        if method == "status":
            return {"stopped": self._is_stopped()}
        if method == "resume":
            self._resume(owner)
            return {}
        if method == "bye":
            self._release(owner)
            return {}
        if self._busy is not None:
            raise RobotProblem(f"The robot still carries out the last request ({self._busy[2]}); this one was dropped.")
        self._busy = peer, sequence, method
        self._worker.give(Job(peer=0, method=method, message=message))
        return None

    def _greet(self, message: Fields) -> Message:
        name, owner = message.text("client", 200), self._owner
        if self._busy is not None:
            raise RobotProblem(f"The robot carries out a request ({self._busy[2]}); try again when it is done.")
        if owner is not None:
            silent_s = time.monotonic() - owner.heard_s
            if silent_s < SILENT_S:
                raise RobotProblem(
                    f"The robot is owned by {owner.name}, whose last request came {silent_s:.1f} s ago; close it there,"
                    f" or try again when it has sent nothing for {SILENT_S:.0f} s."
                )
            self._release(owner)
        described = answer(self._rig, "spec", message)
        self._owner = _Owner(lease=secrets.token_hex(8), name=name, heard_s=time.monotonic())
        return {"lease": self._owner.lease, **described}

    def _admitted(self, peer: Peer, sequence: int, message: Fields) -> _Owner:
        owner = self._owner
        if owner is None or message.text("lease", 16) != owner.lease:
            holder = "by no client" if owner is None else f"by {owner.name}"
            raise RobotProblem(f"This client no longer owns the robot; it is owned {holder}. Connect again.")
        late = time.monotonic_ns() > message.whole("until_ns")
        if late or sequence <= owner.numbers.get(peer, 0):
            self.dropped += 1
            why = "arrived after its client had given it up" if late else "was repeated or came out of order"
            raise RobotProblem(f"A request {why}; it was dropped.")
        owner.numbers[peer] = sequence
        owner.heard_s = time.monotonic()
        return owner

    def _is_stopped(self) -> bool:
        stopped = self._rig.stopped
        if not stopped:
            self._stops.clear()  # an operator at the robot has resumed it
        elif not self._stops:
            self._stops.add("")  # an operator at the robot has stopped it
        return stopped

    def _stopped_by_another(self, owner: _Owner) -> bool:
        return self._is_stopped() and self._stops != {owner.lease}

    def _resume(self, owner: _Owner) -> None:
        if self._stopped_by_another(owner):
            raise RobotProblem(
                "Another process stopped the robot; look at it, then resume it at its computer (`enpire robot resume`)."
            )
        self._rig.resume()
        self._stops.clear()

    def _release(self, owner: _Owner) -> None:
        """Release the rig of an owner that left: latch a robot that only an operator resumes, else end its stop."""
        self._owner = None
        if self._person_to_resume:
            self._rig.stop()
        elif not self._stopped_by_another(owner):
            self._resume(owner)

    def _deliver(self) -> None:
        while not self._worker.finished.empty():
            _, result = self._worker.finished.get()
            if self._busy is not None:
                peer, sequence, _ = self._busy
                self._busy = None
                if self._owner is not None:
                    self._owner.heard_s = time.monotonic()  # it waited for this answer
                self._answer(peer, sequence, result)

    def _answer(self, peer: Peer, sequence: int, message: Message) -> None:
        self._server.send(peer, encode({**message, "sequence": sequence, "clock_ns": time.monotonic_ns()}))

    def _close_sockets(self) -> None:
        self._server.close()
        self._context.term()
