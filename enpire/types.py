"""The nouns. Frozen, keyword-only, with the unit under each field; docs/walk.md shows who hands what to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

type FloatArray = npt.NDArray[np.float32]
type IntArray = npt.NDArray[np.int64]
type MaskArray = npt.NDArray[np.bool_]
type ImageArray = npt.NDArray[np.uint8]
"""(height, width, 3), RGB, row 0 on top."""

type Json = bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None
"""What JSON can say."""
Split = Literal["train", "holdout", "confirm"]
Purpose = Literal["demonstrate", "collect", "base", "gate", "confirm"]
"""Why a robot moves: teacher's demonstrations, data for the learner, the base policy's success rate, a gate's trial,
the confirmation."""
HIDDEN: tuple[Purpose, ...] = ("base", "gate", "confirm")
"""Purposes that run on hidden starts: a version's success is measured over all of them."""
OutcomeKind = Literal["success", "failure", "unsafe", "aborted", "invalid", "unknown"]
OUTCOME_KINDS: tuple[OutcomeKind, ...] = ("success", "failure", "unsafe", "aborted", "invalid", "unknown")
REFUSED = "refused"
"""First word of the cause where a station could not do what was ordered, and nothing moved."""
Phase = Literal["rollout", "reset", "verify", "wait-order", "wait-person", "fault", "stopped", "offline"]
PHASES: tuple[Phase, ...] = (
    "rollout", "reset", "verify", "wait-order", "wait-person", "fault", "stopped", "offline",
)  # fmt: skip
MOVING: frozenset[Phase] = frozenset({"rollout", "reset", "verify"})
"""The phases in which a station executes an experiment (what robot utilisation counts)."""

SOURCE_POLICY, SOURCE_HUMAN, SOURCE_RESET, SOURCE_EXPERT = 0, 1, 2, 3
"""Who held the robot in a frame: the values of `EpisodeArrays.source`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """One named number of a state or an action, with its unit and the closed interval it may take."""

    name: str
    unit: str
    low: float
    high: float
    sensor_std: float = 0.0
    """Standard deviation, in the unit, of a number that a camera estimates: light, a camera that was moved and things
    in its way disturb it. 0 for what the robot's own body senses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """The immutable contract of a task: what is seen, what may be commanded, for how long."""

    name: str
    instruction: str
    """The task in words, as a vision-language-action policy reads it."""
    state: tuple[Bounds, ...]
    """What the sensors say each period, in order; `Observation.state` has this width."""
    action: tuple[Bounds, ...]
    """What may be commanded each period, in order. A command outside is clipped by the envelope and counted."""
    rate_hz: float
    limit_ticks: int
    """Periods after which a rollout ends without success."""
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
        """For each action the state number of its name: it is a position; -1 where it is a speed or a difference."""
        names = [item.name for item in self.state]
        return tuple(names.index(item.name) if item.name in names else -1 for item in self.action)

    @property
    def period_s(self) -> float:
        """Seconds from one command to the next."""
        return 1.0 / self.rate_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the lanes of a rig sense in one period."""

    stamp_ns: int
    """Monotonic; simulated time for a fast station."""
    state: FloatArray
    """(lanes, state_dim)."""
    images: Mapping[str, npt.NDArray[np.uint8]] = field(default_factory=dict[str, ImageArray])
    """camera -> (lanes, height, width, 3); empty unless the policy asked for images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start state of a task. Holdout and confirm starts are never shown to training or to agents."""

    split: Split
    index: int
    values: tuple[float, ...]
    """In the order of `TaskSpec.start_names`."""
    seed: int
    """Seeds whatever else varies in the episode: sensor noise, slip, the sampling noise of the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStop:
    """Whether a rollout that looks hopeless ends early. Drawn before the episode; never in a gate."""

    below: float
    """A rollout whose viability p_v stays under this is hopeless, in (0, 1)."""
    control: float
    """The chance of being in the control arm, in (0, 1): what its flagged episodes stand for is this much rarer."""
    armed: bool
    """False: the control arm, which is flagged but runs to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one lane of a station shall do once. Written to the ledger before motion; its id is the episode's id."""

    order_id: str
    campaign_id: str
    station: str
    task: str
    policy_id: str
    """Hash of the policy version to run, or `scripted:expert` for a demonstration."""
    start: Start
    purpose: Purpose
    round: int
    gate_id: str = ""
    """Empty unless `purpose` is gate."""
    pair: int = -1
    """Which pair of the gate; both sides start alike."""
    side: Literal["", "champion", "candidate"] = ""
    lease: int = 0
    """Fence token of the station when the order was given; an answer with an older one is refused."""
    supervised: bool = False
    """A (simulated) operator may take over. Drawn before the episode."""
    early_stop: EarlyStop | None = None
    """None: the rollout runs to its end, and nobody asks how it looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one episode did its task, and who says so."""

    kind: Literal["success", "failure", "unsafe"]
    confidence: float
    """Probability that `kind` is right, in [0, 1]. 1.0 when a person said it."""
    source: Literal["verifier", "operator", "guard"]
    reason: str = ""
    """In words, where the verifier gives one: for people, never read by a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeArrays:
    """What was sensed and sent, frame by frame, T frames."""

    state: FloatArray
    """(T + 1, state_dim): before each command, and after the last."""
    action: FloatArray
    """(T, action_dim): what was sent, after limits, not the wish."""
    source: npt.NDArray[np.uint8]
    """(T,): who held the robot, one of the SOURCE_ values."""
    chunk: npt.NDArray[np.int32]
    """(T,): index of the policy decision (action chunk) that a frame belongs to; -1 where no policy decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One recorded try. `arrays` is None where only the row of the ledger was read."""

    order: Order
    outcome: OutcomeKind
    cause: str
    """Why it was aborted or invalid; of a verdict its reason in words, where the verifier gave one."""
    confidence: float
    """Of the verdict, in [0, 1]; 0 where there is none."""
    ran_policy_id: str
    """The hash that the station answers it ran: compared with the order's."""
    ticks: int
    """Commanded periods of the rollout (without the reset)."""
    began_s: float
    """Seconds on the station's monotonic clock; for durations only."""
    ended_s: float
    achieved_start: tuple[float, ...] = ()
    """What the reset check measured, in the order of `Start.values`; empty when the rollout never began."""
    reset_attempts: int = 0
    clipped: int = 0
    """Commands that the envelope changed."""
    attempts: tuple[int, ...] = ()
    """Ticks at which in-episode retries began (pass@k)."""
    hopeless_at: int = -1
    """Tick at which the policy had called the rollout hopeless for long enough (`Order.early_stop`); -1: never."""
    sha256: str = ""
    """Of the arrays file; the store refuses an episode whose bytes differ."""
    pictures_sha256: str = ""
    """Of the file with what the cameras saw; empty when none was recorded."""
    arrays: EpisodeArrays | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResult:
    """How one order ended, as the ledger keeps it: an `Episode` under its order's id. Fields as there."""

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
    hopeless_at: int = -1
    sha256: str = ""
    pictures_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the lab's history. `hash` covers all other fields and the hash before it."""

    seq: int
    stamp_ns: int
    """Wall clock, for people; order is `seq`."""
    kind: str
    body: Mapping[str, object]
    previous: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A proportion with its interval."""

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
    """One falsifiable claim about a change."""

    hypothesis_id: str
    statement: str
    falsifier: str
    regime: str
    kind: Literal["draft", "improve", "debug", "ablate", "merge", "simplify"]
    author: str
    lane: str
    parents: tuple[str, ...] = ()


def without_record(episode: Episode, why: str) -> Episode:
    """The end of an order whose record cannot be had: invalid, because what was judged cannot be looked at."""
    return replace(
        episode, outcome="invalid", cause=why[:1000], confidence=0.0, achieved_start=(), attempts=(), sha256="",
        pictures_sha256="",
    )  # fmt: skip


def never_began(outcome: OutcomeKind, cause: str) -> bool:
    """Whether an order was taken back before anything moved; its trial is given again."""
    return outcome == "aborted" and cause.partition(":")[0] in {"released", REFUSED}


def refused(outcome: OutcomeKind, cause: str) -> bool:
    """Whether the station could not do what was ordered, and said so before anything moved."""
    return outcome == "aborted" and cause.partition(":")[0] == REFUSED
