"""The robot of a station: opened, stopped, resumed, and recovered after a fault. Every motion goes through it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from enpire.errors import EnpireError, RobotProblem, UsageError
from enpire.interfaces import Rig, Task
from enpire.interventions import OPERATORS, Intervener
from enpire.parts import DRIVERS
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.chunks import Chunks
from enpire.station.lanes import TRIES, Lanes
from enpire.station.motion import RobotMotion, motions_of
from enpire.station.overlap import OverlappedChunks
from enpire.station.station_file import StationFile
from enpire.types import Motion, Phase, TaskSpec
from enpire.wire.live_images import HasLiveImages, RenderImages, no_live_images

ITSELF = "the robot"
"""Name of the actor when the robot holds its own stop: a button at the robot, or its guard."""
_GENEROUS, _LEAST_S, _LEAST_FAST_S = 10, 900.0, 3600.0
"""An order is overdue after `_GENEROUS` times the limit of its resets and rollout, and not before `_LEAST_S`, or
`_LEAST_FAST_S` for a fast simulation, which may have a slow machine and a large policy."""
_RECOVER_S = 2.0
"""Time from a fault to the next try to recover."""


@runtime_checkable
class Resumable(Protocol):
    """A rig whose stop is latched until it is resumed."""

    @property
    def stopped(self) -> bool:
        """Whether a stop is latched."""
        ...

    def resume(self) -> None:
        """Allow motion again."""
        ...


@runtime_checkable
class Teleporting(Protocol):
    """A rig that may be a simulation, where `place` can set a start state without a reset by the robot."""

    def set_teleport(self, allowed: bool) -> None:
        """Set whether `place` may teleport."""
        ...


class RobotSession:
    """Holds the rig and its lanes.

    Args:
        file: names the driver.
        task: what the robot does.
        say: prints one line about an event.
        clock: monotonic seconds.
        camera_recorder: records the camera images.

    Raises:
        EnpireError: the driver cannot be loaded or the robot cannot be reached.
    """

    def __init__(
        self, file: StationFile, task: Task, say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic, camera_recorder: CameraRecorder | None = None,
    ) -> None:  # fmt: skip
        self._file, self._task, self._say, self._clock = file, task, say, clock
        self._rig = open_robot(file, task)
        self._operator_device: Intervener | None = None
        self._reset_limit_ticks = round(file.reset_limit_s * task.spec.rate_hz) if file.reset == "robot" else 0
        if file.record:
            file.recording_rule.check(tuple(self._rig.look(0)))
        limit = self._reset_limit_ticks
        self.lanes = Lanes(task, self._rig, limit, self._operator(), self._chunks(), clock, camera_recorder)
        self.lanes.time.period_s = 0.0 if file.pace == "fast" else task.spec.period_s
        self._longest_s = _longest_s(file, task.spec)
        self.stopped_by = ""
        """Who stopped the robot, once the robot holds; empty without a stop."""
        self._pending_stop = ""
        """Who requested a stop that has not reached the robot yet; empty without one."""
        self._fault, self._recover_at_s = "", 0.0
        self.motion: RobotMotion | None = None
        """The motion that an operator commanded: it runs, or it is the last one."""
        self.look()

    def _chunks(self) -> Callable[[int, int], Chunks]:
        if self._file.inference == "wait":
            return Chunks
        return partial(OverlappedChunks, period_s=self._task.spec.period_s)

    @property
    def ready(self) -> bool:
        """Whether lanes may begin orders."""
        return not self.stopped_by and not self._pending_stop and not self._fault and not self.in_motion

    @property
    def works(self) -> bool:
        """Whether a lane works on an order, or an operator's motion runs."""
        return self.lanes.busy or self.in_motion

    @property
    def moved_by(self) -> str:
        """What commands the first robot now, as `Heartbeat.moved_by`."""
        return self.motion.kind if self.motion is not None and not self.motion.done else self.lanes.moved_by()

    @property
    def ended_motion(self) -> tuple[str, str]:
        """(id of the command whose motion ended last, why it ended early or empty)."""
        motion = self.motion
        return (motion.motion_id, motion.problem) if motion is not None and motion.done else ("", "")

    @property
    def in_motion(self) -> bool:
        """Whether the robots move on an operator's command (`begin_motion`)."""
        return self.motion is not None and not self.motion.done

    @property
    def alarm(self) -> str:
        """Why an operator is needed; empty if none is."""
        if self._pending_stop:
            return f"A stop does not reach the robot; it is sent again. Use the robot's own stop. {self._fault}"
        if self.stopped_by == ITSELF and not self._fault:
            return "The robot holds a stop; check the robot and resume it."
        return self._fault or self.lanes.alarm or self._late()

    def overdue(self) -> Sequence[str]:
        """Ids of orders that have run for so long that their reset or their verifier must hang."""
        return self.lanes.overdue(self._longest_s)

    def move(self, work: Callable[[], object]) -> None:
        """Do work that moves the robot; when the robot fails, every running order ends as aborted."""
        try:
            work()
        except RobotProblem as problem:
            self.lanes.abort(f"robot: {problem}"[:1000])
            self.look()
            if not self.stopped_by:
                self._fail(problem)

    def sense(self) -> None:
        """The first half of a period: read the sensors, step the resets, end the episodes that are over.

        An operator's motion does its whole period here.
        """
        self.move(self.motion_period if self.in_motion else self._sense)

    def act(self) -> None:
        """The second half of a period: command every lane that moves."""
        if self.works and not self.in_motion:
            self.move(self._act)

    def begin_motion(self, kind: Motion, motion_id: str, by: str) -> None:
        """Move the idle robots to the task's reset or home; the lanes take no orders meanwhile."""
        if self.in_motion:
            return
        idle = self.ready and not self.lanes.busy
        self.motion = RobotMotion(self._task, self._rig, kind, motion_id, by, self._reset_limit_ticks)
        if not idle:
            self.motion.end("the robot was not idle")
        elif kind not in motions_of(self._task):
            self.motion.end(f"the task has no {kind}")
        else:
            self._switch_all("reset")
            self._say(f"{kind} by {by}")

    def motion_period(self) -> None:
        """One period of a motion."""
        motion = self.motion
        if motion is None or motion.done:
            return
        try:
            motion.period(self.lanes.sense().state)
        except RobotProblem as problem:
            motion.end(f"robot: {problem}"[:1000])
            raise
        if motion.done:
            self._switch_all("wait-person")
            self._say(f"{motion.kind} ended" + (f": {motion.problem}" if motion.problem else ""))

    def stop(self, by: str, cause: str = "") -> None:
        """Stop at once: running orders are aborted (with this cause), and nothing moves until `resume`.

        A stop that does not reach the robot is sent again at every `look`.
        """
        self._pending_stop = by or "the orchestrator"
        self._send_stop(cause)

    def resume(self) -> None:
        """Resume after an operator has checked the robot. A real robot may allow this only at the robot itself."""
        try:
            if isinstance(self._rig, Resumable) and self._rig.stopped:
                self._rig.resume()
        except RobotProblem as problem:
            self.stopped_by = ITSELF
            self._say(f"not resumed: {problem}")
            return
        self.stopped_by = self._pending_stop = ""
        self.lanes.unstick()
        if not self._fault:
            self.lanes.time.switch(self.lanes.free(), "wait-order")

    def look(self) -> None:
        """Follow the robot's own stop and its end; try to recover a robot that failed."""
        if self._fault and self._clock() > self._recover_at_s:
            self._recover()
        if self._pending_stop:
            self._send_stop()
            return
        try:
            held = self._held()
        except RobotProblem as problem:
            self._fail(problem)
            return
        if held and not self.stopped_by:
            self.stopped_by = ITSELF
            self._end_motion(f"stopped by {ITSELF}")
            self.lanes.abort(f"stopped by {ITSELF}")
            self._switch_all("stopped")
            self._say("the robot holds a stop; an operator must check the robot and resume it")
        elif not held and self.stopped_by == ITSELF:
            self.resume()

    def capture_live(self) -> RenderImages:
        """Capture what the live images of the first lane need."""
        return self._rig.capture_live(0) if isinstance(self._rig, HasLiveImages) else no_live_images

    def close(self) -> None:
        """Stop and close the robot."""
        for close in (self._rig.stop, self._rig.close):
            try:
                close()
            except RobotProblem as problem:
                self._say(f"the robot could not be closed cleanly: {problem}")
        if self._operator_device is not None:
            self._operator_device.close()

    def _sense(self) -> None:
        self.lanes.sense()
        self.lanes.reset()
        self.lanes.verify()

    def _act(self) -> None:
        self.lanes.decide()
        self.lanes.act()

    def _send_stop(self, cause: str = "") -> None:
        """Send the requested stop; it holds once the robot has confirmed it."""
        by = self._pending_stop
        self._end_motion(f"stopped by {by}")
        try:
            self._rig.stop()
        except RobotProblem as problem:
            if not self._fault:
                self._recover_at_s = self._clock() + _RECOVER_S
                self._say(f"the stop by {by} did not reach the robot: {problem}")
            self._fault = str(problem)
        else:
            self.stopped_by, self._pending_stop = by, ""
            self._say(f"stopped by {by}")
        self.lanes.abort(cause or f"stopped by {by}")
        self._switch_all("fault" if self._pending_stop else "stopped")

    def _end_motion(self, problem: str) -> None:
        if self.motion is not None:
            self.motion.end(problem)

    def _held(self) -> bool:
        """Whether the robot holds a stop.

        Raises:
            RobotProblem: the robot does not answer.
        """
        return isinstance(self._rig, Resumable) and self._rig.stopped

    def _fail(self, problem: RobotProblem) -> None:
        """End every running order; `look` tries to recover the robot later."""
        if self._fault:
            return
        self._fault = f"The robot failed: {problem}"
        self._recover_at_s = self._clock() + _RECOVER_S
        self._end_motion(f"robot: {problem}"[:1000])
        self.lanes.abort(f"robot: {problem}"[:1000])
        self._switch_all("fault")
        self._say(self._fault)

    def _late(self) -> str:
        minutes = f"{self._longest_s / 60:.0f} min"
        why = f"Orders have run here for more than {minutes}, longer than any may take (a verifier may hang)"
        return f"{why}: stop and resume the robot, or restart the station." if self.overdue() else ""

    def _recover(self) -> None:
        """Use the robot if it answers again; otherwise open its connection again."""
        self._recover_at_s = self._clock() + _RECOVER_S
        try:
            self._rig.observe()
            self._held()
            if self._file.operator:  # the operator's device may be what failed
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
        """Open the operator of the station file, after closing the one before; None without one."""
        before, self._operator_device = self._operator_device, None
        if before is not None:
            before.close()
        if self._file.operator:
            opened = OPERATORS.load(self._file.operator)
            self._operator_device = opened(self._task, self._rig, self._file.seed, self._file.operator_options)
        return self._operator_device

    def _switch_all(self, phase: Phase) -> None:
        self.lanes.time.switch(range(self._rig.lanes), phase)


def open_robot(file: StationFile, task: Task) -> Rig:
    """Open the robot of a station file.

    Raises:
        EnpireError: its driver cannot be loaded, or the robot cannot be reached.
    """
    rig = DRIVERS.make(file.driver, task, file.lanes, file.seed, file.driver_options)
    if isinstance(rig, Teleporting):
        try:
            rig.set_teleport(file.reset == "teleport")
        except EnpireError:
            rig.close()
            raise
    elif hasattr(rig, "teleport"):
        rig.close()
        raise UsageError(
            f"The driver {file.driver} gives a simulation without a choice of who resets its scene: give its rig"
            " `set_teleport`, or wrap it in GuardedRig."
        )
    return rig


def _longest_s(file: StationFile, spec: TaskSpec) -> float:
    resets_s = TRIES * file.reset_limit_s if file.reset == "robot" else 0.0
    least_s = _LEAST_FAST_S if file.pace == "fast" else _LEAST_S
    return max(least_s, _GENEROUS * (resets_s + spec.limit_ticks * spec.period_s))
