"""The other side of a guard: the `Rig` of the runner behind it, and the connection that stops and resumes the robot."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from enpire.errors import EnpireError, FileProblem, RobotProblem, UsageError
from enpire.field_reader import Fields
from enpire.files import parse, plain
from enpire.interfaces import Task
from enpire.store import durable
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start
from enpire.wire.rpc import (
    Message,
    array_out,
    check_reply,
    decode,
    encode,
    floats_in,
    mask_in,
    observation_in,
    pictures_in,
)
from robot_drivers.guard_settings import CALLERS_PATH, GuardSettings, read_card
from robot_drivers.latch import Latch
from robot_drivers.resume_code import read
from robot_drivers.rig_messages import spec_in
from robot_drivers.streams import GuardGone, exchange

STARTING_S = 60.0
"""How long a guard may take to start and open its driver [s]."""
ANSWER_S = 10.0
"""How long a guard may take to answer [s]."""


class GuardControl:
    """A connection to a guard from any process of this computer: status, stop, resume, quit."""

    def __init__(self, card: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_S)
        try:
            self._socket.connect(read_card(card).socket)
        except (OSError, FileProblem) as problem:
            self._socket.close()
            why = str(problem).removesuffix(".")
            raise RobotProblem(f"No guard answers at {card}: {why}. Start the station of that robot.") from problem
        self.address: str = self._socket.getpeername()
        self._lock = threading.Lock()
        self._folder = card.parent
        self._latch = Latch(card.parent / "latch.json")

    def ask(self, method: str, timeout_s: float = ANSWER_S, **content: object) -> Fields:
        """Send a request and wait for its answer; an error of the guard is raised here."""
        frame = encode({"verb": method, **content})
        with self._lock:
            return check_reply(decode(exchange(self._socket, frame, timeout_s)))

    def status(self) -> Message:
        """latched, tripped, armed, dropped actions by reason, lease, watchdog delay `latest_ms` [ms], runner, pid.

        `rehearses` is the sensor fault of conformance checks; empty in operation.
        """
        answer = self.ask("status")
        names = ("latched", "tripped", "armed", "dropped", "lease", "latest_ms", "runner", "pid")
        rehearses = answer.get("rehearses") if "rehearses" in answer else ""  # a guard of an earlier version has none
        return {**{name: answer.get(name) for name in names}, "rehearses": rehearses}

    def stop(self, cause: str) -> None:
        """Stop the robot and latch it; returns when the latch is on disk."""
        self.ask("stop", cause=cause)

    def newest_stop(self) -> str:
        """What `resume` needs to name the newest stop in the latch file."""
        return self._latch.read().nonce

    def resume(self, person: str, code: str = "", stop: str | None = None) -> None:
        """Allow motion again after one stop.

        Args:
            person: name of the operator who looked at the robot.
            code: of the robot (`robot_drivers.resume_code`); a simulation has none.
            stop: the stop that the operator saw (`newest_stop`); None: the newest one now.

        Raises:
            RobotProblem: the code is wrong, or another stop came in between.
        """
        key = read(self._folder).key(code) if code else ""
        self.ask("resume", nonce=self.newest_stop() if stop is None else stop, person=person, key=key)

    def quit(self) -> None:
        """Stop and latch the robot, release its driver, end the guard."""
        self.ask("quit")

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()

    def __enter__(self) -> GuardControl:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GuardedClient:
    """A `Rig` behind its guard. `stop` has a connection of its own, so any thread may call it at any time."""

    def __init__(self, settings: GuardSettings, lease: int = 0, process: subprocess.Popen[bytes] | None = None) -> None:
        self.settings = settings
        self._lease = lease
        self._sequence = 0
        self._process = process
        self._closed = False
        self._requests = GuardControl(settings.card)
        self._stops = GuardControl(settings.card)
        try:
            self._requests.ask("hello", lease=lease)
            answer = self._ask("spec")
        except RobotProblem:
            self._disconnect()
            raise
        self.spec = spec_in(answer.get("spec"))
        self.lanes = answer.whole("lanes", 1)
        self.violated: MaskArray = np.zeros(self.lanes, np.bool_)
        self.offences = [""] * self.lanes
        self.clipped = np.zeros(self.lanes, np.int64)
        self.stale = ""
        if not settings.person_to_resume:
            self._stops.resume("the simulation")

    @property
    def stopped(self) -> bool:
        """Whether the robot is latched."""
        return bool(self._stops.status()["latched"])

    def set_teleport(self, allowed: bool) -> None:
        """Whether `place` may teleport a simulated scene to its start; False in a new guard."""
        self._ask("teleport", allowed=allowed)

    def place(self, lane: int, start: Start) -> None:
        """Prepare one lane for a start; after the guard stopped the robot, this begins a new rollout."""
        self._with_lane_status(self._ask("place", lane=lane, start=plain(start)))

    def observe(self) -> Observation:
        """Sense: state (lanes, state_dim) float32, in the units of the spec, with the time stamp of the driver [ns]."""
        return observation_in(self._with_lane_status(self._ask("observe")))

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Send one action (lanes, action_dim) to the guard, in the units of the spec.

        Args:
            action: rows of lanes that do not move are ignored.
            moving: (lanes,) bool.

        Returns:
            What the guard sent after limits, (lanes, action_dim) float32.

        Raises:
            RobotProblem: the guard dropped the action; the text says why.
            EnvelopeViolation: the action is not finite, or has a wrong shape.
        """
        answer = self._ask("act", action=array_out(np.asarray(action)), moving=array_out(np.asarray(moving)))
        return floats_in(self._with_lane_status(answer), "sent")

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> image (height, width, 3) uint8 of one lane now."""
        return pictures_in(self._ask("look", lane=lane))

    def stop(self) -> None:
        """Stop and latch the robot; returns when the latch is on disk. A guard that ended in order stopped it already.

        Raises:
            RobotProblem: the driver cannot stop the robot, the disk refuses the latch file, or the guard was killed or
                hangs, so that the robot may still carry out its last action.
        """
        if self._closed:
            return
        try:
            self._stops.stop("The runner asked for a stop.")
        except GuardGone as gone:
            stopped = Latch(self.settings.latch).read().latched
            self._latch_alone("The runner asked for a stop while its guard was gone.")
            if not stopped:
                raise RobotProblem(
                    f"No guard confirmed the stop, and the robot may still carry out its last action: {gone} Use the"
                    " robot's own emergency stop. The next guard stops the robot when it starts."
                ) from gone

    def resume(self) -> None:
        """Allow motion again in simulation; RobotProblem for a robot that only an operator may resume."""
        if self.settings.person_to_resume:
            raise RobotProblem("Only an operator resumes a real robot: look at it, then type `enpire robot resume`.")
        self._stops.resume("the simulation")

    def status(self) -> Message:
        """The state of the guard (see `GuardControl.status`)."""
        return self._stops.status()

    def close(self) -> None:
        """End the guard; it stops and latches the robot before it releases the driver."""
        if self._closed:
            return
        self._closed = True
        try:
            self._stops.quit()
        except GuardGone:
            self._latch_alone("The guard was gone when the runner closed it.")
        finally:
            self._disconnect()
            if self._process is not None:
                _end(self._process)

    def _latch_alone(self, cause: str) -> None:
        """Close the latch without the guard, so that no process starts the robot again."""
        try:
            Latch(self.settings.latch).close(cause)
        except EnpireError as problem:
            raise RobotProblem(
                f"{cause} Its latch file was not closed, but the next guard starts latched: {problem}"
            ) from problem

    def _disconnect(self) -> None:
        self._requests.close()
        self._stops.close()

    def _ask(self, method: str, **content: object) -> Fields:
        if self._closed:
            raise RobotProblem("This rig is closed; open a new one.")
        self._sequence += 1
        ticket = {"sequence": self._sequence, "lease": self._lease, "stamp_ns": time.monotonic_ns()}
        return self._requests.ask(method, ANSWER_S, **ticket, **content)

    def _with_lane_status(self, answer: Fields) -> Fields:
        self.violated = mask_in(answer, "violated")
        self.clipped = floats_in(answer, "clipped").astype(np.int64)
        self.offences = [str(item) for item in answer.items("offences")]
        self.stale = answer.text("stale")
        return answer


def open_guarded(settings: GuardSettings, lease: int = 0) -> GuardedClient:
    """The rig behind the guard that already owns the robot, or else behind a new guard.

    Raises:
        RobotProblem: the guard did not start; the text is the guard's.
    """
    if _answers(settings.card):
        return GuardedClient(settings, lease)
    process = start_guard(settings)
    try:
        return GuardedClient(settings, lease, process)
    except RobotProblem:
        _end(process)
        raise


def open_rig(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedClient:
    """A driver for station files: another driver, in a guard process.

    Options: `guard`, the fields of `GuardSettings` (at least folder and driver); `options`, those of the other driver.
    If `guard` names no task, its process makes one of this task's class.
    """
    if unknown := sorted(set(options) - {"guard", "options"}):
        raise UsageError(f"A guarded driver has no option {', '.join(unknown)}; it has guard and options.")
    given = options.get("guard")
    if not isinstance(given, Mapping):
        raise UsageError("A guarded driver needs the option `guard`, with the driver and the folder of the robot.")
    made_of = f"{type(task).__module__}:{type(task).__qualname__}"
    settings = {"task": made_of, "lanes": lanes, "seed": seed, "options": options.get("options", {}), **given}
    return open_guarded(parse(GuardSettings, settings, "The guard of a station file"))


def start_guard(settings: GuardSettings) -> subprocess.Popen[bytes]:
    """Start a guard process and wait until it serves; it starts latched. RobotProblem when it does not start."""
    file = settings.folder / "settings.json"
    try:
        durable.make_folder(settings.folder)
        durable.write(file, json.dumps(plain(settings)).encode())
    except EnpireError as problem:
        raise RobotProblem(f"No guard answers in {settings.folder}, and none can be started: {problem}") from problem
    # A session of its own: Ctrl-C for the runner must not end the guard.
    # It imports the modules that its caller imports; -P keeps the current folder from coming first, as `-m` has it.
    # The guard's `main` restores PYTHONPATH for the processes that a driver starts.
    path = {"PYTHONPATH": os.pathsep.join(sys.path), CALLERS_PATH: os.environ.get("PYTHONPATH", "")}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "robot_drivers.guard", str(file)],
        stdout=subprocess.DEVNULL,  # a guard outlives its runner and must not keep the runner's output open
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **path, "OMP_NUM_THREADS": "1"},
    )
    until_s = time.monotonic() + STARTING_S
    while _pid(settings.card) != process.pid:
        if process.poll() is not None or time.monotonic() > until_s:
            process.kill()
            output = process.communicate()[1].decode(errors="replace").strip()
            reason = output or f"it took over {STARTING_S:.0f} s"
            raise RobotProblem(f"The guard of {settings.folder} did not start: {reason}")
        time.sleep(0.01)
    return process


def _answers(card: Path) -> bool:
    if not card.exists():
        return False
    try:
        with GuardControl(card) as control:
            control.status()
    except RobotProblem:
        return False
    return True


def _pid(card: Path) -> int:
    """Process id of the guard that wrote the card; 0 when there is no card yet."""
    try:
        return read_card(card).pid
    except FileProblem:
        return 0


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.communicate(timeout=STARTING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
