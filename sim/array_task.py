"""A task in a few lines, without a physics engine: the state of a lane's world is a row of numbers, as its start is.

Derive from `ArrayTask` and define one period of the world, how to steer it, and what success looks like to the sensors.
Lanes, noise, limits, reset, expert, verifier and hidden starts come from here. docs/tasks.md shows an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from enpire.errors import EnvelopeViolation, PolicyProblem, RobotProblem, UsageError
from enpire.interfaces import Evidence
from enpire.types import (
    FloatArray,
    ImageArray,
    IntArray,
    MaskArray,
    Observation,
    Split,
    Start,
    TaskSpec,
    Verdict,
)
from sim.starts import Sampler
from sim.truth import Truth
from sim.verifiers.frozen import digest_of

Rows = npt.NDArray[np.floating[Any]]
"""One row for each lane."""

_NOISE_TICKS = 512


class ArrayTask(ABC):
    """A task over rows of numbers; a subclass defines three short methods, each for many lanes at once."""

    spec: ClassVar[TaskSpec]
    """`state` and `start_names` list the numbers of the world in the same order."""
    ranges: ClassVar[tuple[tuple[float, float], ...]]
    """(low, high) of every start value, in the units of the state."""
    goal: ClassVar[tuple[float, ...]]
    """State that the expert steers to."""
    tolerance: ClassVar[tuple[float, ...]]
    """How near to its start a reset must come, for each number of the state."""
    noise: ClassVar[float] = 0.0005
    """Standard deviation of the sensors, as a share of each number's range."""

    def __new__(cls, *_given: object, **_named: object) -> Self:
        """Make a task.

        Raises:
            UsageError: spec, ranges, goal or tolerance do not fit together.
        """
        made = super().__new__(cls)
        if wrong := _wrong(cls):
            raise UsageError(f"{cls.__name__}: {wrong}")
        return made

    @abstractmethod
    def advance(self, world: Rows, command: Rows) -> Rows:
        """One period: world (n, k) and commands (n, action_dim) -> the next world (n, k), in the units of the spec."""

    @abstractmethod
    def steer(self, state: Rows, goal: Rows) -> Rows:
        """Commands (n, action_dim) that move the sensed state (n, k) towards a goal (n, k)."""

    @abstractmethod
    def success(self, state: Rows) -> MaskArray:
        """Which sensed rows (n, k) show the task done: (n,) bool."""

    def ask(self, method: str, width: int, *rows: Rows) -> npt.NDArray[Any]:
        """Call one of the three methods above and check what it returns.

        Args:
            method: its name.
            width: numbers that it returns for each row; 0: one truth value.
            rows: its arguments, (n, any) each.

        Returns:
            (n, width), or (n,) bool where `width` is 0.

        Raises:
            UsageError: the method returned another shape or dtype.
        """
        found = np.asarray(getattr(self, method)(*rows))
        wanted = (len(rows[0]), width) if width else (len(rows[0]),)
        if found.shape != wanted or not np.issubdtype(found.dtype, np.number if width else np.bool_):
            raise UsageError(
                f"`{method}` of {type(self).__name__} must give {'numbers' if width else 'truth values (bool)'} of "
                f"shape {wanted} for {wanted[0]} rows, not {found.dtype} of shape {found.shape}."
            )
        return found

    def rig(self, lanes: int, seed: int) -> ArrayRig:
        """A simulated rig; `seed` draws the constant errors of the station's sensors."""
        return ArrayRig(self, lanes, seed)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split; hidden starts depend on the secret."""
        return Sampler(task=self.spec.name, ranges=self.ranges).start(split, index, secret)

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(achieved start values as sensed in state (k,), whether each is within `tolerance`)."""
        near = np.abs(state - np.array(start.values)) <= np.array(self.tolerance)
        return tuple(float(value) for value in state), bool(near.all())

    def reset_skill(self) -> ArrayReset:
        """Steer to the start and rest there."""
        return ArrayReset(self)

    def verifier(self) -> ArrayVerifier:
        """Judges success from the sensors."""
        return ArrayVerifier(self)

    def expert(self, seed: int) -> ArrayExpert:
        """Steer to the goal with a speed drawn for each episode."""
        return ArrayExpert(self, seed)


class ArrayRig:
    """A rig whose lanes are rows of numbers."""

    def __init__(self, task: ArrayTask, lanes: int, seed: int) -> None:
        self.spec, self.lanes, self.teleport = task.spec, lanes, True
        self._task = task
        width = task.spec.state_dim
        self._span = np.array([item.high - item.low for item in task.spec.state])
        self._bias = np.random.default_rng([seed, 5]).normal(0.0, 0.5 * task.noise, width) * self._span
        self._world = np.zeros((lanes, width), np.float64)
        self._noise = np.zeros((lanes, _NOISE_TICKS, width))
        self._ticks = np.zeros(lanes, np.int64)
        self._periods = 0
        self._closed = False

    def place(self, lane: int, start: Start) -> None:
        """Put one lane into a start state, or (without `teleport`) leave it in place for a reset by the robot."""
        if not 0 <= lane < self.lanes:
            raise UsageError(f"Lane {lane} does not exist; this rig has lanes 0 to {self.lanes - 1}.")
        self._noise[lane] = np.random.default_rng(start.seed).standard_normal(self._noise.shape[1:])
        self._ticks[lane] = 0
        if self.teleport:
            self._world[lane] = start.values

    def observe(self) -> Observation:
        """The world with noise and the station's bias: state (lanes, k) float32."""
        noise = self._noise[np.arange(self.lanes), self._ticks % _NOISE_TICKS]
        sensed = self._world + self._bias + self._task.noise * self._span * noise
        low = np.array([item.low for item in self.spec.state])
        state = np.clip(sensed, low, low + self._span).astype(np.float32)
        return Observation(stamp_ns=round(self._periods * 1e9 / self.spec.rate_hz), state=state)

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Advance the lanes that move; returns the commands (lanes, action_dim) within their limits.

        Raises:
            EnvelopeViolation: a wrong shape, or a command that is not finite; nothing has moved.
            RobotProblem: the rig is closed.
        """
        if self._closed:
            raise RobotProblem(f"This rig of {self.spec.name} is closed; open a new one.")
        wanted = (self.lanes, self.spec.action_dim)
        if action.shape != wanted or not np.isfinite(action[moving]).all():
            raise EnvelopeViolation(f"{self.spec.name} takes finite commands of shape {wanted}; nothing moved.")
        low, high = ([getattr(item, side) for item in self.spec.action] for side in ("low", "high"))
        sent = np.clip(action, low, high).astype(np.float32)
        width = self.spec.state_dim
        self._world[moving] = self._task.ask("advance", width, self._world[moving], sent[moving])
        self._ticks[moving] += 1
        self._periods += 1
        return sent

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """This world has no cameras."""
        return {}

    def stop(self) -> None:
        """Nothing to do: it moves only in `act`."""

    def close(self) -> None:
        """Close the rig. Allowed twice."""
        self._closed = True

    def truth(self, lane: int) -> Truth:
        """Success of the world itself, without noise and bias."""
        world = self._world[lane]
        metrics = {name: float(value) for name, value in zip(self.spec.start_names, world, strict=True)}
        return Truth(success=bool(self._task.ask("success", 0, world[None])[0]), metrics=metrics)

    def snapshot(self, lane: int) -> tuple[Rows, Rows, int]:
        """Copy one lane, exactly."""
        return self._world[lane].copy(), self._noise[lane].copy(), int(self._ticks[lane])

    def restore(self, lane: int, snapshot: tuple[Rows, Rows, int]) -> None:
        """Put a snapshot into a lane."""
        self._world[lane], self._noise[lane], self._ticks[lane] = snapshot


class ArrayVerifier:
    """The task's success rule on the last state, stricter by the sensors' noise. Its digest covers the task's code."""

    needs_images = False

    def __init__(self, task: ArrayTask) -> None:
        self._task = task
        self.digest = digest_of(type(self), type(task))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes (n,) look done in the state (n, k)."""
        return np.asarray(self._surely(state) & (ticks >= 2), np.bool_)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout."""
        good = bool(self._surely(evidence.arrays.state[-1:])[0])
        return Verdict(kind="success" if good else "failure", confidence=0.9, source="verifier")

    def _surely(self, state: FloatArray) -> MaskArray:
        """Which rows (n, k) are a success, also if any one sensor is wrong by four standard deviations."""
        sure = self._task.ask("success", 0, state)
        for column, item in enumerate(self._task.spec.state):
            for side in (-4.0, 4.0):
                shifted = state.copy()
                shifted[:, column] += side * self._task.noise * (item.high - item.low)
                sure = sure & self._task.ask("success", 0, shifted)
        return sure


class ArrayExpert:
    """An expert that steers to the goal; each episode draws its own speed from its seed.

    A slow expert goes a share of the way from the command that holds the state to the one that steers to the goal. For
    velocities and differences the first is zero; for absolute positions it is the state.
    """

    horizon = execute = 4

    def __init__(self, task: ArrayTask, seed: int) -> None:
        self._task, self._seed = task, seed
        self._speed: dict[int, float] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's speed."""
        self._speed[lane] = float(np.random.default_rng([self._seed, seed]).uniform(0.4, 1.0))

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named: (len(lanes), 4, action_dim) float32.

        Raises:
            PolicyProblem: the state has another shape.
        """
        wanted = (len(lanes), self._task.spec.state_dim)
        if observation.state.shape != wanted:
            raise PolicyProblem(f"The expert needs a state of shape {wanted}, not {observation.state.shape}.")
        speed = np.array([self._speed.get(int(lane), 1.0) for lane in lanes])[:, None]
        goal = np.broadcast_to(np.array(self._task.goal, np.float32), wanted)
        width = self._task.spec.action_dim
        holding = self._task.ask("steer", width, observation.state, observation.state)
        command = holding + speed * (self._task.ask("steer", width, observation.state, goal) - holding)
        return np.repeat(command[:, None], self.horizon, axis=1).astype(np.float32)


class ArrayReset:
    """The reset skill: steer each lane to its start."""

    def __init__(self, task: ArrayTask) -> None:
        self._task = task
        self._goal: dict[int, tuple[float, ...]] = {}

    def begin(self, lane: int, start: Start) -> None:
        """Aim one lane at a start."""
        self._goal[lane] = start.values

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, action_dim), which lanes (n,) are within half the tolerance of their start)."""
        goal = np.array([self._goal[int(lane)] for lane in lanes], np.float32)
        done: MaskArray = np.all(np.abs(state - goal) <= 0.5 * np.array(self._task.tolerance), axis=1)
        command = self._task.ask("steer", self._task.spec.action_dim, state, goal)
        return command.astype(np.float32), done


def _wrong(task: type[ArrayTask]) -> str:
    """The first contradiction in the attributes of a task class, in a sentence; empty when there is none."""
    spec: object = getattr(task, "spec", None)
    if not isinstance(spec, TaskSpec):
        return f"`spec` must be a TaskSpec, not {type(spec).__name__}."
    k = spec.state_dim
    for name, wanted in {"ranges": (k, 2), "goal": (k,), "tolerance": (k,)}.items():
        found = np.asarray(getattr(task, name, None), object).shape
        if found != wanted:
            return f"`{name}` must have the shape {wanted}, a row for each number of `spec.state`, not {found}."
    if len(spec.start_names) != k:
        return f"`spec.start_names` must name the {k} numbers of `spec.state`, not {len(spec.start_names)}."
    for item, (low, high) in zip(spec.state, task.ranges, strict=True):
        if not item.low <= low <= high <= item.high:
            return (
                f"`ranges` of {item.name} must be (low, high), low first, within its bounds in `spec.state`, "
                f"[{item.low:g}, {item.high:g}], not ({low:g}, {high:g})."
            )
    if not min(task.tolerance) > 0.0:
        return f"`tolerance` must be positive, not {task.tolerance}."
    return ""
