"""The guard: a process of its own that owns a robot's driver, so that the robot stops whatever its runner does.

It stops the robot when the runner is late, gone, flooding or stale, when anyone says stop, and when the envelope is
left. A stop is answered only after the latch file is durable. `python -m robot_drivers.guard SETTINGS.json` runs it.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

from enpire.errors import EnpireError, RobotProblem, TransportProblem
from enpire.files import parse
from enpire.fleet.fields import Fields
from enpire.fleet.questions import SCHEMA, Message, decode, encode, error_out
from enpire.processes import end_last
from robot_drivers.guard_rules import GuardRules, Ticket
from robot_drivers.guard_settings import GuardSettings, open_guarded_rig
from robot_drivers.guard_worker import GuardWorker, Job
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.latch import Latch
from robot_drivers.streams import FrameStream

LEAST_PERIODS = 0.5
"""Least time between two commands in real time; a quicker runner would outrun the limits on steps."""
FIRST_RUNNER_S = 60.0
LONGEST_PATH = 100
"""Bytes that the system allows for the path of a socket, with room."""


class Guard:
    """One robot's guard: one thread for sockets, watchdog and stops, one (`GuardWorker`) for the driver."""

    def __init__(self, settings: GuardSettings, rig: GuardedRig) -> None:
        period_s = rig.spec.period_s
        patience_s = settings.watchdog_s or settings.watchdog_periods * period_s
        self.settings = settings
        self.rules = GuardRules(patience_ns=round(1e9 * patience_s))
        self._rig = rig
        self._latch = Latch(settings.latch)
        self._wake_in, wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        wake_out.setblocking(False)
        self._wake_out = wake_out
        self._worker = GuardWorker(rig, wake_out, LEAST_PERIODS * period_s if settings.pace == "realtime" else 0.0)
        self._selector = selectors.DefaultSelector()
        self._listener = _listen(settings)
        self._peers: dict[int, FrameStream] = {}
        self._busy: dict[int, str] = {}
        self._runner = -1
        self._alone_since_s = time.monotonic()
        self._had_runner = False
        self._ending = False
        self.latest_ms = 0.0
        """How late the watchdog itself noticed at worst, in milliseconds."""

    def run(self) -> None:
        """Serve until the runner leaves, a person says quit, or the system ends the process."""
        self._rig.stop()
        self._latch_durably("The guard has started; look at the robot, then resume it.")
        signal.set_wakeup_fd(self._wake_out.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_signal)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        _write_card(self.settings, self._listener)
        while not self._ending:
            self._turn()
        self._halt()
        if self._worker.end():
            self._rig.close()
        self.settings.card.unlink(missing_ok=True)
        Path(self._listener.getsockname()).unlink(missing_ok=True)

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._wait_s()):
            if key.fileobj is self._listener:
                self._welcome()
            elif key.fileobj is self._wake_in:
                self._drain()
            elif key.fd in self._peers:
                self._serve(key.fd)
        self._deliver()
        self._write_on()
        now_ns = time.monotonic_ns()
        due_ns = self.rules.due_ns
        # One deadline from command to command: whatever else is asked meanwhile, the robot moves on its last one.
        if self.rules.overdue(now_ns, self._busy.get(self._runner, "")):
            self._halt()
            self.latest_ms = max(self.latest_ms, (now_ns - (due_ns or now_ns)) / 1e6)
        self._leave_when_alone()

    def _wait_s(self) -> float:
        due_ns = self.rules.due_ns
        return 0.5 if due_ns is None else min(max((due_ns - time.monotonic_ns()) / 1e9, 0.0), 0.5)

    def _write_on(self) -> None:
        """Wake up again for every peer that has not taken its whole answer yet."""
        for peer in self._peers.values():
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.unsent else 0)
            if self._selector.get_key(peer.socket).events != wanted:
                self._selector.modify(peer.socket, wanted)

    def _welcome(self) -> None:
        connection, _ = self._listener.accept()
        peer = FrameStream(connection)
        self._peers[connection.fileno()] = peer
        self._selector.register(connection, selectors.EVENT_READ)

    def _drain(self) -> None:
        try:
            self._wake_in.recv(4096)
        except BlockingIOError:
            return

    def _serve(self, fd: int) -> None:
        """Take what one peer says; nothing that it sends may end the guard."""
        peer = self._peers[fd]
        try:
            alive = peer.receive()
            while fd in self._peers and (frame := peer.frame()) is not None:
                self._handle(fd, decode(frame))
            peer.flush()
        except TransportProblem as problem:
            self._refuse(fd, problem)
            alive = False
        if not alive and fd in self._peers:
            self._farewell(fd)

    def _refuse(self, fd: int, problem: TransportProblem) -> None:
        self.rules.dropped["malformed"] += 1
        if fd in self._peers and not self._peers[fd].unsent:
            self._answer(fd, error_out(problem))

    def _farewell(self, fd: int) -> None:
        peer = self._peers.pop(fd)
        self._selector.unregister(peer.socket)
        peer.socket.close()
        self._busy.pop(fd, None)
        if fd == self._runner:
            self._runner = -1
            self._alone_since_s = time.monotonic()
            self._halt()
            if self.settings.person_to_resume:
                self._latch_durably("The runner is gone; look at the robot, then resume it.")

    def _handle(self, fd: int, message: Fields) -> None:
        verb = message.text("verb", 16)
        try:
            if verb in {"stop", "resume", "status", "hello", "quit"}:
                self._answer(fd, {"error": "", **self._control(fd, verb, message)})
            elif fd != self._runner:
                raise RobotProblem("Only the runner may speak to the robot; say hello with its lease first.")
            else:
                self._pass_on(fd, verb, message)
        except TransportProblem:
            raise
        except EnpireError as error:
            self._answer(fd, error_out(error))

    def _control(self, fd: int, verb: str, message: Fields) -> Message:
        if verb == "hello":
            return self._greet(fd, message)
        if verb == "stop":
            cause = message.text("cause", 400)
            self.rules.latch(cause)
            self._halt()
            self._latch_durably(cause)
        elif verb == "resume":
            self._latch.open(message.text("nonce", 64), message.text("person", 120))
            self.rules.unlatch()
        elif verb == "quit":
            self._halt()
            self._latch_durably("The guard was ended; look at the robot, then resume it.")
            self._ending = True
        return self._status()

    def _status(self) -> Message:
        return {
            "latched": self.rules.latched,
            "tripped": self.rules.tripped,
            "armed": self.rules.armed,
            "dropped": dict(self.rules.dropped),
            "lease": self.rules.lease,
            "latest_ms": self.latest_ms,
            "runner": self._runner >= 0,
            "pid": os.getpid(),
        }

    def _greet(self, fd: int, message: Fields) -> Message:
        if not self.rules.greet(message.whole("lease")):
            raise RobotProblem(f"Lease {message.whole('lease')} is older than {self.rules.lease}; say hello anew.")
        if self._runner >= 0 and self._runner != fd:
            self._farewell(self._runner)
        self._runner = fd
        self._had_runner = True
        return self._status()

    def _pass_on(self, fd: int, verb: str, message: Fields) -> None:
        if fd in self._busy:
            self.rules.dropped["busy"] += 1
            raise RobotProblem("A command came before the last one was answered; it was dropped.")
        now_ns = time.monotonic_ns()
        if verb in {"act", "place"}:
            ticket = Ticket(
                sequence=message.whole("sequence"), lease=message.whole("lease"), stamp_ns=message.whole("stamp_ns")
            )
            refusal = self.rules.admit(ticket, now_ns) if verb == "act" else self.rules.begin(ticket)
            if refusal:
                if self.rules.tripped or self.rules.latched:
                    self._halt()
                raise RobotProblem(self._explained(refusal))
            if verb == "place":
                self._rig.resume()
        self._busy[fd] = verb
        self._worker.give(Job(peer=fd, verb=verb, message=message))

    def _explained(self, refusal: str) -> str:
        if refusal == "latched":
            return f"The robot is latched: {self.rules.latched} A person must look at it and resume it."
        if refusal == "tripped":
            return f"The guard stopped the robot: {self.rules.tripped} Place it to begin anew."
        return f"The guard dropped a command because it was {refusal}; nothing moved for it."

    def _deliver(self) -> None:
        while not self._worker.finished.empty():
            job, result = self._worker.finished.get()
            self._busy.pop(job.peer, None)
            if job.verb == "act":
                self.rules.served(time.monotonic_ns())
            if result.pop("fault", False):
                self.rules.trip("The driver failed.")
            if self._rig.lanes == 1 and self._rig.offences[0]:
                self.rules.trip(f"The envelope was left: {self._rig.offences[0]}.")
                self._halt()
            if job.peer in self._peers:
                self._answer(job.peer, result)

    def _answer(self, fd: int, message: Message) -> None:
        try:
            self._peers[fd].send(encode(message))
        except TransportProblem:
            self._farewell(fd)

    def _halt(self) -> None:
        """The controlled stop: no further command passes, and the driver is told to hold."""
        self.rules.trip(self.rules.latched or "The robot was stopped.")
        self._rig.stop()

    def _latch_durably(self, cause: str) -> None:
        self.rules.latch(cause)
        self._latch.close(cause)

    def _leave_when_alone(self) -> None:
        if self._runner >= 0:
            return
        alone_s = time.monotonic() - self._alone_since_s
        if not self._had_runner:
            self._ending = self._ending or alone_s > FIRST_RUNNER_S
        elif self.settings.linger_s > 0:
            self._ending = self._ending or alone_s > self.settings.linger_s
        else:
            self._ending = self._ending or not self.settings.person_to_resume

    def _on_signal(self, number: int, frame: object) -> None:
        self._ending = True


def _listen(settings: GuardSettings) -> socket.socket:
    path = settings.folder / "guard.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        path = Path(tempfile.mkdtemp(prefix="enpire-")) / "guard.sock"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(16)
    listener.setblocking(False)
    return listener


def _write_card(settings: GuardSettings, listener: socket.socket) -> None:
    card = {"pid": os.getpid(), "socket": listener.getsockname(), "schema": SCHEMA}
    # Whole or not at all, but not durable: it is worth nothing after this process.
    staged = settings.card.with_suffix(".new")
    staged.write_text(json.dumps(card), encoding="utf-8")
    staged.replace(settings.card)


def main(arguments: list[str]) -> int:
    """Run one guard from a settings file; the exit code is 1 with a sentence when it cannot start."""
    try:
        settings = parse(GuardSettings, json.loads(Path(arguments[0]).read_text(encoding="utf-8")), arguments[0])
        # Held until the process ends: two guards never own one robot.
        lock = os.open(settings.folder / "guard.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        end_last()
        if settings.realtime_priority:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        Guard(settings, open_guarded_rig(settings)).run()
    except BlockingIOError:
        print("Another guard owns this robot; speak to that one.", file=sys.stderr)
        return 1
    except (EnpireError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
