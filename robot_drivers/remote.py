"""Driver of a robot on another computer, over ZeroMQ: the client of `RigServer`."""

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
from enpire.field_reader import Fields
from enpire.files import plain
from enpire.interfaces import Task
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start
from enpire.wire.private_socket import check_plain
from enpire.wire.rpc import (
    RpcClient,
    array_out,
    floats_in,
    mask_in,
    observation_in,
    pictures_in,
)
from robot_drivers.rig_messages import spec_in

if TYPE_CHECKING:
    from enpire.wire.curve_keys import StationKeys

OPTIONS = frozenset({"address", "key_file", "server_key", "answer_s"})


ANSWER_S = 1.0
"""How long the robot's computer may take to answer [s]; while a station waits for it, it handles no stop."""
REPEATABLE = ("status",)
"""Requests that change nothing at the robot's computer, so they are sent again when the connection was lost."""


class RobotSilent(RobotProblem):
    """No answer came; it is unknown whether the robot got the request."""


class RemoteRig:
    """The rig at the server. This client owns it: no other client moves it. `stop` has a connection of its own.

    A request that is not answered in time ends this client: it then sends only `stop`. Open another one.
    """

    def __init__(self, address: str, keys: StationKeys | None = None, answer_s: float = ANSWER_S) -> None:
        """Connect and become the owner.

        Args:
            address: of the server, tcp://HOST:PORT.
            keys: for encryption; needed for another computer.
            answer_s: how long the server may take to answer [s].

        Raises:
            RobotProblem: the server does not answer, or another client owns the rig; the text names it.
            TransportProblem: the address is on another computer, and there are no keys.
        """
        if keys is None:
            check_plain(address)
        self._requests = _line(address, keys, answer_s)
        self._stops = _line(address, keys, answer_s)
        self._answer_ns = round(1e9 * answer_s)
        self._lease, self._lost, self._released = "", "", False
        self._ahead_ns = 0
        """By how much the server's clock is ahead of this one, less the travel time of the answer [ns]."""
        try:
            answer = self._ask(self._requests, "hello", client=f"{platform.node()}, process {os.getpid()}"[:200])
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
        """Whether the robot is stopped, by any process; the last known value after the connection was lost."""
        if not self._lost:
            try:
                self._stopped = self._ask(self._stops, "status").flag("stopped")
            except RobotProblem as problem:
                self._lost = self._lost or str(problem)  # raised by the next request
        return self._stopped

    def set_teleport(self, allowed: bool) -> None:
        """Whether `place` may teleport a simulated scene to its start."""
        self._ask(self._requests, "teleport", allowed=allowed)

    def place(self, lane: int, start: Start) -> None:
        """Prepare one lane for a start."""
        self._with_lane_status(self._ask(self._requests, "place", lane=lane, start=plain(start)))

    def observe(self) -> Observation:
        """Sense: state (lanes, state_dim) float32, in the units of the spec; the stamp is of the robot's clock [ns]."""
        return observation_in(self._with_lane_status(self._ask(self._requests, "observe")))

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Send one action (lanes, action_dim) for one period, in the units of the spec.

        Args:
            action: rows of lanes that do not move are ignored.
            moving: (lanes,) bool.

        Returns:
            What was sent after limits, (lanes, action_dim) float32.

        Raises:
            RobotProblem: the robot is stopped, was lost, or another client owns it.
            EnvelopeViolation: the action is not finite, or has a wrong shape.
        """
        content = {"action": array_out(np.asarray(action)), "moving": array_out(np.asarray(moving))}
        return floats_in(self._with_lane_status(self._ask(self._requests, "act", **content)), "sent")

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> image (height, width, 3) uint8 of one lane now."""
        return pictures_in(self._ask(self._requests, "look", lane=lane))

    def stop(self) -> None:
        """Stop the robot; RobotProblem when the server does not answer. Does nothing after the rig was released."""
        if self._released:
            return
        if self._stops.closed:
            raise RobotProblem(self._lost)
        self._stopped = True
        self._stops.call_repeatable("stop", lease=self._lease)

    def resume(self) -> None:
        """Allow motion again after a stop by this client, if the robot needs no operator for that."""
        self._ask(self._stops, "resume")
        self._stopped = False

    def close(self) -> None:
        """Disconnect; the robot stays with its server."""
        if self._lease and not self._lost:
            with suppress(RobotProblem):  # a server that misses it accepts another client after a while
                self._ask(self._requests, "bye")
                self._released = True
            self._lost = self._lost or "This rig is closed; open a new one."
        self._requests.close()
        self._stops.close()

    def _ask(self, line: RpcClient, method: str, **content: object) -> Fields:
        """Send a request of the owner. The server drops it when it arrives after this client has given it up."""
        if self._lost:
            raise RobotProblem(self._lost)
        until_ns = time.monotonic_ns() + self._ahead_ns + self._answer_ns
        try:
            call = line.call_repeatable if method in REPEATABLE else line.call
            answer = call(method, lease=self._lease, until_ns=until_ns, **content)
        except RobotSilent as problem:
            self._lost = f"{problem} The robot was lost; connect again."
            raise
        self._ahead_ns = answer.whole("clock_ns") - time.monotonic_ns()
        return answer

    def _with_lane_status(self, answer: Fields) -> Fields:
        self.violated = mask_in(answer, "violated")
        self.clipped = floats_in(answer, "clipped").astype(np.int64)
        self.offences = [str(item) for item in answer.items("offences")]
        self.stale = answer.text("stale")
        return answer


def open_rig(task: Task | None, lanes: int, seed: int, options: Mapping[str, object]) -> RemoteRig:
    """The driver `remote`: the rig at the option `address`.

    Further options: `key_file` and `server_key` for another computer, `answer_s` for a slow one [s].

    Raises:
        UsageError: an option does not exist or does not fit, or the robot does not fit the task.
        RobotProblem: the server does not answer, or another client owns the rig.
    """
    if unknown := sorted(set(options) - OPTIONS):
        raise UsageError(f"A remote robot has no option {', '.join(unknown)}; it has {', '.join(sorted(OPTIONS))}.")
    address, answer_s = options.get("address"), options.get("answer_s", ANSWER_S)
    if not isinstance(address, str) or not isinstance(answer_s, int | float) or not answer_s > 0:
        raise UsageError(
            "A remote robot needs the option `address`, such as tcp://127.0.0.1:5555, and `answer_s` above 0."
        )
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
        raise UsageError("A remote robot with encryption needs both options, `key_file` and `server_key`.")
    from enpire.wire.curve_keys import station_keys

    return station_keys(Path(key_file), server_key)


def _check_fit(rig: RemoteRig, task: Task | None, lanes: int) -> None:
    if rig.lanes != lanes:
        raise UsageError(f"The remote robot has {rig.lanes} lanes, the station file says {lanes}; correct the file.")
    if task is not None and (rig.spec.state != task.spec.state or rig.spec.action != task.spec.action):
        raise UsageError(
            f"The remote robot has the spec {rig.spec.name}, which does not fit the task {task.spec.name}; name the"
            " task of the robot in the station file."
        )
