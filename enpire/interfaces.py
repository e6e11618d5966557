"""The Protocols that plug-ins implement, with at most six methods each.

Files name implementations by plug-in name, and `enpire.plugins` finds them. Conformance suites test every one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from enpire.types import (
    EpisodeArrays,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportChoices:
    """What a person says about a checkpoint of another tool when it becomes a policy version."""

    columns: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Input of the policy -> the numbers of our state that it gets, first and last + 1; others get the whole state."""
    execute: int = 0
    """Actions sent before the next decision; 0: as the checkpoint says."""
    instruction: str = ""
    """Empty: the instruction of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotSettings:
    """What a station file says about its robot: enough to open the robot without the rest of the station."""

    name: str
    """Name of the station."""
    task: str
    """Name of the task plug-in."""
    driver: str
    """Name of the driver plug-in."""
    options: Mapping[str, object]
    """Options of the driver; those of a `guard` also name the task."""
    lanes: int
    """Number of robots that move in step."""
    seed: int
    """Seed of a simulated robot."""
    pace: Literal["fast", "realtime"]
    """Whether a simulation runs as fast as it can, or at the rate of the task."""


@runtime_checkable
class Rig(Protocol):
    """The robots that one station moves in lockstep: the lanes of one simulation, or one real robot (one lane).

    Lanes must not influence each other: the motion of lane 3 is the same whatever lane 2 does.
    """

    spec: TaskSpec
    lanes: int

    def place(self, lane: int, start: Start) -> None:
        """Put one lane into a start state at once (teleport), or prepare it for a reset by the robot.

        Resets everything that belongs to an episode in that lane: time, noise (from `start.seed`), history.
        """

    def observe(self) -> Observation:
        """Read the sensors of all lanes. It must not hold ground truth, only what a real station can measure."""
        ...

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Command one period: action (lanes, action_dim); only lanes with moving (lanes,) advance.

        Returns:
            The commands as sent after limits, (lanes, action_dim). Record these, not the requested commands.

        Raises:
            EnvelopeViolation: a command is not finite; nothing moved.
        """
        ...

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> image of one lane now, (height, width, 3) uint8 RGB; empty without GL library or camera."""
        ...

    def stop(self) -> None:
        """Hold the position. May be called from any thread, in any state, twice."""

    def close(self) -> None:
        """Release the robot. May be called twice."""


class Robot(Protocol):
    """One real robot, as a driver file defines it. `spec` with limits and units is readable before `connect`."""

    spec: TaskSpec

    def connect(self) -> None:
        """Open the connection.

        Raises:
            RobotProblem: the robot does not answer; the sentence names the port or address.
        """

    def observe(self) -> Observation:
        """Read the sensors once: state (1, state_dim), with the time of the measurement, not of the call."""
        ...

    def act(self, action: FloatArray) -> FloatArray:
        """Command one period: action (action_dim,). Returns the command as sent after limits, (action_dim,)."""
        ...

    def stop(self) -> None:
        """Hold the position. May be called from any thread, in any state, twice."""

    def close(self) -> None:
        """Disconnect. May be called twice."""


class Skill(Protocol):
    """A scripted motion of the robot over several lanes, such as a reset."""

    def begin(self, lane: int, start: Start) -> None:
        """Start the motion in one lane, towards one start state."""

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: state (n, state_dim) of lanes (n,) -> actions (n, action_dim), finished (n,)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a verifier may use of one rollout: sensor values and images, never ground truth."""

    arrays: EpisodeArrays
    images: Mapping[str, ImageArray]
    """camera -> image at the end, (height, width, 3) uint8 RGB; empty unless the verifier `needs_images`."""


class Judge(Protocol):
    """A verifier as far as it judges whole episodes."""

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout that is finished or has timed out."""
        ...


class Verifier(Judge, Protocol):
    """Judges from sensor values whether a rollout did the task. Frozen for a campaign: its digest is recorded."""

    digest: str
    needs_images: bool

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Lanes that may be judged now, (lanes,): state (lanes, state_dim), ticks so far (lanes,)."""
        ...


@runtime_checkable
class Task(Protocol):
    """A task: instruction, limits, starts, reset, verifier and expert. Immutable during a campaign."""

    spec: TaskSpec

    def rig(self, lanes: int, seed: int) -> Rig:
        """A simulated rig of this task; `seed` draws the friction, masses and offsets of the station."""
        ...

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """Start number `index` of a split. Holdout and confirm starts depend on `secret`; train starts do not."""
        ...

    def reset_skill(self) -> Skill:
        """The reset that the robot carries out."""
        ...

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(start values as measured in state (state_dim,), whether they are near enough to begin)."""
        ...

    def verifier(self) -> Verifier:
        """A new verifier with the shipped thresholds."""
        ...

    def expert(self, seed: int) -> Policy:
        """The scripted expert; its demonstrations vary in speed and quality."""
        ...


@runtime_checkable
class HasHome(Task, Protocol):
    """A task whose robot has a home position, to which an operator can send it while it is idle."""

    def home_skill(self) -> Skill:
        """The motion to the home position; it ignores the values of the start that `begin` gets."""
        ...


@runtime_checkable
class MarksSubtasks(Protocol):
    """A task whose retries within an episode are counted (pass@k, `enpire.station.recording.retry_ticks`)."""

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """Which of `spec.subtasks` are done: state (n, state_dim) -> (n, len(subtasks)).

        A later mark includes the earlier ones: once the tail is cut off, the grasp counts as done.
        """
        ...


@runtime_checkable
class Policy(Protocol):
    """Maps observations to action chunks, for several lanes in one call.

    Lanes must not influence each other, and the noise of a lane depends only on the seed given to `begin`: an episode
    is the same in every lane, whatever the other lanes do.
    """

    horizon: int
    """Number of actions in a chunk."""
    execute: int
    """Number of actions sent before the next decision, 1 <= execute <= horizon."""

    def begin(self, lane: int, seed: int) -> None:
        """Begin an episode in this lane: clear its history, seed its noise."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Action chunks (n, horizon, action_dim) for lanes (n,); `observation` has one row for each of these lanes.

        Raises:
            PolicyProblem: the observation does not fit.
        """
        ...


@runtime_checkable
class PredictsSuccess(Policy, Protocol):
    """A policy that predicts the probability that its rollout succeeds."""

    def viability(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Viability p_v (n,) in [0, 1] of lanes (n,); `observation` has one row for each of these lanes."""
        ...


@runtime_checkable
class HasCollector(Policy, Protocol):
    """A policy that another one replaces in most rollouts that only collect data, such as the same with more noise."""

    @property
    def collector(self) -> Policy:
        """The policy that collects, with the same sizes of chunks; it may be this one. Read once, when it is loaded."""
        ...


@runtime_checkable
class DeclaresImages(Policy, Protocol):
    """A policy that declares whether it needs images; a simulated rig renders images only for those that do."""

    needs_images: bool


@runtime_checkable
class Unrepeatable(Policy, Protocol):
    """A policy that draws its noise elsewhere, such as at a server that takes no seed.

    From the same seed and observations it may return other actions, so its episodes cannot be repeated, and the two
    trials of a pair also differ by this noise. The gate stays valid, because its pairs are compared by outcome.
    """

    unrepeatable: bool


@runtime_checkable
class ContinuesChunks(Policy, Protocol):
    """A policy that can decide during the present chunk and continue it smoothly (real-time chunking)."""

    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        """As `act`: (n, horizon, action_dim), beginning with the actions that will be sent in the meantime.

        Args:
            observation: one row per lane.
            lanes: (n,).
            left: (n, m, action_dim), the rest of the present chunks from this moment on; nan after their ends.
            delay: estimated number of these actions that are sent before the result is used.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSource:
    """The code of a candidate that an agent wrote (docs/code.md)."""

    files: Mapping[str, str]
    """Path -> text."""
    commit: str
    """Id of its commit in the repository of the home."""
    tree: str
    """Id of its content."""
    limit_s: float
    """Longest time of one training run, in seconds."""
    unsandboxed: bool = False
    """Whether it may run without a sandbox where bubblewrap does not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImprovementJob:
    """The input of a learner: files by path, so that it runs in a process of its own."""

    recipe: Mapping[str, object]
    """The canonical recipe (`enpire.campaign.recipe`)."""
    task: str
    parent: Path | None
    """Folder of the policy version to start from; None for a base."""
    episodes: Sequence[Path]
    """Folders of the episode store, oldest first. Holdout and confirm episodes are never among them. Rollouts that were
    stopped early are among them; a learner of outcomes leaves them out by `Episode.stopped_early`."""
    work: Path
    """Folder for checkpoints; a job that is run again resumes from them."""
    output: Path
    """Folder of the new version; it must appear complete, by an atomic rename."""
    round: int
    seed: int
    threads: int = 1
    station_seeds: Mapping[str, int] = field(default_factory=dict[str, int])
    """Simulated station -> its seed, to render images of its episodes for policies that learn from images."""
    smoke: bool = False
    """Whether a smoke run comes first (`enpire.processes.smoke_run`)."""
    code: CodeSource | None = None
    """The code of the candidate, for the learner `code`."""
    turn: int = 0
    """Number of the training run in its branch, from 1; 0 for a round. `round` also counts the rounds before it."""

    @property
    def turn_or_round(self) -> int:
        """Number of the training run in its branch, or of the round."""
        return self.turn or self.round


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a training run, for the terminal, the ledger and the page."""

    stage: str
    done: int
    """Finished steps of the stage, 0 to `total`."""
    total: int
    metrics: Mapping[str, float]
    """Name -> value: losses, counts, calibration."""


class Learner(Protocol):
    """Trains a policy version on episodes. On a CPU, the same job gives the same bytes.

    The class attribute `settings` may name the dataclass of its settings: a recipe that does not fit it is refused
    before the campaign begins. The class attribute `parent_kinds` may name the kinds of policies that it can start
    from; without it, it starts from any version. The class attribute `smoke` may name the settings, with their values,
    under which a run takes only a few steps (`enpire.processes.smoke_run`).
    """

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Write `job.output` and return the metrics of the run.

        Raises:
            LearningProblem: the run cannot continue.
        """
        ...


@runtime_checkable
class ChecksRecipe(Learner, Protocol):
    """A learner with a rule that its settings dataclass cannot express; `check` runs before a campaign begins."""

    def check(self, recipe: Mapping[str, object]) -> None:
        """Raise FileProblem for a recipe (as in `ImprovementJob`) with settings that are unknown or not allowed."""
        ...


class Agent(Protocol):
    """Proposes recipe changes by its tools. It cannot set a verdict, score, seed or budget, and cannot move a robot."""

    def turn(self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object]) -> str:
        """Do one turn of work with the tools; returns one sentence that describes it."""
        ...
