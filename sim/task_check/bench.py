"""What the checks of a task share: rigs, and rollouts that are made once for all checks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property

import numpy as np
import numpy.typing as npt

from enpire.interfaces import Policy, Rig, Task
from enpire.types import FloatArray, IntArray, MaskArray, Observation, Start, TaskSpec
from sim.rollouts import GradedRollout, roll_out

SECRET = b"a secret for the check only"
LANES, DEMONSTRATED = 8, 4
"""Number of rollouts of the clean expert, and of the demonstrating expert."""


class Idle:
    """A policy that holds still: the command nearest to zero that the task allows."""

    horizon = execute = 1

    def __init__(self, spec: TaskSpec) -> None:
        low, high = limits(spec)
        self._hold = np.clip(0.0, low, high).astype(np.float32)

    def begin(self, lane: int, seed: int) -> None:
        """Nothing to forget."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """(len(lanes), 1, action_dim), always the same."""
        return np.broadcast_to(self._hold, (len(lanes), 1, len(self._hold))).astype(np.float32)


def limits(spec: TaskSpec) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(low, high) of the action, (action_dim,) each."""
    return np.array([item.low for item in spec.action]), np.array([item.high for item in spec.action])


class Bench:
    """One task under test.

    Args:
        make: gives a fresh task each time it is called, as stations do.
    """

    def __init__(self, make: Callable[[], Task]) -> None:
        self.make = make
        self.notes: list[str] = []
        """Measurements that checks made, for the report."""
        self._rigs = ExitStack()

    @cached_property
    def task(self) -> Task:
        """A task; its constructor may raise."""
        return self.make()

    @property
    def spec(self) -> TaskSpec:
        """The spec of the task."""
        return self.task.spec

    def rig(self, lanes: int, seed: int = 0) -> Rig:
        """A rig that `close` closes."""
        opened = self.task.rig(lanes, seed)
        self._rigs.callback(opened.close)
        return opened

    def placed(self, lanes: int, seed: int = 0, first: int = 0) -> Rig:
        """A rig whose lanes are at the train starts `first`, `first` + 1, ..."""
        rig = self.rig(lanes, seed)
        for lane in range(lanes):
            rig.place(lane, self.start(first + lane))
        return rig

    def start(self, index: int) -> Start:
        """A train start."""
        return self.task.start("train", index, b"")

    def random_commands(self, lanes: int, ticks: int, seed: int = 0) -> FloatArray:
        """Random commands (ticks, lanes, action_dim) float32, each constant for six periods."""
        low, high = limits(self.spec)
        rng = np.random.default_rng(seed)
        drawn = rng.uniform(low, high, (ticks // 6 + 1, lanes, len(low)))
        return np.repeat(drawn, 6, axis=0)[:ticks].astype(np.float32)

    def drive(self, rig: Rig, commands: FloatArray, moving: MaskArray | None = None) -> FloatArray:
        """Send commands (ticks, lanes, action_dim); returns the states sensed after each, (ticks, lanes, state_dim)."""
        mask = np.ones(rig.lanes, np.bool_) if moving is None else moving
        states: list[FloatArray] = []
        for command in commands:
            rig.act(command, mask)
            states.append(rig.observe().state.copy())
        return np.stack(states)

    def expert(self) -> Policy:
        """The task's `clean_expert` where there is one, else `expert`."""
        clean = getattr(self.task, "clean_expert", None)
        return clean() if callable(clean) else self.task.expert(0)  # pyright: ignore[reportReturnType]

    @cached_property
    def shown(self) -> list[GradedRollout]:
        """Rollouts of the clean expert from hidden starts."""
        return roll_out(self.task, self.rig(LANES), self.expert(), self._hidden(LANES))

    @cached_property
    def demonstrated(self) -> list[GradedRollout]:
        """Rollouts of the demonstrating expert, successes and failures."""
        return roll_out(self.task, self.rig(DEMONSTRATED), self.task.expert(0), self._hidden(DEMONSTRATED))

    @cached_property
    def idle(self) -> list[GradedRollout]:
        """Rollouts in which the robot held still to the end."""
        return roll_out(self.task, self.rig(2), Idle(self.spec), self._hidden(2))

    def close(self) -> None:
        """Close all rigs; raises the error of the last rig that could not be closed."""
        self._rigs.close()

    def _hidden(self, count: int) -> list[Start]:
        return [self.task.start("holdout", index, SECRET) for index in range(count)]
