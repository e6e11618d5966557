"""The runner's side of a guard: a `Rig` that speaks to the guard process, and the hand that stops and resumes it."""

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
from enpire.fields import Fields
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
"""How long a guard may take to start and open its driver."""
ANSWER_S = 10.0


class GuardControl:
    """One connection to a guard, from any process of this machine: status, stop, resume, quit."""

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

    def ask(self, verb: str, timeout_s: float = ANSWER_S, **content: object) -> Fields:
        """Ask and wait; the guard's errors are raised here again."""
        frame = encode({"verb": verb, **content})
        with self._lock:
            return check_reply(decode(exchange(self._socket, frame, timeout_s)))

    def status(self) -> Message:
        """latched, tripped, armed, dropped commands by reason, and how late the watchdog noticed at worst."""
        answer = self.ask("status")
        names = ("latched", "tripped", "armed", "dropped", "lease", "latest_ms", "runner", "pid")
        return {name: answer.get(name) for name in names}

    def stop(self, cause: str) -> None:
        """Stop the robot and latch it; returns when the latch is durable."""
        self.ask("stop", cause=cause)

    def resume(self, person: str, code: str = "") -> None:
        """Allow motion again; the permission is for the latest stop alone, as the latch file names it.

        `code` is the robot's (see `robot_drivers.resume_code`), which a simulation has none of.
        """
        key = read(self._folder).key(code) if code else ""
        self.ask("resume", nonce=self._latch.read().nonce, person=person, key=key)

    def quit(self) -> None:
        """Stop and latch the robot, let it go, end the guard."""
        self.ask("quit")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> GuardControl:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GuardedClient:
    """A `Rig` behind its guard. `stop` has its own connection, so that it works from any thread at any time."""

    def __init__(self, settings: GuardSettings, lease: int = 0, process: subprocess.Popen[bytes] | None = None) -> None:
        self.settings = settings
        self._lease = lease
        self._sequence = 0
        self._process = process
        self._closed = False
        self._talk = GuardControl(settings.card)
        self._brake = GuardControl(settings.card)
        try:
            self._talk.ask("hello", lease=lease)
            answer = self._ask("spec")
        except RobotProblem:
            self._hang_up()
            raise
        self.spec = spec_in(answer.get("spec"))
        self.lanes = answer.whole("lanes", 1)
        self.violated: MaskArray = np.zeros(self.lanes, np.bool_)
        self.offences = [""] * self.lanes
        self.clipped = np.zeros(self.lanes, np.int64)
        self.stale = ""
        if not settings.person_to_resume:
            self._brake.resume("the simulation")

    @property
    def stopped(self) -> bool:
        """Whether the robot is latched."""
        return bool(self._brake.status()["latched"])

    def set_teleport(self, allowed: bool) -> None:
        """Whether `place` may put a simulated scene into its start at once; it may not before somebody says so."""
        self._ask("teleport", allowed=allowed)

    def place(self, lane: int, start: Start) -> None:
        """Prepare one lane for a start; this is also how a runner begins anew after the guard stopped the robot."""
        self._noted(self._ask("place", lane=lane, start=plain(start)))

    def observe(self) -> Observation:
        """Sense."""
        return observation_in(self._noted(self._ask("observe")))

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Command one period through the guard; RobotProblem says why the guard let nothing pass."""
        answer = self._ask("act", action=array_out(np.asarray(action)), moving=array_out(np.asarray(moving)))
        return floats_in(self._noted(answer), "sent")

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """The pictures of one lane now."""
        return pictures_in(self._ask("look", lane=lane))

    def stop(self) -> None:
        """Stop and latch; returns when the latch is durable. A guard that is gone has stopped the robot already.

        RobotProblem when the driver cannot stop its robot or the disk refuses the latch file.
        """
        if self._closed:
            return
        try:
            self._brake.stop("The runner asked for a stop.")
        except GuardGone:
            self._latch_alone("The runner asked for a stop while its guard was gone.")

    def resume(self) -> None:
        """Allow motion again in simulation; RobotProblem for a robot that needs a person."""
        if self.settings.person_to_resume:
            raise RobotProblem("A real robot needs a person to resume it: look at it, then `enpire robot resume`.")
        self._brake.resume("the simulation")

    def status(self) -> Message:
        """What the guard says of itself (see `GuardControl.status`)."""
        return self._brake.status()

    def close(self) -> None:
        """End the guard: it stops and latches the robot before it lets it go."""
        if self._closed:
            return
        self._closed = True
        try:
            self._brake.quit()
        except GuardGone:
            self._latch_alone("The guard was gone when the runner closed it.")
        finally:
            self._hang_up()
            if self._process is not None:
                _end(self._process)

    def _latch_alone(self, cause: str) -> None:
        """Without its guard the robot stops by itself; what is left to do is that nothing starts it again."""
        try:
            Latch(self.settings.latch).close(cause)
        except EnpireError as problem:
            raise RobotProblem(
                f"{cause} Its latch is left to the next guard, which starts latched: {problem}"
            ) from problem

    def _hang_up(self) -> None:
        self._talk.close()
        self._brake.close()

    def _ask(self, verb: str, **content: object) -> Fields:
        if self._closed:
            raise RobotProblem("This rig is closed; open a new one.")
        self._sequence += 1
        ticket = {"sequence": self._sequence, "lease": self._lease, "stamp_ns": time.monotonic_ns()}
        return self._talk.ask(verb, ANSWER_S, **ticket, **content)

    def _noted(self, answer: Fields) -> Fields:
        self.violated = mask_in(answer, "violated")
        self.clipped = floats_in(answer, "clipped").astype(np.int64)
        self.offences = [str(item) for item in answer.items("offences")]
        self.stale = answer.text("stale")
        return answer


def open_guarded(settings: GuardSettings, lease: int = 0) -> GuardedClient:
    """The rig behind its guard: the guard that already holds the robot, or a new one.

    Raises:
        RobotProblem: the guard did not start; the sentence is the guard's.
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
    """A driver for station files: any other driver, in a guard process.

    Options: `guard`, the keys of `GuardSettings` (folder and driver at least); `options`, those of the other driver.
    Where `guard` names no task, its process makes one of this task's class.
    """
    if unknown := sorted(set(options) - {"guard", "options"}):
        raise UsageError(f"A guarded driver has no option {', '.join(unknown)}; it has guard and options.")
    told = options.get("guard")
    if not isinstance(told, Mapping):
        raise UsageError("A guarded driver needs `guard` with the driver and the folder of the robot.")
    made_of = f"{type(task).__module__}:{type(task).__qualname__}"
    asked = {"task": made_of, "lanes": lanes, "seed": seed, "options": options.get("options", {}), **told}
    return open_guarded(parse(GuardSettings, asked, "The guard of a station file"))


def start_guard(settings: GuardSettings) -> subprocess.Popen[bytes]:
    """Start a guard process and wait until it serves, latched."""
    told = settings.folder / "settings.json"
    try:
        durable.make_folder(settings.folder)
        durable.write(told, json.dumps(plain(settings)).encode())
    except EnpireError as problem:
        raise RobotProblem(f"No guard answers in {settings.folder}, and none can be started: {problem}") from problem
    # Its own session: a Ctrl-C for the runner must not end what holds the robot.
    # It finds the modules and files that its caller finds: -P, because the current folder is first for `-m` alone.
    # What a driver starts finds its own: `main` puts back what was there before.
    path = {"PYTHONPATH": os.pathsep.join(sys.path), CALLERS_PATH: os.environ.get("PYTHONPATH", "")}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "robot_drivers.guard", str(told)],
        stdout=subprocess.DEVNULL,  # a guard outlives its runner: it must not hold the runner's output open
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **path, "OMP_NUM_THREADS": "1"},
    )
    until_s = time.monotonic() + STARTING_S
    while _pid(settings.card) != process.pid:
        if process.poll() is not None or time.monotonic() > until_s:
            process.kill()
            said = process.communicate()[1].decode(errors="replace").strip()
            raise RobotProblem(f"The guard of {settings.folder} did not start: {said or 'it took too long'}")
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
    """Of the guard that wrote the card; 0 when none did yet."""
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
