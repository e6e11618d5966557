"""The guard: a process of its own that owns a robot's driver, so that the robot stops whatever its runner does.

It stops the robot when the runner is late, gone, flooding or stale, when anyone says stop, and when the envelope is
left. A stop is answered only after the latch file is durable. `python -m robot_drivers.guard SETTINGS.json` runs it.
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
from enpire.fields import Fields
from enpire.files import parse, plain, read_json
from enpire.processes.child_process import resist_oom_kill
from enpire.wire.rpc import Message, error_out
from robot_drivers.guard_connections import NOBODY, GuardConnections
from robot_drivers.guard_rules import CommandRate, GuardRules, Ticket
from robot_drivers.guard_settings import CALLERS_PATH, Card, GuardSettings, open_guarded_rig
from robot_drivers.guard_worker import GuardWorker, Job
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.latch import Latch
from robot_drivers.resume_code import ResumeCheck, read

FIRST_RUNNER_S = 60.0


class Guard:
    """One robot's guard: one thread for peers, watchdog and stops, one (`GuardWorker`) for the driver."""

    def __init__(self, settings: GuardSettings, rig: GuardedRig, check: ResumeCheck | None) -> None:
        """Serve one rig, connected; `check` is of the code of those who may resume it, None in simulation."""
        period_s = rig.spec.period_s
        patience_s = settings.watchdog_s or settings.watchdog_periods * period_s
        self.settings = settings
        self.rules = GuardRules(patience_ns=round(1e9 * patience_s))
        self._rig = rig
        self._check = check
        self._latch = Latch(settings.latch)
        self._connections = GuardConnections(settings.folder, settings.group, self.rules.dropped)
        self._rate = CommandRate(period_s if settings.pace == "realtime" else 0.0)
        self._worker = GuardWorker(rig, self._connections.wake, self._pace)
        self._busy: dict[int, str] = {}
        self._runner = NOBODY
        self._alone_since_s = time.monotonic()
        self._had_runner = False
        self._ending = False
        self._unstopped = ""
        """Why the driver could not stop the robot when it was told to last; empty when it could."""
        self.latest_ms = 0.0
        """How late the watchdog itself noticed at worst, in milliseconds."""

    def run(self) -> None:
        """Serve until the runner leaves, a person says quit, or the system ends the process.

        Whatever ends it, an error too: the robot is halted, the latch closed, the driver let go.
        """
        with ExitStack() as at_the_end:
            at_the_end.callback(self._connections.close)
            at_the_end.callback(self.settings.card.unlink, missing_ok=True)
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
        self._heed_latch()
        self._watch()
        self._leave_when_alone()

    def _heed_latch(self) -> None:
        """Halt when the latch file is gone, or somebody else closed it."""
        if not (self.rules.latched or self._latch.is_open):
            self.rules.latch(self._latch.read().cause)
            self._halt()

    def _watch(self) -> None:
        now_ns = time.monotonic_ns()
        due_ns = self.rules.due_ns
        # One deadline from command to command: whatever else is asked meanwhile, the robot moves on its last one.
        if self.rules.overdue(now_ns, self._busy.get(self._runner, "")):
            self._halt()
            self.latest_ms = max(self.latest_ms, (now_ns - (due_ns or now_ns)) / 1e6)

    def _wait_s(self) -> float:
        due_ns = self.rules.due_ns
        return 0.5 if due_ns is None else min(max((due_ns - time.monotonic_ns()) / 1e9, 0.0), 0.5)

    def _lose_runner(self) -> None:
        self._runner = NOBODY
        self._alone_since_s = time.monotonic()
        self._halt()
        if not self.settings.person_to_resume:
            return
        try:
            self._latch_durably("The runner is gone; look at the robot, then resume it.")
        except RobotProblem as problem:
            # What is latched here cannot be resumed before the file says so, too (see `Latch.open`).
            self.rules.latched = f"{self.rules.latched} {problem}"

    def _handle(self, peer: int, message: Fields) -> None:
        try:
            verb = message.text("verb", 16)
            if verb in {"stop", "resume", "status", "hello", "quit"}:
                self._connections.answer(peer, {"error": "", **self._control(peer, verb, message)})
            elif peer != self._runner:
                raise RobotProblem("Only the runner may speak to the robot; say hello with its lease first.")
            else:
                self._pass_on(peer, verb, message)
        except TransportProblem as problem:
            self._connections.refuse(peer, problem)
        except EnpireError as error:
            self._connections.answer(peer, error_out(error))

    def _control(self, peer: int, verb: str, message: Fields) -> Message:
        if verb == "hello":
            return self._greet(peer, message)
        if verb == "stop":
            # A stop holds whatever its cause looks like.
            self.rules.latch(str(message.get("cause") if "cause" in message else "")[:400])
            self._halt()
            self._latch_durably(self.rules.latched)
            if self._unstopped:
                raise RobotProblem(self._unstopped)
        elif verb == "resume":
            self._resume(message)
        elif verb == "quit":
            self._halt()
            self._latch_durably("The guard was ended; look at the robot, then resume it.")
            self._ending = True
        return self._status()

    def _resume(self, message: Fields) -> None:
        """Unlatch, durably, when a person who has the robot's code allows it; a robot that is not latched goes on."""
        person = message.text("person", 120).strip()
        if not person:
            raise RobotProblem("Say who resumes the robot: a person must have looked at it.")
        if self._check is not None and not self._check.allows(message.text("key", 128)):
            self.rules.dropped["wrong code"] += 1
            raise RobotProblem(
                "That is not this robot's code, so it stays as it is; who made the code (`enpire robot code`) has it."
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
            "runner": self._runner != NOBODY,
            "pid": os.getpid(),
        }

    def _greet(self, peer: int, message: Fields) -> Message:
        if not self.rules.greet(message.whole("lease")):
            raise RobotProblem(f"Lease {message.whole('lease')} is older than {self.rules.lease}; say hello anew.")
        if self._runner not in {NOBODY, peer}:
            self._connections.cut(self._runner)
            self._lose_runner()
        self._runner = peer
        self._had_runner = True
        return self._status()

    def _pass_on(self, peer: int, verb: str, message: Fields) -> None:
        if peer in self._busy:
            self.rules.dropped["busy"] += 1
            raise RobotProblem("A command came before the last one was answered; it was dropped.")
        if verb == "place" and self._busy:
            raise RobotProblem("The driver is not done with the runner before this one; place the robot again.")
        now_ns = time.monotonic_ns()
        if verb in {"act", "place"}:
            self._heed_latch()
            ticket = Ticket(
                sequence=message.whole("sequence"), lease=message.whole("lease"), stamp_ns=message.whole("stamp_ns")
            )
            tripped = self.rules.tripped
            moves = self.rules.armed and self._rig.lanes == 1
            refusal = self.rules.admit(ticket, now_ns) if verb == "act" else self.rules.begin(ticket)
            if refusal:
                if self.rules.tripped != tripped:
                    self._halt()
                raise RobotProblem(self._explained(refusal))
            if verb == "place":
                if moves:
                    self._rig.stop()  # no watchdog runs before the first command of the new rollout
                self._rig.resume()
        self._busy[peer] = verb
        self._worker.give(Job(peer=peer, verb=verb, message=message))

    def _pace(self) -> None:
        """In the driver's thread, before a command: a runner that hurries waits, one that was away starts from rest."""
        time.sleep(self._rate.wait_s(time.monotonic()))
        if self._rate.passes(time.monotonic()):
            self._rig.rest()

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
                self._halt()
            if self._rig.lanes == 1 and self._rig.offences[0] and not self.rules.tripped:
                self.rules.trip(f"The envelope was left: {self._rig.offences[0]}.")
                self._halt()
            self._connections.answer(job.peer, result)

    def _halt(self) -> None:
        """The controlled stop: no further command passes, and the driver is told to hold."""
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
            raise RobotProblem(f"The robot is stopped, but its latch file cannot say so: {problem}") from problem

    def _let_go(self) -> None:
        if self._worker.end():
            self._rig.close()

    def _leave_when_alone(self) -> None:
        if self._runner != NOBODY:
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
    # Whole or not at all, but not durable: it is worth nothing after this process.
    staged = settings.card.with_suffix(".new")
    staged.write_text(json.dumps(plain(card)), encoding="utf-8")
    staged.replace(settings.card)


def main(arguments: list[str]) -> int:
    """Run one guard from a settings file; the exit code is 1 with a sentence when it cannot start."""
    if (before := os.environ.pop(CALLERS_PATH, None)) is not None:
        os.environ["PYTHONPATH"] = before
    try:
        settings = parse(GuardSettings, read_json(Path(arguments[0])), arguments[0])
        settings = replace(settings, folder=settings.folder.absolute())  # people may look for it from anywhere
        # Held until the process ends: two guards never own one robot.
        lock = os.open(settings.folder / "guard.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        resist_oom_kill()
        if settings.realtime_priority:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        check = read(settings.folder) if settings.person_to_resume else None
        Guard(settings, open_guarded_rig(settings), check).run()
    except BlockingIOError:
        print("Another guard owns this robot; speak to that one.", file=sys.stderr)
        return 1
    except (EnpireError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
