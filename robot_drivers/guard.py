"""The guard: a separate process that owns a robot's driver, so that the robot stops whatever its runner does.

The runner is the process that moves the robot, usually a station. The guard stops the robot when the runner is late or
gone, when its actions are too many or too old, when any process asks for a stop, and when the envelope is left. It
answers a stop after the latch file is on disk. `python -m robot_drivers.guard SETTINGS.json` runs it.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from enpire.errors import EnpireError, RobotProblem, TransportProblem
from enpire.field_reader import Fields
from enpire.files import parse, plain, read_json
from enpire.processes.child_process import resist_oom_kill
from enpire.store import removal
from enpire.wire.rpc import Message, error_out
from robot_drivers.guard_connections import NO_PEER, GuardConnections
from robot_drivers.guard_rules import ActionRate, GuardRules, Ticket
from robot_drivers.guard_settings import CALLERS_PATH, Card, GuardSettings, open_guarded_rig
from robot_drivers.guard_worker import GuardWorker, Job
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.latch import Latch
from robot_drivers.resume_code import ResumeCheck, read

FIRST_RUNNER_S = 60.0
"""How long a new guard waits for its first runner [s]."""


class Guard:
    """The guard of one robot. One thread serves connections, watchdog and stops; one (`GuardWorker`) the driver."""

    def __init__(self, settings: GuardSettings, rig: GuardedRig, check: ResumeCheck | None) -> None:
        """Guard a connected rig; `check` tests the code of an operator who resumes it, None for a simulation."""
        period_s = rig.spec.period_s
        patience_s = settings.watchdog_s or settings.watchdog_periods * period_s
        self.settings = settings
        self.rules = GuardRules(patience_ns=round(1e9 * patience_s))
        self._rig = rig
        self._check = check
        self._latch = Latch(settings.latch)
        self._connections = GuardConnections(settings.folder, settings.group, self.rules.dropped)
        self._rate = ActionRate(period_s if settings.pace == "realtime" else 0.0)
        self._worker = GuardWorker(rig, self._connections.wake, self._pace)
        self._busy: dict[int, str] = {}
        self._runner = NO_PEER
        self._alone_since_s = time.monotonic()
        self._had_runner = False
        self._ending = False
        self._unstopped = ""
        """Why the driver could not carry out the last stop; empty when it could."""
        self.latest_ms = 0.0
        """Longest time from a deadline to the watchdog's stop [ms]."""

    def run(self) -> None:
        """Serve until the runner leaves, a process asks the guard to quit, or the system ends the process.

        However it ends, also with an error: the robot is stopped, the latch closed, the driver released.
        """
        with ExitStack() as at_the_end:
            at_the_end.callback(self._connections.close)
            at_the_end.callback(removal.remove, self.settings.card, self.settings.folder)
            at_the_end.callback(self._let_go)
            at_the_end.callback(self._latch_durably, "The guard has ended; look at the robot, then resume it.")
            at_the_end.callback(self._halt)
            self._halt()
            self._latch_durably(self.rules.latched)
            signal.set_wakeup_fd(self._connections.wake.fileno(), warn_on_full_buffer=False)
            signal.signal(signal.SIGTERM, self._on_signal)
            _write_card(self.settings, self._connections.address)
            while not self._ending:
                self._turn()

    def _turn(self) -> None:
        for peer, message in self._connections.wait(self._wait_s()):
            if message is not None:
                self._handle(peer, message)
            elif peer == self._runner:
                self._lose_runner()
        self._deliver()
        self._check_latch()
        self._watch()
        self._leave_when_alone()

    def _check_latch(self) -> None:
        """Stop the robot when the latch file is missing, or another process closed it."""
        if not (self.rules.latched or self._latch.is_open):
            self.rules.latch(self._latch.read().cause)
            self._halt()

    def _watch(self) -> None:
        now_ns = time.monotonic_ns()
        due_ns = self.rules.due_ns
        # The deadline runs from action to action: other requests do not extend it, the robot moves on the last action.
        if self.rules.overdue(now_ns, self._busy.get(self._runner, "")):
            self._halt()
            self.latest_ms = max(self.latest_ms, (now_ns - (due_ns or now_ns)) / 1e6)

    def _wait_s(self) -> float:
        due_ns = self.rules.due_ns
        return 0.5 if due_ns is None else min(max((due_ns - time.monotonic_ns()) / 1e9, 0.0), 0.5)

    def _lose_runner(self) -> None:
        self._runner = NO_PEER
        self._alone_since_s = time.monotonic()
        self._halt()
        if not self.settings.person_to_resume:
            return
        try:
            self._latch_durably("The runner is gone; look at the robot, then resume it.")
        except RobotProblem as problem:
            # The robot is latched in memory; it cannot be resumed before the file is closed too (see `Latch.open`).
            self.rules.latched = f"{self.rules.latched} {problem}"

    def _handle(self, peer: int, message: Fields) -> None:
        try:
            method = message.text("verb", 16)
            if method in {"stop", "resume", "status", "hello", "quit"}:
                self._connections.answer(peer, {"error": "", **self._control(peer, method, message)})
            elif peer != self._runner:
                raise RobotProblem("Only the runner may use the robot; send hello with the runner's lease first.")
            else:
                self._pass_on(peer, method, message)
        except TransportProblem as problem:
            self._connections.refuse(peer, problem)
        except EnpireError as error:
            self._connections.answer(peer, error_out(error))

    def _control(self, peer: int, method: str, message: Fields) -> Message:
        if method == "hello":
            return self._greet(peer, message)
        if method == "stop":
            # A stop is valid whatever its cause contains.
            self.rules.latch(str(message.get("cause") if "cause" in message else "")[:400])
            self._halt()
            self._latch_durably(self.rules.latched)
            if self._unstopped:
                raise RobotProblem(self._unstopped)
        elif method == "resume":
            self._resume(message)
        elif method == "quit":
            self._halt()
            self._latch_durably("The guard was ended; look at the robot, then resume it.")
            self._ending = True
        return self._status()

    def _resume(self, message: Fields) -> None:
        """Open the latch on disk, for an operator who has the robot's code. Without a latch nothing changes."""
        person = message.text("person", 120).strip()
        if not person:
            raise RobotProblem("Give the name of the operator who looked at the robot and resumes it.")
        if self._check is not None and not self._check.allows(message.text("key", 128)):
            self.rules.dropped["wrong code"] += 1
            raise RobotProblem(
                "That is not this robot's code, so nothing changes; `enpire robot code` printed the code once."
            )
        if self.rules.latched:
            self._latch.open(message.text("nonce", 64), person)
            self.rules.unlatch()

    def _status(self) -> Message:
        return {
            "latched": self.rules.latched,
            "tripped": self.rules.tripped,
            "armed": self.rules.armed,
            "dropped": dict(self.rules.dropped),
            "lease": self.rules.lease,
            "latest_ms": self.latest_ms,
            "runner": self._runner != NO_PEER,
            "pid": os.getpid(),
            "rehearses": self.settings.rehearse,
        }

    def _greet(self, peer: int, message: Fields) -> Message:
        if not self.rules.greet(message.whole("lease")):
            raise RobotProblem(f"Lease {message.whole('lease')} is older than {self.rules.lease}; send a newer one.")
        if self._runner not in {NO_PEER, peer}:
            self._connections.disconnect(self._runner)
            self._lose_runner()
        self._runner = peer
        self._had_runner = True
        return self._status()

    def _pass_on(self, peer: int, method: str, message: Fields) -> None:
        if peer in self._busy:
            self.rules.dropped["busy"] += 1
            raise RobotProblem("A request arrived before the last one was answered; it was dropped; wait for answers.")
        if method == "place" and self._busy:
            raise RobotProblem("The driver still serves the former runner; place the robot again.")
        now_ns = time.monotonic_ns()
        if method in {"act", "place"}:
            self._check_latch()
            ticket = Ticket(
                sequence=message.whole("sequence"), lease=message.whole("lease"), stamp_ns=message.whole("stamp_ns")
            )
            tripped = self.rules.tripped
            moves = self.rules.armed and self._rig.lanes == 1
            refusal = self.rules.admit(ticket, now_ns) if method == "act" else self.rules.begin(ticket)
            if refusal:
                if self.rules.tripped != tripped:
                    self._halt()
                raise RobotProblem(self._explained(refusal))
            if method == "place":
                if moves:
                    self._rig.stop()  # no watchdog runs before the first action of the new rollout
                self._rig.resume()
        self._busy[peer] = method
        self._worker.give(Job(peer=peer, method=method, message=message))

    def _pace(self) -> None:
        """Run in the driver's thread before an action: delay one that is early, start from rest after a pause."""
        time.sleep(self._rate.wait_s(time.monotonic()))
        if self._rate.passes(time.monotonic()):
            self._rig.rest()

    def _explained(self, refusal: str) -> str:
        if refusal == "latched":
            return f"The robot is latched: {self.rules.latched} An operator must look at it and resume it."
        if refusal == "tripped":
            return f"The guard stopped the robot: {self.rules.tripped} Place it to begin a new rollout."
        return f"The guard dropped an action because it was {refusal}; the robot did not carry it out."

    def _deliver(self) -> None:
        while not self._worker.finished.empty():
            job, result = self._worker.finished.get()
            self._busy.pop(job.peer, None)
            if job.method == "act":
                self.rules.served(time.monotonic_ns())
            failed = result.pop("failed", False) and self.rules.armed
            if result.pop("fault", False) or failed:
                self.rules.trip("The driver failed.")
                self._halt()
            if self._rig.lanes == 1 and self._rig.offences[0] and not self.rules.tripped:
                self.rules.trip(f"The envelope was left: {self._rig.offences[0]}.")
                self._halt()
            self._connections.answer(job.peer, result)

    def _halt(self) -> None:
        """Stop in a controlled way: no further action passes, and the driver holds the robot."""
        self.rules.trip(self.rules.latched or "The robot was stopped.")
        self._unstopped = ""
        try:
            self._rig.stop()
        except RobotProblem as problem:
            self._unstopped = str(problem)
            self.rules.latch(self._unstopped)

    def _latch_durably(self, cause: str) -> None:
        self.rules.latch(cause)
        try:
            self._latch.close(self.rules.latched)
        except EnpireError as problem:
            raise RobotProblem(f"The robot is stopped, but its latch file could not be written: {problem}") from problem

    def _let_go(self) -> None:
        if self._worker.end():
            self._rig.close()

    def _leave_when_alone(self) -> None:
        if self._runner != NO_PEER:
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


def _write_card(settings: GuardSettings, address: str) -> None:
    card = Card(pid=os.getpid(), socket=address)
    # Replaced as a whole, but not synced to disk: it is of no use after this process.
    staged = settings.card.with_suffix(".new")
    staged.write_text(json.dumps(plain(card)), encoding="utf-8")
    removal.replace(staged, settings.card, settings.folder)


def main(arguments: list[str]) -> int:
    """Run one guard from a settings file; exit code 1 and one sentence on stderr when it cannot start."""
    if (before := os.environ.pop(CALLERS_PATH, None)) is not None:
        os.environ["PYTHONPATH"] = before
    try:
        settings = parse(GuardSettings, read_json(Path(arguments[0])), arguments[0])
        settings = replace(settings, folder=settings.folder.absolute())  # operators connect from any folder
        # Held until the process ends, so that two guards never own one robot.
        lock = os.open(settings.folder / "guard.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        resist_oom_kill()
        if settings.realtime_priority:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        check = read(settings.folder) if settings.person_to_resume else None
        Guard(settings, open_guarded_rig(settings), check).run()
    except BlockingIOError:
        print("Another guard owns this robot; connect to that one.", file=sys.stderr)
        return 1
    except (EnpireError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
