"""The nouns: frozen dataclasses with the unit of each field. docs/walk.md shows which function passes what to which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

type FloatArray = npt.NDArray[np.float32]
"""float32; docstrings give the shape and the units."""
type IntArray = npt.NDArray[np.int64]
type MaskArray = npt.NDArray[np.bool_]
type ImageArray = npt.NDArray[np.uint8]
"""(height, width, 3), RGB, row 0 on top."""

type Json = bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None
"""A value that JSON can hold."""
Split = Literal["train", "holdout", "confirm"]
Purpose = Literal["demonstrate", "collect", "extra", "search", "base", "measure", "gate", "confirm"]
"""Why a robot moves: to demonstrate, to collect data for the next round, to use the time in which a learner, a gate or
a confirmation needs no robot (`extra`), to try a version of a branch, or the champion on the same train starts
(`search`), to measure the base policy, or the champion between gates (`measure`), for a gate, for the confirmation."""
COLLECTION: tuple[Purpose, ...] = ("collect", "extra")
"""Purposes of rollouts of the champion on train starts. A round uses `rounds.episodes` of them."""
HIDDEN: tuple[Purpose, ...] = ("base", "gate", "confirm")
"""Purposes on hidden starts over which the success of a version is measured. `measure` is none of them: how many such
trials a version has depends on their outcomes, so its success would be biased."""
OutcomeKind = Literal["success", "failure", "unsafe", "aborted", "invalid", "unknown"]
OUTCOME_KINDS: tuple[OutcomeKind, ...] = ("success", "failure", "unsafe", "aborted", "invalid", "unknown")
JUDGED: frozenset[OutcomeKind] = frozenset({"success", "failure", "unsafe"})
"""Outcomes that a verifier or the envelope gives."""
IMPORTED_STATION = "imported"
"""Station in the orders of imported episodes; no station of a home has this name."""
REFUSED = "refused"
"""First word of the cause when a station could not carry out an order and nothing moved."""
Phase = Literal[
    "rollout", "wait-policy", "reset", "verify", "wait-verdict", "wait-order", "wait-person", "fault", "stopped",
    "offline",
]  # fmt: skip
PHASES: tuple[Phase, ...] = (
    "rollout", "wait-policy", "reset", "verify", "wait-verdict", "wait-order", "wait-person", "fault", "stopped",
    "offline",
)  # fmt: skip
"""`wait-policy`: a robot in a rollout stands still, because its policy has not decided. `wait-verdict`: it waits for a
slow verifier after its rollout. Stations of earlier versions report these as `rollout` and `verify`."""
WORKING: frozenset[Phase] = frozenset({"rollout", "wait-policy", "reset", "verify", "wait-verdict"})
"""The phases of an order, which robot utilisation counts."""
MOVING: frozenset[Phase] = frozenset({"rollout", "reset"})
"""The phases in which a robot is in motion."""
Motion = Literal["reset", "home"]
MOTIONS: tuple[Motion, ...] = ("reset", "home")
"""Motions of an idle, paused robot on an operator's command; a station lists what it can do in the fact `motions`."""

RATE_UNITS = ("m/s", "mm/s", "rad/s", "deg/s", "N", "N m", "Nm", "A", "V")
"""Units of velocities, forces and torques."""
RATE_NAMES = (".vel", ".velocity", ".vx", ".vy", ".vtheta", ".dq", ".torque", ".tau", ".effort")
"""Endings of names, as LeRobot's robots have them, that mean the same."""

OPERATOR = "operator"
"""What moves a robot, in place of a policy version, while a person has taken over."""
PEOPLE = "people"
"""Policy in the orders of demonstrations that people give at a station: its operator moves the robot."""

SOURCE_POLICY, SOURCE_HUMAN, SOURCE_RESET, SOURCE_EXPERT = 0, 1, 2, 3
"""What commanded the robot in a frame: the values of `EpisodeArrays.source`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """One named number of a state or an action, with its unit and its closed interval."""

    name: str
    unit: str
    low: float
    high: float
    sensor_std: float = 0.0
    """Standard deviation, in the unit, of a number that is estimated from camera images; light, camera position and
    occlusion disturb it. 0 for proprioception."""

    @property
    def is_rate(self) -> bool:
        """Whether it is a velocity, a force or a torque, by its unit or its name: zero is then the value at rest."""
        return self.unit in RATE_UNITS or self.name.endswith(RATE_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """The immutable contract of a task: observations, actions, rate and time limit."""

    name: str
    instruction: str
    """The task in words, as a vision-language-action policy reads it."""
    state: tuple[Bounds, ...]
    """The sensor values of each period, in order; `Observation.state` has this width."""
    action: tuple[Bounds, ...]
    """The commands of each period, in order. The envelope clips a command outside its bounds and counts it."""
    rate_hz: float
    limit_ticks: int
    """Periods after which a rollout without success ends."""
    cameras: tuple[str, ...] = ()
    subtasks: tuple[str, ...] = ()
    start_names: tuple[str, ...] = ()
    """Names of `Start.values`, with the unit as suffix."""

    @property
    def state_dim(self) -> int:
        """Width of a state row."""
        return len(self.state)

    @property
    def action_dim(self) -> int:
        """Width of an action row."""
        return len(self.action)

    @property
    def measured(self) -> tuple[int, ...]:
        """For each action the index of the state of the same name, for a position; -1 for a difference or a rate.

        A rate (`Bounds.is_rate`) that is also sensed is no position: a robot that gets its own velocity moves on.
        """
        places = {item.name: index for index, item in enumerate(self.state)}
        return tuple(-1 if item.is_rate else places.get(item.name, -1) for item in self.action)

    @property
    def period_s(self) -> float:
        """Time from one command to the next, in s."""
        return 1.0 / self.rate_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The sensor values and images of several lanes in one period."""

    stamp_ns: int
    """Monotonic clock in ns; simulated time at a station with pace fast."""
    state: FloatArray
    """(lanes, state_dim), float32, in the units of `TaskSpec.state`."""
    images: Mapping[str, npt.NDArray[np.uint8]] = field(default_factory=dict[str, ImageArray])
    """camera -> (lanes, height, width, 3), uint8, RGB; empty unless the policy needs images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start state of a task. Holdout and confirm starts are never shown to training or to agents."""

    split: Split
    index: int
    values: tuple[float, ...]
    """In the order of `TaskSpec.start_names`."""
    seed: int
    """Seed of everything else that varies in the episode: sensor noise, slip, the sampling noise of the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStop:
    """Whether a rollout with a predicted failure ends early. Drawn before the episode; never used in a gate."""

    below: float
    """A failure is predicted when the viability p_v stays below this, in (0, 1)."""
    control: float
    """Probability that this rollout was in the control arm, in (0, 1]; 1 once early stops are withdrawn. A rollout of
    the control arm with a predicted failure represents 1 / `control` rollouts."""
    armed: bool
    """False: the control arm, where a predicted failure is recorded and the rollout runs to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One rollout that a station is asked to run. It is in the ledger before motion; its id is the episode's id."""

    order_id: str
    campaign_id: str
    station: str
    task: str
    policy_id: str
    """Hash of the policy version to run; for a demonstration `scripted:expert`, or `people`."""
    start: Start
    purpose: Purpose
    round: int
    gate_id: str = ""
    """Empty unless `purpose` is gate."""
    pair: int = -1
    """Number of the pair in the gate; both sides have the same start. -1 outside a gate."""
    side: Literal["", "champion", "candidate"] = ""
    lease: int = 0
    """Lease of the station when the order was issued; a result under an older lease is refused."""
    supervised: bool = False
    """Whether a (simulated) operator may take over. Drawn before the episode."""
    early_stop: EarlyStop | None = None
    """None: the rollout runs to its end and no failure is predicted."""
    branch: str = ""
    """Of a `search` rollout: the experiment whose branch it belongs to; empty for the champion's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of judging one episode, and its source."""

    kind: Literal["success", "failure", "unsafe"]
    confidence: float
    """Probability that `kind` is right, in [0, 1]. 1.0 when an operator judged."""
    source: Literal["verifier", "operator", "guard"]
    reason: str = ""
    """Explanation for people, where the verifier gives one; no program reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeArrays:
    """The observations and commands of one rollout of T frames."""

    state: FloatArray
    """(T + 1, state_dim), float32: before each command and after the last, in the units of `TaskSpec.state`."""
    action: FloatArray
    """(T, action_dim), float32: the commands as sent after limits, in the units of `TaskSpec.action`."""
    source: npt.NDArray[np.uint8]
    """(T,), uint8: what commanded the robot, one of the SOURCE_ values."""
    chunk: npt.NDArray[np.int32]
    """(T,), int32: index of the action chunk that a frame belongs to; -1 where no policy decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The result of one order. `arrays` is None where only the ledger was read."""

    order: Order
    outcome: OutcomeKind
    cause: str
    """Why it was aborted or invalid; for a verdict its reason, where the verifier gave one."""
    confidence: float
    """Confidence of the verdict, in [0, 1]; 0 without a verdict."""
    ran_policy_id: str
    """Hash of the version that the station ran; it is compared with the order's."""
    ticks: int
    """Commanded periods of the rollout, without the reset."""
    began_s: float
    """Station's monotonic clock, in s; for durations only."""
    ended_s: float
    achieved_start: tuple[float, ...] = ()
    """Start values that the reset check measured, in the order of `Start.values`; empty when no rollout began."""
    reset_attempts: int = 0
    clipped: int = 0
    """Number of commands that the envelope changed."""
    attempts: tuple[int, ...] = ()
    """Ticks at which retries within the episode began (pass@k)."""
    predicted_failure_at: int = -1
    """Tick at which the policy predicted a failure (`Order.early_stop`); -1: never."""
    sha256: str = ""
    """Hash of the arrays file; the store refuses an episode whose bytes differ."""
    pictures_sha256: str = ""
    """Hash of the file with the camera images; empty when none were recorded."""
    explored: bool = False
    """Whether the version's collector acted, with more noise than the version has when it is deployed."""
    arrays: EpisodeArrays | None = None

    @property
    def stopped_early(self) -> bool:
        """Whether it was ended for a predicted failure, so that its outcome is not known."""
        rule = self.order.early_stop
        return rule is not None and rule.armed and self.predicted_failure_at >= 0 and self.outcome == "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResult:
    """An `Episode` as the ledger keeps it: with its order's id in place of the order. Fields as there."""

    order_id: str
    outcome: OutcomeKind
    cause: str
    confidence: float
    ran_policy_id: str
    ticks: int
    began_s: float
    ended_s: float
    achieved_start: tuple[float, ...] = ()
    reset_attempts: int = 0
    clipped: int = 0
    attempts: tuple[int, ...] = ()
    predicted_failure_at: int = -1
    sha256: str = ""
    pictures_sha256: str = ""
    explored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A success rate with its confidence interval."""

    successes: int
    n: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """Successes per trial; nan without trials."""
        return self.successes / self.n if self.n else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One falsifiable claim about a change of the recipe."""

    hypothesis_id: str
    statement: str
    falsifier: str
    regime: str
    kind: Literal["draft", "improve", "debug", "ablate", "merge", "simplify"]
    author: str
    lane: str
    parents: tuple[str, ...] = ()


def without_record(episode: Episode, why: str) -> Episode:
    """The episode as invalid, for a recording that cannot be read: its verdict can no longer be checked."""
    return replace(
        episode, outcome="invalid", cause=why[:1000], confidence=0.0, achieved_start=(), attempts=(), sha256="",
        pictures_sha256="",
    )  # fmt: skip


def never_began(outcome: OutcomeKind | str, cause: str) -> bool:
    """Whether an order was released or refused before the robot moved; its trial is then reissued."""
    return outcome == "aborted" and cause.partition(":")[0] in {"released", REFUSED}


def refused(outcome: OutcomeKind, cause: str) -> bool:
    """Whether the station refused the order before the robot moved."""
    return outcome == "aborted" and cause.partition(":")[0] == REFUSED
