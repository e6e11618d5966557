"""Events of branches: experiments with robot time of their own (`enpire.campaign.branches`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from enpire.campaign.event_forms import OPTIONAL, EventBase

BranchEnd = Literal[
    "no gain", "worse half", "same actions", "unloadable", "given up", "no tokens left", "no money left"
]  # fmt: skip
"""Why a branch ends without a gate: its robot or CPU time is used up without a gain, its gain is in the worse half of
the branches that used as much robot time, its newest version acts exactly like that of a branch before it or is the
champion, no station can run that version, its author gave it up, or its session has used its tokens or its money
without a gain so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMeasure(EventBase):
    """Base: what the search rollouts of a branch showed when it was decided."""

    experiment_id: str
    policy_id: str
    """The newest version of the branch; empty if it has none."""
    champion: str
    n: int
    """Train starts on which both the version and the champion acted."""
    gain: float
    """Mean difference of the scores on these starts, version minus champion (`enpire.campaign.gains.score`)."""
    low: float
    """80 % interval of the gain."""
    high: float
    robot_s: float
    """Robot time that the branch used, in seconds over all lanes."""
    learner_s: float
    """CPU time of its training runs, in seconds; wall-clock time of those that an older ENPIRE recorded."""
    limit_ticks: int
    """Time limit of the task, which the scores depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchEnteredGate(BranchMeasure):
    """The newest version of a branch becomes a candidate."""

    KIND: ClassVar[str] = "branch entered gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchEnded(BranchMeasure):
    """A branch ends without a gate."""

    KIND: ClassVar[str] = "branch ended"
    reason: BranchEnd
    detail: str
    """For readers: the experiment that acts the same, the reason of the station or the author, or what was spent."""
    tokens: int = field(default=0, metadata=OPTIONAL)
    """Tokens used for it, where these or its money ended it; else 0."""
    money: float = field(default=0.0, metadata=OPTIONAL)
    """The same in money."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsHandedOver(EventBase):
    """Rounds show no more success, so robots act for branches from now on (`BranchPlan.hand_over_after`)."""

    KIND: ClassVar[str] = "rounds handed over"
    policy_id: str
    """The champion."""
    round: int
    """Rounds begun."""
    without_gain: int
    """Rounds in a row whose gates did not promote their candidates as better."""
    reason: Literal["stalled", "no round left"]


BranchDecision = BranchEnteredGate | BranchEnded
BranchEvent = BranchDecision | RoundsHandedOver
