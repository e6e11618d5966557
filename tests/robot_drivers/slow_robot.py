"""A driver for tests: its bus is slow, or breaks while its arm moves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from enpire.errors import RobotProblem
from enpire.interfaces import Task
from enpire.types import FloatArray, ImageArray, MaskArray, Observation
from robot_drivers.fake_robot import FAKE_SPEC, FakeRobot
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.mujoco_robot import envelope_limits
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane


class SlowRig(SingleLane):
    """The fake arm; `observe` and `look` take these times between actions [s]."""

    def __init__(self, log: Path, observe_s: float, look_s: float, stop_s: float, breaks: float) -> None:
        super().__init__(FakeRobot(log=log))
        self._observe_s, self._look_s, self._stop_s, self._breaks = observe_s, look_s, stop_s, breaks
        self._moves = False

    def stop(self) -> None:
        """Hold still, unless the bus broke."""
        if self._moves and self._breaks:
            raise OSError("the bus is gone")
        super().stop()
        time.sleep(self._stop_s)

    def observe(self) -> Observation:
        """Sense; slow while the arm moves."""
        if self._moves:
            time.sleep(self._observe_s)
        return super().observe()

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Send an action to the arm."""
        self._moves = True
        return super().act(action, moving)

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """The images of the newest observation, after a delay."""
        time.sleep(self._look_s)
        return super().look(lane)


class UnholdingRig(SlowRig):
    """It does not hold by itself when its envelope is left, so that only its guard stops it."""

    def hold(self) -> None:
        """Move on."""


def open_unholding(task: Task | None, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    """The arm that only its guard stops; with the option `error`, every action after the first fails, and is sent."""
    rig = UnholdingRig(Path(str(options["log"])), 0.0, 0.0, 0.0, 0.0)
    if options.get("error"):
        send, sent = rig.act, []

        def act(action: FloatArray, moving: MaskArray) -> FloatArray:
            sent.append(send(action, moving))
            if len(sent) > 1:
                raise RobotProblem("The bus returned a corrupt packet.")
            return sent[-1]

        rig.act = act
    return GuardedRig(rig, Envelope(FAKE_SPEC, envelope_limits(options, frozenset({"log", "error", "envelope"}))))


def open_rig(task: Task | None, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    """The slow arm inside its envelope."""
    slow = {name: float(str(options.get(name, 0.0))) for name in ("observe_s", "look_s", "stop_s", "breaks")}
    return GuardedRig(SlowRig(Path(str(options["log"])), **slow), Envelope(FAKE_SPEC))
