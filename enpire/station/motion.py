"""One motion of the idle robots of a station that an operator commands: to the task's reset, or home."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from enpire.errors import EnvelopeViolation
from enpire.interfaces import Rig, Skill, Task
from enpire.types import MOTIONS, FloatArray, IntArray, MaskArray, Motion

LIMIT_S = 60.0
"""A motion that takes longer has failed, unless the station file gives resets more time [s]."""


def motions_of(task: Task) -> tuple[Motion, ...]:
    """The motions that robots of this task can be commanded to do."""
    return tuple(one for one in MOTIONS if one == "reset" or _home_skill(task) is not None)


class RobotMotion:
    """All robots of a station move to the first train start (`reset`) or to the task's home (`home`).

    Every action passes through the rig, and so through its guard. The robots hold after it.

    Args:
        task: gives the skill, the start and the check.
        rig: the robots, at rest.
        kind: reset or home; one of `motions_of` the task.
        motion_id: id of the command.
        by: the operator.
        reset_limit_ticks: 0 where `place` sets a start at once, so that a reset needs no skill.
    """

    def __init__(  # noqa: PLR0913 - what moves, where to, and for whom
        self, task: Task, rig: Rig, kind: Motion, motion_id: str, by: str, reset_limit_ticks: int
    ) -> None:
        self.kind, self.motion_id, self.by = kind, motion_id, by
        self.problem = ""
        """Why it ended before the robots were there."""
        self.done = False
        self._task, self._rig = task, rig
        self._start = task.start("train", 0, b"")
        self._teleports = reset_limit_ticks == 0
        self._skill: Skill | None = None if self._teleports else task.reset_skill()
        if kind == "home" and (home_skill := _home_skill(task)) is not None:
            self._skill = home_skill()
        self._left_ticks = max(reset_limit_ticks, round(LIMIT_S * task.spec.rate_hz))
        self._there: MaskArray = np.zeros(rig.lanes, np.bool_)
        self._begun = False

    def period(self, state: FloatArray) -> None:
        """One period: state (lanes, state_dim), just sensed.

        Raises:
            RobotProblem: the robot failed.
        """
        if not self._begun:
            self._begin()
            return
        self._left_ticks -= 1
        rows = np.flatnonzero(~self._there)
        if self._skill is None:
            self._there[:] = True
        elif len(rows):
            actions, finished = self._skill.step(state[rows], rows)
            self._there[rows[finished]] = True
            self._send(rows[~finished], actions[~finished])
        if self._there.all():
            self.end(self._why_not_there(state))
        elif self._left_ticks <= 0:
            self.end(f"the {self.kind} took too long")

    def end(self, problem: str = "") -> None:
        """The motion is over; the first problem counts."""
        if not self.done:
            self.done, self.problem = True, problem

    def _begin(self) -> None:
        """Place the robots; but not for a home in a simulation, where `place` would teleport them."""
        self._begun = True
        for lane in range(self._rig.lanes):
            if self.kind == "reset" or not self._teleports:
                self._rig.place(lane, self._start)
            if self._skill is not None:
                self._skill.begin(lane, self._start)

    def _send(self, rows: IntArray, actions: FloatArray) -> None:
        command = np.zeros((self._rig.lanes, self._task.spec.action_dim), np.float32)
        moving: MaskArray = np.zeros(self._rig.lanes, np.bool_)
        command[rows], moving[rows] = actions, True
        try:
            self._rig.act(command, moving)
        except EnvelopeViolation as violation:
            self.end(f"the guard refused it: {violation}"[:1000])

    def _why_not_there(self, state: FloatArray) -> str:
        """Why the robots are not at the start of a reset; empty where they are, and after a home."""
        if self.kind == "home":
            return ""
        missed = [lane for lane, row in enumerate(state) if not self._task.start_error(row, self._start)[1]]
        return f"robot {', '.join(map(str, missed[:5]))} is not at the start of the reset" if missed else ""


def _home_skill(task: Task) -> Callable[[], Skill] | None:
    """`HasHome.home_skill` of a task, or of the task inside a wrapper; None without one."""
    found: Callable[[], Skill] | None = getattr(task, "home_skill", None)
    return found if callable(found) else None
