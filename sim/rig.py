"""The base class of simulated rigs: lanes, limits, sensor noise, clocks, snapshots. A task adds its own physics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.errors import EnvelopeViolation, RobotProblem, UsageError
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start, TaskSpec
from sim import cameras
from sim.scene import RowSnapshot, Scene
from sim.truth import Truth

NOISE_TICKS = 512
"""Sensor noise is drawn at each placement and repeats after this many periods (17 s at 30 Hz)."""

LaneArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSnapshot:
    """Everything that the rest of one lane's episode depends on."""

    row: RowSnapshot
    memory: Mapping[str, LaneArray]
    start: Start | None


class SimRig(ABC):
    """A rig whose lanes are rows of one scene. Implements the Rig protocol; a task defines the five abstract methods.

    With `teleport`, `place` puts the lane into its start at once. Without it, `place` leaves the arm where it is and
    prepares the episode for a reset by the robot; the lane's clock then starts when the robot is at the start.
    """

    faults: frozenset[str] = frozenset()
    """The kinds of `sim.faults.KINDS` that `disturb` accepts."""

    def __init__(self, spec: TaskSpec, scene: Scene, substeps: int, noise_width: int, latency_substeps: int) -> None:
        """Wrap a scene.

        Args:
            spec: of the task.
            scene: one row per lane.
            substeps: physics steps in one control period.
            noise_width: standard normal numbers that the sensors use in a period.
            latency_substeps: physics steps for which the previous command still acts, 0 to `substeps`.
        """
        self.spec = spec
        self.lanes = scene.rows
        self.teleport = True
        self.scene = scene
        self._substeps = substeps
        self.latency_substeps = latency_substeps
        self._low = np.array([b.low for b in spec.action], dtype=np.float32)
        self._high = np.array([b.high for b in spec.action], dtype=np.float32)
        self._all = np.arange(self.lanes, dtype=np.intp)
        self._noise = np.zeros((self.lanes, NOISE_TICKS, noise_width))
        self._ticks = np.zeros(self.lanes, dtype=np.intp)
        self._sensed_at = np.zeros(self.lanes, dtype=np.intp)
        self._sent = np.zeros((self.lanes, spec.action_dim), dtype=np.float32)
        self._starts: list[Start | None] = [None] * self.lanes
        self._periods = 0
        self._holding = False
        self._closed = False
        self._memory: dict[str, npt.NDArray[np.generic]] = {
            "noise": self._noise, "ticks": self._ticks, "sensed_at": self._sensed_at, "sent": self._sent,
        }  # fmt: skip

    def remember(self, **arrays: npt.NDArray[np.generic]) -> None:
        """Register further per-lane arrays (lanes, ...) that snapshots must contain."""
        self._memory.update(arrays)

    def place(self, lane: int, start: Start) -> None:
        """Begin an episode in one lane: by teleport, or prepared for a reset by the robot (see `teleport`).

        Raises:
            UsageError: no such lane, or a start that does not fit the task.
        """
        self._check_open()
        if not 0 <= lane < self.lanes:
            raise UsageError(f"Lane {lane} does not exist; this rig has lanes 0 to {self.lanes - 1}.")
        if len(start.values) != len(self.spec.start_names):
            raise UsageError(
                f"A start of {self.spec.name} has {len(self.spec.start_names)} values "
                f"({', '.join(self.spec.start_names)}), not {len(start.values)}."
            )
        rng = np.random.Generator(np.random.PCG64([start.seed, 1]))
        rng.standard_normal(out=self._noise[lane])
        self._ticks[lane] = 0
        self._sensed_at[lane] = 0
        self._starts[lane] = start
        if self.teleport:
            self.scene.clear(lane)
            self._sent[lane] = 0.0
        self._prepare(lane, start, rng)
        if self.teleport:
            self.scene.forward(np.array([lane], dtype=np.intp))

    def observe(self) -> Observation:
        """Sense all lanes: state (lanes, state_dim) float32 in the units of the spec, not clipped to its bounds.

        Two calls in one period return the same numbers.
        """
        self._check_open()
        sensed = self._sense(self._noise[self._all, self._sensed_at]).astype(np.float32)
        return Observation(stamp_ns=round(self._periods * 1e9 / self.spec.rate_hz), state=sensed)

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Command one period.

        Args:
            action: (lanes, action_dim) in the units of the spec.
            moving: (lanes,) bool; only these rows advance.

        Returns:
            (lanes, action_dim) float32 as sent, within the limits of the spec.

        Raises:
            EnvelopeViolation: a wrong shape, or a value that is not finite in a row that moves; nothing has moved.
        """
        self._check_open()
        sent = self._limited(action, moving)
        rows = self._all if moving.all() else np.flatnonzero(moving)
        self._periods += 1
        if self._holding:
            self._holding = False
            self.scene.ctrl[:] = 0.0
        if len(rows) == 0:
            return self._sent.copy()
        everyone = None if len(rows) == self.lanes else rows
        self._before(rows)
        self.scene.step(everyone, self.latency_substeps)
        self._command(rows, sent)
        self.scene.step(everyone, self._substeps - self.latency_substeps)
        self._sent[rows] = sent[rows]
        self._sensed_at[rows] = (self._sensed_at[rows] + 1) % NOISE_TICKS
        self._after(rows)
        return self._sent.copy()

    def look(self, lane: int, disturbance: cameras.ImageDisturbance = cameras.UNDISTURBED) -> Mapping[str, ImageArray]:
        """camera -> image (224, 224, 3) uint8 of one lane; empty where this machine cannot render."""
        self._check_open()
        if cameras.why_no_images():
            return {}
        model, data = self.scene.materialise(lane)
        return cameras.render(model, data, self.spec.cameras, disturbance)

    def capture_live(self, lane: int) -> Callable[[Sequence[str]], Mapping[str, ImageArray]]:
        """Copy one lane as it is now; the returned function renders the cameras named, in any thread."""
        self._check_open()
        model, data = self.scene.materialise(lane)

        def develop(names: Sequence[str]) -> Mapping[str, ImageArray]:
            if reason := cameras.why_no_images():
                raise RobotProblem(reason)
            return cameras.render(model, data, [name for name in names if name in self.spec.cameras])

        return develop

    def stop(self) -> None:
        """Hold still: the next period begins with zero commands. Allowed from any thread, in any state, twice."""
        self._holding = True

    def close(self) -> None:
        """Close the rig. Allowed twice."""
        self._closed = True

    def truth(self, lane: int) -> Truth:
        """Ground truth of one lane, to grade verifiers; never given to a policy, a verifier or an agent."""
        self._check_open()
        return self._truth(lane)

    def disturb(self, lane: int, kind: str, rng: np.random.Generator) -> None:
        """Inject a physical fault into one lane (`sim.faults`).

        Raises:
            UsageError: this task does not simulate the fault.
        """
        raise UsageError(f"The simulation of {self.spec.name} has no fault {kind!r}; leave it out.")

    def snapshot(self, lane: int) -> LaneSnapshot:
        """Copy one lane with its noise, clock and commands; a restored lane continues bit for bit."""
        memory = {name: np.array(values[lane], copy=True) for name, values in self._memory.items()}
        return LaneSnapshot(row=self.scene.snapshot(lane), memory=memory, start=self._starts[lane])

    def restore(self, lane: int, snapshot: LaneSnapshot) -> None:
        """Copy a snapshot into a lane (its own or another one of this rig)."""
        self.scene.restore(lane, snapshot.row)
        for name, value in snapshot.memory.items():
            self._memory[name][lane] = value
        self._starts[lane] = snapshot.start

    def _limited(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        wanted = (self.lanes, self.spec.action_dim)
        if action.shape != wanted or moving.shape != (self.lanes,):
            raise EnvelopeViolation(
                f"{self.spec.name} takes actions of shape {wanted} and a mask ({self.lanes},), "
                f"not {action.shape} and {moving.shape}; nothing moved."
            )
        if not np.isfinite(action).all():
            bad = np.flatnonzero(moving & ~np.isfinite(action).all(axis=1))
            if len(bad):
                raise EnvelopeViolation(f"The command of lanes {bad.tolist()} is not finite; nothing moved.")
        return np.minimum(np.maximum(action.astype(np.float32, copy=False), self._low), self._high)

    def _check_open(self) -> None:
        if self._closed:
            raise RobotProblem(f"This rig of {self.spec.name} is closed; open a new one.")

    @abstractmethod
    def _prepare(self, lane: int, start: Start, rng: np.random.Generator) -> None:
        """Set one lane up for a start; `rng` belongs to the episode."""

    @abstractmethod
    def _sense(self, noise: LaneArray) -> LaneArray:
        """(lanes, noise_width) standard normal numbers -> sensed state (lanes, state_dim)."""

    def _before(self, rows: npt.NDArray[np.intp]) -> None:  # noqa: B027 - most tasks need nothing here
        """Called at the start of a period, before the robot moves."""

    @abstractmethod
    def _command(self, rows: npt.NDArray[np.intp], sent: FloatArray) -> None:
        """Write the limited commands (lanes, action_dim) of `rows` to the scene's actuators."""

    @abstractmethod
    def _after(self, rows: npt.NDArray[np.intp]) -> None:
        """Update filters and clocks after a period; advances `_ticks` of the lanes whose clock runs."""

    @abstractmethod
    def _truth(self, lane: int) -> Truth:
        """Ground truth of one lane."""
