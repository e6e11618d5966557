"""A robot behind ZeroMQ, on another machine or in another process: the Rig that `RigServer` serves."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from enpire.errors import RobotProblem, TransportProblem, UsageError
from enpire.fields import Fields
from enpire.files import plain
from enpire.interfaces import Task
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start
from enpire.wire.rpc import (
    RpcClient,
    array_out,
    floats_in,
    mask_in,
    observation_in,
    pictures_in,
)
from enpire.wire.zmq_link import check_plain
from robot_drivers.rig_messages import spec_in

if TYPE_CHECKING:
    from enpire.wire.curve_keys import StationKeys

OPTIONS = frozenset({"address", "key_file", "server_key", "answer_s"})


ANSWER_S = 1.0
"""How long the robot's computer may be silent: a station that waits for a dead one hears no stop meanwhile."""


class RobotSilent(RobotProblem):
    """No answer came: whether the robot heard the question is not known."""


class RemoteRig:
    """The Rig at the other end, driven by this end alone. `stop` has its own connection, and waits for no command.

    What is not answered in time is given up, and with it this rig: only `stop` is still said; open another one.
    """

    def __init__(self, address: str, keys: StationKeys | None = None, answer_s: float = ANSWER_S) -> None:
        """Connect and become the owner.

        Raises:
            RobotProblem: nobody answers, or another client drives; the sentence names it.
            TransportProblem: the address is on another machine, and there are no keys.
        """
        if keys is None:
            check_plain(address)
        self._talk = _line(address, keys, answer_s)
        self._brake = _line(address, keys, answer_s)
        self._answer_ns = round(1e9 * answer_s)
        self._lease, self._lost, self._let_go = "", "", False
        self._ahead_ns = 0
        """By how much the robot's clock is ahead of ours, less what the answer took on its way."""
        try:
            answer = self._ask(self._talk, "hello", client=f"{platform.node()}, process {os.getpid()}"[:200])
            self._lease = answer.text("lease", 16)
            self.spec = spec_in(answer.get("spec"))
            self.lanes = answer.whole("lanes", 1)
        except (RobotProblem, TransportProblem):
            self.close()
            raise
        self.violated: MaskArray = np.zeros(self.lanes, np.bool_)
        self.offences = [""] * self.lanes
        self.clipped = np.zeros(self.lanes, np.int64)
        self.stale = ""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop holds at the robot, whoever said it; as last heard where the robot was lost."""
        if not self._lost:
            try:
                self._stopped = self._ask(self._brake, "status").flag("stopped")
            except RobotProblem as problem:
                self._lost = self._lost or str(problem)  # whoever moves it next is told
        return self._stopped

    def set_teleport(self, allowed: bool) -> None:
        """Whether `place` may put a simulated scene into its start at once."""
        self._ask(self._talk, "teleport", allowed=allowed)

    def place(self, lane: int, start: Start) -> None:
        """Prepare one lane for a start."""
        self._noted(self._ask(self._talk, "place", lane=lane, start=plain(start)))

    def observe(self) -> Observation:
        """Sense; the stamp is of the clock at the robot."""
        return observation_in(self._noted(self._ask(self._talk, "observe")))

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Command one period."""
        asked = {"action": array_out(np.asarray(action)), "moving": array_out(np.asarray(moving))}
        return floats_in(self._noted(self._ask(self._talk, "act", **asked)), "sent")

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """The pictures of one lane now."""
        return pictures_in(self._ask(self._talk, "look", lane=lane))

    def stop(self) -> None:
        """Stop the robot at the other end; RobotProblem when it cannot be told, nothing when it was let go."""
        if self._let_go:
            return
        if self._brake.closed:
            raise RobotProblem(self._lost)
        self._stopped = True
        self._brake.call("stop", lease=self._lease)

    def resume(self) -> None:
        """Allow motion again after a stop of this end, where the robot at the other end needs no person."""
        self._ask(self._brake, "resume")
        self._stopped = False

    def close(self) -> None:
        """Hang up; the robot at the other end stays with its server."""
        if self._lease and not self._lost:
            with suppress(RobotProblem):  # a server that does not hear it lets another client in after a while
                self._ask(self._talk, "bye")
                self._let_go = True
            self._lost = self._lost or "This rig is closed; open a new one."
        self._talk.close()
        self._brake.close()

    def _ask(self, line: RpcClient, verb: str, **content: object) -> Fields:
        """One question of the owner, which is worth nothing at the other end once it is given up at this one."""
        if self._lost:
            raise RobotProblem(self._lost)
        until_ns = time.monotonic_ns() + self._ahead_ns + self._answer_ns
        try:
            answer = line.call(verb, lease=self._lease, until_ns=until_ns, **content)
        except RobotSilent as problem:
            self._lost = f"{problem} The robot was lost; open it anew."
            raise
        self._ahead_ns = answer.whole("clock_ns") - time.monotonic_ns()
        return answer

    def _noted(self, answer: Fields) -> Fields:
        self.violated = mask_in(answer, "violated")
        self.clipped = floats_in(answer, "clipped").astype(np.int64)
        self.offences = [str(item) for item in answer.items("offences")]
        self.stale = answer.text("stale")
        return answer


def open_rig(task: Task | None, lanes: int, seed: int, options: Mapping[str, object]) -> RemoteRig:
    """The rig at `options["address"]`; `key_file` and `server_key` for another machine, `answer_s` for slow ones."""
    if unknown := sorted(set(options) - OPTIONS):
        raise UsageError(f"A remote robot has no option {', '.join(unknown)}; it has {', '.join(sorted(OPTIONS))}.")
    address, answer_s = options.get("address"), options.get("answer_s", ANSWER_S)
    if not isinstance(address, str) or not isinstance(answer_s, int | float) or not answer_s > 0:
        raise UsageError("A remote robot needs `address`, such as tcp://127.0.0.1:5555, and `answer_s` above 0.")
    rig = RemoteRig(address, _keys(options), float(answer_s))
    try:
        _check_fit(rig, task, lanes)
    except UsageError:
        rig.close()
        raise
    return rig


def _line(address: str, keys: StationKeys | None, answer_s: float) -> RpcClient:
    return RpcClient(address, keys, answer_s, "the robot", RobotSilent)


def _keys(options: Mapping[str, object]) -> StationKeys | None:
    key_file, server_key = options.get("key_file"), options.get("server_key")
    if key_file is None and server_key is None:
        return None
    if not isinstance(key_file, str) or not isinstance(server_key, str):
        raise UsageError("A remote robot with encryption needs both `key_file` and `server_key`.")
    from enpire.wire.curve_keys import station_keys

    return station_keys(Path(key_file), server_key)


def _check_fit(rig: RemoteRig, task: Task | None, lanes: int) -> None:
    if rig.lanes != lanes:
        raise UsageError(f"The robot there has {rig.lanes} lanes, the station file says {lanes}; correct it.")
    if task is not None and (rig.spec.state != task.spec.state or rig.spec.action != task.spec.action):
        raise UsageError(f"The robot there serves {rig.spec.name}, which does not fit the task {task.spec.name}.")
