"""The Protocols: what a part must do to fit. At most six methods each; the easily broken rule is in the docstring.

Implementations are named in files as `plug-in` names and found by `enpire.plugins`; a conformance suite runs against
every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from enpire.types import (
    EpisodeArrays,
    Event,
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


@runtime_checkable
class Rig(Protocol):
    """The robots that one station moves in step: rows (lanes) of one simulation, or one real robot (one lane).

    Rows never influence each other: what lane 3 does is the same whatever lane 2 does.
    """

    spec: TaskSpec
    lanes: int

    def place(self, lane: int, start: Start) -> None:
        """Put one lane into a start state at once (teleport), or prepare it for a reset by the robot.

        Resets everything that belongs to an episode in that lane: time, noise (from `start.seed`), history.
        """

    def observe(self) -> Observation:
        """Sense all lanes. Never ground truth: only what a real station has."""
        ...

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Command one period. `action` (lanes, action_dim); only rows with `moving` (lanes,) advance.

        Returns what was sent after limits (lanes, action_dim): record that, not the wish. Rows that are not finite
        are refused with EnvelopeViolation before anything moves.
        """
        ...

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> picture of one lane now; empty when no picture can be made (no GL library, no camera)."""
        ...

    def stop(self) -> None:
        """Hold still. Allowed from any thread, in any state, twice."""

    def close(self) -> None:
        """Let the robot go. Allowed twice."""


class Robot(Protocol):
    """One real robot, as a driver file gives it. Limits and units are in `spec`, readable before `connect`."""

    spec: TaskSpec

    def connect(self) -> None:
        """Open the connection; RobotProblem names the port or address that failed."""

    def observe(self) -> Observation:
        """Sense once: state (1, state_dim) with the stamp of the measurement, not of the call."""
        ...

    def act(self, action: FloatArray) -> FloatArray:
        """Command one period, action (action_dim,). Returns what was sent, after limits."""
        ...

    def stop(self) -> None:
        """Hold still. Allowed from any thread, in any state, twice."""

    def close(self) -> None:
        """Disconnect. Allowed twice."""


class Skill(Protocol):
    """A scripted motion of the robot over several lanes, such as a reset."""

    def begin(self, lane: int, start: Start) -> None:
        """Start the motion in one lane, towards one start state."""

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period for the lanes named: state (len(lanes), state_dim) -> (actions, finished) for those rows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a verifier may see of one rollout: sensors and pictures, never ground truth."""

    arrays: EpisodeArrays
    images: Mapping[str, ImageArray]
    """camera -> picture at the end; empty unless the verifier `needs_images`."""


class Verifier(Protocol):
    """Says from sensors whether a rollout did the task. Frozen for a campaign: its digest is recorded."""

    digest: str
    needs_images: bool

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done and may be judged now: state (lanes, state_dim), ticks so far (lanes,)."""
        ...

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one finished (or timed-out) rollout."""
        ...


@runtime_checkable
class Task(Protocol):
    """Reset + verifier + safety envelope + instruction + limits: the immutable contract of the environment module."""

    spec: TaskSpec

    def rig(self, lanes: int, seed: int) -> Rig:
        """A simulated rig of this task; `seed` draws the station's own friction, mass, offsets."""
        ...

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split. Holdout and confirm starts depend on `secret`; train starts do not."""
        ...

    def reset_skill(self) -> Skill:
        """The reset that the robot does by itself."""
        ...

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(achieved start values as sensed in state (state_dim,), whether they are near enough to begin)."""
        ...

    def verifier(self) -> Verifier:
        """A fresh verifier with the shipped thresholds."""
        ...

    def expert(self, seed: int) -> Policy:
        """The scripted expert that demonstrates the task with varied speed and quality."""
        ...


@runtime_checkable
class MarksSubtasks(Protocol):
    """A task whose retries within an episode are counted (pass@k, `enpire.station.recording.retry_ticks`)."""

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """Which of `spec.subtasks` are done, by the sensors of one instant: (n, state_dim) -> (n, len(subtasks)).

        A later mark stands for the earlier ones, too: a tail that is severed needs no grasp any more.
        """
        ...


@runtime_checkable
class Policy(Protocol):
    """Observation in, action chunks out, for several lanes in one call.

    Rows never influence each other, and the noise of a lane depends only on the seed given to `begin`: an episode is
    the same in whichever lane, beside whichever others it runs.
    """

    horizon: int
    """Actions in a chunk."""
    execute: int
    """How many of them are sent before the next decision, 1 <= execute <= horizon."""

    def begin(self, lane: int, seed: int) -> None:
        """A new episode begins in this lane: forget its history, seed its noise."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named; `observation` has one row per named lane.

        Returns (len(lanes), horizon, action_dim). PolicyProblem if the observation does not fit.
        """
        ...


@runtime_checkable
class PredictsSuccess(Policy, Protocol):
    """A policy that can say how likely it is that its rollout succeeds."""

    def viability(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """p_v (len(lanes),), in [0, 1], for the lanes named; `observation` has one row per named lane."""
        ...


@runtime_checkable
class DeclaresImages(Policy, Protocol):
    """A policy that says whether it looks at pictures; a simulated rig makes them only for those that do."""

    needs_images: bool


@runtime_checkable
class ContinuesChunks(Policy, Protocol):
    """A policy that can decide while the chunk before is still being carried out, and go on from it smoothly."""

    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        """As `act`, beginning with what will be sent anyhow.

        Args:
            observation: one row per named lane.
            lanes: (n,).
            left: (n, any, action_dim), what is left of the present chunks from this moment on; nan behind their ends.
            delay: about how many of these will have been sent when the answer is used.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImprovementJob:
    """What a learner gets: everything by path, so that it runs in a process of its own."""

    recipe: Mapping[str, object]
    """The canonical recipe (`enpire.campaign.recipe`)."""
    task: str
    parent: Path | None
    """Folder of the policy version to start from; None for a base."""
    episodes: Sequence[Path]
    """Folders of the episode store, oldest first. Holdout and confirm episodes are never among them."""
    work: Path
    """Checkpoints go here; a job that is run again resumes from them."""
    output: Path
    """The folder of the new version's files; appears only when complete (atomic rename)."""
    round: int
    seed: int
    threads: int = 1
    station_seeds: Mapping[str, int] = field(default_factory=dict[str, int])
    """Simulated station -> its seed: their episodes can run again, where a policy learns from pictures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a learner is, for the terminal, the ledger and the page."""

    stage: str
    done: int
    """Steps of the stage that are done, 0 to `total`."""
    total: int
    metrics: Mapping[str, float]
    """Name -> value: losses, counts, calibration."""


class Learner(Protocol):
    """Turns episodes into a policy version. Deterministic given the job, on a CPU.

    The class attribute `settings` may name the dataclass of its settings: a recipe that it cannot hold is refused
    before the campaign begins.
    """

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Write `job.output` and return the diagnostics of the run. LearningProblem when it cannot go on."""
        ...


@runtime_checkable
class ChecksRecipe(Learner, Protocol):
    """A learner with a rule that its settings dataclass cannot hold; it is asked before a campaign begins."""

    def check(self, recipe: Mapping[str, object]) -> None:
        """FileProblem for a recipe (as in `ImprovementJob`) with settings that it does not know or allow."""
        ...


class Ledger(Protocol):
    """The one history: append-only, hash-chained. Everything else is a view of it."""

    def append(self, events: Iterable[tuple[str, Mapping[str, object]]]) -> Sequence[Event]:
        """Append events (kind, body) durably, in one transaction; returns when fsync has."""
        ...

    def events(self, after: int = 0, kinds: Sequence[str] = (), limit: int = 0) -> Iterator[Event]:
        """Events with seq > after, in order."""
        ...

    def verify(self) -> int:
        """Check the whole chain; the number of events, or LedgerProblem naming the first bad one."""
        ...

    def close(self) -> None:
        """Let the file go."""


class Agent(Protocol):
    """Proposes changes through the tools; never sets a verdict, a score, a seed or a budget, never moves a robot."""

    def turn(self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object]) -> str:
        """Do one turn of work with the tools; returns one sentence about it."""
        ...
