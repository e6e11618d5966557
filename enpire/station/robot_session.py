"""The robot of a station: opened, stopped, resumed, and got back after a fault. All that moves goes through it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, cast, runtime_checkable

from enpire import plugins
from enpire.errors import EnpireError, RobotProblem, UsageError
from enpire.interfaces import Rig, Task
from enpire.interventions import Intervener, OpenOperator
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.chunks import Chunks
from enpire.station.lanes import TRIES, Lanes
from enpire.station.overlap import OverlappedChunks
from enpire.station.station_file import StationFile
from enpire.types import Phase, TaskSpec
from enpire.wire.live_images import HasLiveImages, RenderImages, no_live_images

OpenRig = Callable[[Task, int, int, Mapping[str, object]], Rig]
ITSELF = "the robot"
"""Who stopped a robot that holds a stop of its own: a button at the robot, its guard."""
_GENEROUS, _LEAST_S, _LEAST_FAST_S = 10, 900.0, 3600.0
"""An order is overdue after so many times what its resets and its rollout may take, and after so long at least; a fast
simulation may have a slow machine and a large policy."""
_RECOVER_S = 2.0
"""How long after a fault the robot is tried again."""


@runtime_checkable
class Resumable(Protocol):
    """A rig whose stop holds until somebody resumes it."""

    @property
    def stopped(self) -> bool:
        """Whether a stop holds."""
        ...

    def resume(self) -> None:
        """Allow motion again."""
        ...


@runtime_checkable
class Teleporting(Protocol):
    """A rig that may be a simulation, where a start state can be had without a reset by the robot."""

    def set_teleport(self, allowed: bool) -> None:
        """Whether `place` may use that."""
        ...


class RobotSession:
    """Holds the rig and its lanes.

    Args:
        file: names the driver.
        task: what the robot does.
        say: where one line about what happened goes.
        clock: monotonic seconds.
        filming: keeps what the cameras see.

    Raises:
        EnpireError: the driver cannot be loaded or the robot cannot be reached.
    """

    def __init__(
        self, file: StationFile, task: Task, say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic, filming: CameraRecorder | None = None,
    ) -> None:  # fmt: skip
        self._file, self._task, self._say, self._clock = file, task, say, clock
        self._rig = open_robot(file, task)
        self._person: Intervener | None = None
        self._reset_limit_ticks = round(file.reset_limit_s * task.spec.rate_hz) if file.reset == "robot" else 0
        if file.record:
            file.recording_rule.check(tuple(self._rig.look(0)))
        limit = self._reset_limit_ticks
        self.lanes = Lanes(task, self._rig, limit, self._operator(), self._chunks(), clock, filming)
        self._longest_s = _longest_s(file, task.spec)
        self.stopped_by = ""
        """Who stopped the robot, which has taken it; empty when nobody did."""
        self._untold = ""
        """Who asked for a stop that has not reached the robot; empty when there is none."""
        self._fault, self._recover_at_s = "", 0.0
        self.look()

    def _chunks(self) -> Callable[[int, int], Chunks]:
        if self._file.inference == "wait":
            return Chunks
        return partial(OverlappedChunks, period_s=self._task.spec.period_s)

    @property
    def ready(self) -> bool:
        """Whether lanes may begin orders."""
        return not self.stopped_by and not self._untold and not self._fault

    @property
    def alarm(self) -> str:
        """Why a person is needed; empty when nobody is."""
        if self._untold:
            return f"A stop does not reach the robot, and is sent again: use the robot's own stop. {self._fault}"
        if self.stopped_by == ITSELF and not self._fault:
            return "The robot holds a stop; look at it and resume it."
        return self._fault or self.lanes.alarm or self._late()

    def overdue(self) -> Sequence[str]:
        """Orders at work for so long that their reset, or whoever judges them, must hang, however slow the machine."""
        return self.lanes.overdue(self._longest_s)

    def move(self, work: Callable[[], None]) -> None:
        """Do something that moves the robot; when the robot fails, what runs ends as aborted."""
        try:
            work()
        except RobotProblem as problem:
            self.lanes.abort(f"robot: {problem}"[:1000])
            self.look()
            if not self.stopped_by:
                self._fail(problem)

    def stop(self, by: str, cause: str = "") -> None:
        """Hold still at once; what ran is aborted (for this cause), and nothing moves until `resume`.

        A stop that does not reach the robot is sent again whenever one looks.
        """
        self._untold = by or "the orchestrator"
        self._tell_stop(cause)

    def resume(self) -> None:
        """A person looked at it: go on. A real robot may insist that this is done at the robot."""
        try:
            if isinstance(self._rig, Resumable) and self._rig.stopped:
                self._rig.resume()
        except RobotProblem as problem:
            self.stopped_by = ITSELF
            self._say(f"not resumed: {problem}")
            return
        self.stopped_by = self._untold = ""
        self.lanes.unstick()
        if not self._fault:
            self.lanes.time.switch(self.lanes.free(), "wait-order")

    def look(self) -> None:
        """Follow a stop that the robot holds by itself, and its end; try a robot again that failed a while ago."""
        if self._fault and self._clock() > self._recover_at_s:
            self._recover()
        if self._untold:
            self._tell_stop()
            return
        try:
            held = self._held()
        except RobotProblem as problem:
            self._fail(problem)
            return
        if held and not self.stopped_by:
            self.stopped_by = ITSELF
            self.lanes.abort(f"stopped by {ITSELF}")
            self._switch_all("stopped")
            self._say("the robot holds a stop; somebody must look at it and resume it")
        elif not held and self.stopped_by == ITSELF:
            self.resume()

    def capture_live(self) -> RenderImages:
        """What the live pictures of the first lane need, copied now."""
        return self._rig.capture_live(0) if isinstance(self._rig, HasLiveImages) else no_live_images

    def close(self) -> None:
        """Hold still and let the robot go."""
        for let_go in (self._rig.stop, self._rig.close):
            try:
                let_go()
            except RobotProblem as problem:
                self._say(f"the robot was not let go as it should: {problem}")
        if self._person is not None:
            self._person.close()

    def _tell_stop(self, cause: str = "") -> None:
        """Send the stop that somebody asked for; it holds when the robot has taken it."""
        by = self._untold
        try:
            self._rig.stop()
        except RobotProblem as problem:
            if not self._fault:
                self._recover_at_s = self._clock() + _RECOVER_S
                self._say(f"the stop by {by} did not reach the robot: {problem}")
            self._fault = str(problem)
        else:
            self.stopped_by, self._untold = by, ""
            self._say(f"stopped by {by}")
        self.lanes.abort(cause or f"stopped by {by}")
        self._switch_all("fault" if self._untold else "stopped")

    def _held(self) -> bool:
        """Whether the robot holds a stop; RobotProblem when it cannot say."""
        return isinstance(self._rig, Resumable) and self._rig.stopped

    def _fail(self, problem: RobotProblem) -> None:
        """What runs ends, and the robot is tried again in a while."""
        if self._fault:
            return
        self._fault = f"The robot failed: {problem}"
        self._recover_at_s = self._clock() + _RECOVER_S
        self.lanes.abort(f"robot: {problem}"[:1000])
        self._switch_all("fault")
        self._say(self._fault)

    def _late(self) -> str:
        minutes = f"{self._longest_s / 60:.0f} min"
        why = f"Orders are at work here for more than {minutes}, which none may take (a verifier that hangs?)"
        return f"{why}: stop and resume the robot, or start the station again." if self.overdue() else ""

    def _recover(self) -> None:
        """The robot may answer again as it is; otherwise its connection is opened anew."""
        self._recover_at_s = self._clock() + _RECOVER_S
        try:
            self._rig.observe()
            self._held()
            if self._file.operator:  # what a person holds may be what was lost
                self.lanes = self.lanes.on(self._rig, self._operator())
        except RobotProblem:
            self._reopen()
        else:
            self._recovered()

    def _reopen(self) -> None:
        try:
            self._rig.close()
            self._rig = open_robot(self._file, self._task)
            self.lanes = self.lanes.on(self._rig, self._operator())
        except EnpireError as problem:  # a driver may not even be loaded while its device is gone
            self._fault = f"The robot failed: {problem}"
            return
        self._recovered()

    def _recovered(self) -> None:
        self._fault = ""
        self._say("the robot answers again")
        if self.ready:
            self.lanes.time.switch(self.lanes.free(), "wait-order")

    def _operator(self) -> Intervener | None:
        """Who may take over; the one before has let go."""
        before, self._person = self._person, None
        if before is not None:
            before.close()
        if self._file.operator:
            opened = cast(OpenOperator, plugins.load("operators", self._file.operator))
            self._person = opened(self._task, self._rig, self._file.seed, self._file.operator_options)
        return self._person

    def _switch_all(self, phase: Phase) -> None:
        self.lanes.time.switch(range(self._rig.lanes), phase)


def open_robot(file: StationFile, task: Task) -> Rig:
    """The robot of a station file; EnpireError when its driver cannot be loaded or it cannot be reached."""
    rig = cast("Rig", plugins.make("drivers", file.driver, task, file.lanes, file.seed, file.driver_options))
    if isinstance(rig, Teleporting):
        try:
            rig.set_teleport(file.reset == "teleport")
        except EnpireError:
            rig.close()
            raise
    elif hasattr(rig, "teleport"):
        rig.close()
        raise UsageError(
            f"The driver {file.driver} gives a simulation that cannot be told who resets its scene: give its rig"
            " `set_teleport`, or wrap it in GuardedRig."
        )
    return rig


def _longest_s(file: StationFile, spec: TaskSpec) -> float:
    resets_s = TRIES * file.reset_limit_s if file.reset == "robot" else 0.0
    least_s = _LEAST_FAST_S if file.pace == "fast" else _LEAST_S
    return max(least_s, _GENEROUS * (resets_s + spec.limit_ticks * spec.period_s))
