"""Lets a rig be driven over ZeroMQ from another process or machine; `robot_drivers.remote` is the other end."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import zmq

from enpire.errors import EnpireError, RobotProblem, TransportProblem, UsageError
from enpire.fleet.curve_keys import Doorkeeper
from enpire.fleet.fields import Fields
from enpire.fleet.questions import LARGEST, Message, decode, encode, error_out
from enpire.fleet.zmq_link import listen
from robot_drivers.guard_worker import GuardWorker, Job
from robot_drivers.wire import Watched

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
TURN_MS = 200


class RigServer:
    """One rig behind a ROUTER socket. Stops are answered while a slow command is on its way.

    Serve a rig that protects itself: one in its envelope for a simulation, one behind its guard (`open_guarded`) for
    hardware, whose watchdog then also notices a lost network.
    """

    def __init__(self, rig: Watched, address: str, keys: Path | None = None) -> None:
        """Bind.

        Args:
            rig: what is driven.
            address: such as tcp://127.0.0.1:*; only the loopback is allowed without keys.
            keys: folder with this server's keys and the `allowed` clients (`enpire.fleet.curve_keys`).

        Raises:
            UsageError: an address that others can reach, without keys.
            TransportProblem: the address is in use.
        """
        if keys is None and not is_private(address):
            raise UsageError(f"{address} can be reached from other machines; give `keys`, or listen on 127.0.0.1.")
        self._rig = rig
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._door = Doorkeeper(self._context, keys) if keys is not None else None
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 500)
        self._router.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        if self._door is not None:
            self._door.guard(self._router)
        try:
            self.address = listen(self._router, address)
        except TransportProblem:
            self._close_sockets()
            raise
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._worker = GuardWorker(rig, self._wake_out)
        self._peers: dict[int, tuple[bytes, int]] = {}
        self._jobs = 0
        self._last: dict[bytes, int] = {}
        self.dropped = 0
        """Commands that were repeated or out of order, and messages that were none."""

    def run(self, ended: threading.Event) -> None:
        """Serve until `ended` is set; the rig is stopped, not closed."""
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._wake_in.fileno(), zmq.POLLIN)
        if self._door is not None:
            poller.register(self._door.socket, zmq.POLLIN)
        while not ended.is_set():
            ready = dict(poller.poll(TURN_MS))
            if self._door is not None and self._door.socket in ready:
                self._door.answer()
            if self._router in ready:
                self._serve()
            if self._wake_in.fileno() in ready:
                self._wake_in.recv(4096)
            self._deliver()
        self._rig.stop()
        self._worker.end()
        with closing(self._wake_in), closing(self._wake_out):
            self._close_sockets()

    def _serve(self) -> None:
        frames = self._router.recv_multipart()
        if len(frames) != 2:
            self.dropped += 1
            return
        peer, frame = frames
        try:
            message = decode(frame)
            sequence, verb = message.whole("sequence"), message.text("verb", 16)
        except TransportProblem as problem:
            self.dropped += 1
            self._answer(peer, 0, error_out(problem))
            return
        try:
            self._handle(peer, sequence, verb, message)
        except EnpireError as error:
            self._answer(peer, sequence, error_out(error))

    def _handle(self, peer: bytes, sequence: int, verb: str, message: Fields) -> None:
        if sequence <= self._last.get(peer, 0):
            self.dropped += 1
            raise RobotProblem("A command was repeated or came out of order; it was dropped.")
        self._last[peer] = sequence
        if verb == "stop":
            self._rig.stop()
            self._answer(peer, sequence, {"error": ""})
        elif verb == "resume":
            self._rig.resume()
            self._answer(peer, sequence, {"error": ""})
        else:
            self._jobs += 1
            self._peers[self._jobs] = (peer, sequence)
            self._worker.give(Job(peer=self._jobs, verb=verb, message=message))

    def _deliver(self) -> None:
        while not self._worker.finished.empty():
            job, result = self._worker.finished.get()
            peer, sequence = self._peers.pop(job.peer)
            self._answer(peer, sequence, result)

    def _answer(self, peer: bytes, sequence: int, message: Message) -> None:
        self._router.send_multipart([peer, encode({**message, "sequence": sequence})])

    def _close_sockets(self) -> None:
        self._router.close()
        if self._door is not None:
            self._door.socket.close(linger=0)
        self._context.term()


def is_private(address: str) -> bool:
    """Whether only this machine can reach an address."""
    parts = urlsplit(address)
    return parts.scheme in {"ipc", "inproc"} or (parts.scheme == "tcp" and (parts.hostname or "") in LOOPBACK)
