"""The thread of a guard that calls the driver, so that a slow bus never delays a stop."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from enpire.errors import EnpireError, EnvelopeViolation, RobotProblem
from enpire.field_reader import Fields
from enpire.wire.rpc import Message, array_out, error_out
from robot_drivers.rig_messages import MonitoredRig, answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request to the rig, and the peer that sent it."""

    peer: int
    method: str
    message: Fields


class GuardWorker:
    """Carries out one job after the other; puts the results into `finished` and writes a byte to `wake`."""

    def __init__(self, rig: MonitoredRig, wake: socket.socket, pace: Callable[[], None] = lambda: None) -> None:
        """Start the thread.

        Args:
            rig: the rig inside its envelope.
            wake: gets a byte after each job.
            pace: called in the thread before each action; it may wait.
        """
        self.finished: queue.SimpleQueue[tuple[Job, Message]] = queue.SimpleQueue()
        self._rig = rig
        self._wake = wake
        self._pace = pace
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)
        self._thread.start()

    def give(self, job: Job) -> None:
        """Queue a job; the guard queues one at a time per peer."""
        self._jobs.put(job)

    def end(self, timeout_s: float = 2.0) -> bool:
        """Finish the current job and end; False when the driver hangs."""
        self._jobs.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self.finished.put((job, self._result(job)))
            self._wake.send(b"\0")

    def _result(self, job: Job) -> Message:
        try:
            if job.method == "act":
                self._pace()
            return {"error": "", **answer(self._rig, job.method, job.message), **self._report(job.method)}
        except EnpireError as error:
            # A refused action is the fault of the runner; any other problem in motion is one of the driver.
            failed = isinstance(error, RobotProblem) and not isinstance(error, EnvelopeViolation)
            failed &= job.method in {"act", "observe"}
            return {**error_out(error), **self._report(job.method), **({"failed": True} if failed else {})}
        except Exception as error:  # noqa: BLE001 - a driver may raise anything, and the guard must survive it
            problem = RobotProblem(f"The driver failed with {type(error).__name__}: {error}.")
            try:
                self._rig.stop()
            except RobotProblem as worse:
                problem = RobotProblem(f"{problem} {worse}")
            return {**error_out(problem), "fault": True}

    def _report(self, method: str) -> Message:
        if method not in {"act", "observe", "place"}:
            return {}
        rig = self._rig
        return {
            "violated": array_out(rig.violated),
            "clipped": array_out(rig.clipped),
            "offences": list(rig.offences),
            "stale": rig.stale,
        }
