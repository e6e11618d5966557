"""A robot behind ZeroMQ, on another machine or in another process: the Rig that `RigServer` serves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from enpire.errors import RobotProblem, TransportProblem, UsageError
from enpire.files import plain
from enpire.fleet.fields import Fields
from enpire.fleet.questions import (
    Line,
    array_out,
    floats_in,
    mask_in,
    observation_in,
    pictures_in,
)
from enpire.interfaces import Task
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start
from robot_drivers.wire import spec_in

if TYPE_CHECKING:
    from enpire.fleet.curve_keys import StationKeys

OPTIONS = frozenset({"address", "key_file", "server_key", "answer_s"})


class RemoteRig:
    """The Rig at the other end. `stop` has its own connection, so that it never waits for a command."""

    def __init__(self, address: str, keys: StationKeys | None = None, answer_s: float = 10.0) -> None:
        self._talk = _line(address, keys, answer_s)
        self._brake = _line(address, keys, answer_s)
        try:
            answer = self._talk.ask("spec")
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
        """Whether this end has stopped the robot and not resumed it."""
        return self._stopped

    def set_teleport(self, allowed: bool) -> None:
        """Whether `place` may put a simulated scene into its start at once."""
        self._talk.ask("teleport", allowed=allowed)

    def place(self, lane: int, start: Start) -> None:
        """Prepare one lane for a start."""
        self._noted(self._talk.ask("place", lane=lane, start=plain(start)))

    def observe(self) -> Observation:
        """Sense; the stamp is of the clock at the robot."""
        return observation_in(self._noted(self._talk.ask("observe")))

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Command one period."""
        answer = self._talk.ask("act", action=array_out(np.asarray(action)), moving=array_out(np.asarray(moving)))
        return floats_in(self._noted(answer), "sent")

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """The pictures of one lane now."""
        return pictures_in(self._talk.ask("look", lane=lane))

    def stop(self) -> None:
        """Stop the robot at the other end; RobotProblem when it cannot be told."""
        if self._brake.closed:
            return
        self._stopped = True
        self._brake.ask("stop")

    def resume(self) -> None:
        """Allow motion again, where the robot at the other end needs no person."""
        self._brake.ask("resume")
        self._stopped = False

    def close(self) -> None:
        """Hang up; the robot at the other end stays with its server."""
        self._talk.close()
        self._brake.close()

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
    address, answer_s = options.get("address"), options.get("answer_s", 10.0)
    if not isinstance(address, str) or not isinstance(answer_s, int | float) or not answer_s > 0:
        raise UsageError("A remote robot needs `address`, such as tcp://127.0.0.1:5555, and `answer_s` above 0.")
    rig = RemoteRig(address, _keys(options), float(answer_s))
    try:
        _check_fit(rig, task, lanes)
    except UsageError:
        rig.close()
        raise
    return rig


def _line(address: str, keys: StationKeys | None, answer_s: float) -> Line:
    return Line(address, keys, answer_s, "the robot", RobotProblem)


def _keys(options: Mapping[str, object]) -> StationKeys | None:
    key_file, server_key = options.get("key_file"), options.get("server_key")
    if key_file is None and server_key is None:
        return None
    if not isinstance(key_file, str) or not isinstance(server_key, str):
        raise UsageError("A remote robot with encryption needs both `key_file` and `server_key`.")
    from enpire.fleet.curve_keys import station_keys

    return station_keys(Path(key_file), server_key)


def _check_fit(rig: RemoteRig, task: Task | None, lanes: int) -> None:
    if rig.lanes != lanes:
        raise UsageError(f"The robot there has {rig.lanes} lanes, the station file says {lanes}; correct it.")
    if task is not None and (rig.spec.state != task.spec.state or rig.spec.action != task.spec.action):
        raise UsageError(f"The robot there serves {rig.spec.name}, which does not fit the task {task.spec.name}.")
