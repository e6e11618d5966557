"""Documents about branches: experiments with robot time of their own (`enpire.campaign.branches`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from enpire.queries.success_models import Success


@dataclass(frozen=True, slots=True, kw_only=True)
class GainView:
    """A version against a champion on the train starts that both acted on, version minus champion."""

    n: int
    """Starts that both acted on."""
    mean: float
    """Mean difference of the scores: a failure scores 0, a success from 1/2 (at the time limit) to 1 (at once)."""
    low: float
    """80 % interval of the mean."""
    high: float
    success: float
    """Difference of the success rates on these starts."""
    success_low: float
    """80 % interval of that difference."""
    success_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GainPerHour:
    """Difference in success, version minus champion, for each robot-hour of a branch.

    The robot-hours are those of its own search rollouts and of all trials of its gates, of both sides. The champion's
    search rollouts, which serve all branches, are not in it. They are measured, so the interval is that of the
    difference alone.
    """

    success: float
    low: float
    """At its gate the confidence sequence of the difference, on train starts its 80 % interval, for each hour."""
    high: float
    at: str
    """`gate`: on hidden starts. `search`: on the train starts that version and champion both acted on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSources:
    """Whose rollouts a training run learned from, in episodes."""

    demonstrations: int
    own: int
    """Rollouts of the branch's versions."""
    ancestors: int
    """Rollouts of the versions that these were trained from."""
    others: int
    """All others: of other branches, of champions that are no ancestors, imported ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GainPoint:
    """Gain of one version of a branch, at the robot time that the branch had used after its search rollouts."""

    robot_s: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchGate:
    """The gate of a branch, on hidden starts."""

    id: str
    decision: str
    """promote, reject, hold; `open` while it runs; `dropped` if a new champion ended it."""
    reason: str
    success: Success
    """Of the branch's version; without trials while the gate runs."""
    difference: float | None
    """Success of the version minus success of the champion; None while the gate runs."""
    low: float | None
    """Confidence sequence of the difference."""
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchView:
    """One branch."""

    id: str
    """The experiment that it belongs to."""
    number: int
    """Number in its campaign, from 1."""
    lane: str
    """The agent session that opened it."""
    statement: str
    """The hypothesis."""
    regime: str
    """Name of the recipe."""
    changes: Mapping[str, object]
    """Settings that differ from that recipe."""
    continues: str
    """The experiment whose branch it continues; empty if none."""
    parent: str
    """Version that its first training run started from; empty for none."""
    rollouts_alone: bool
    """Whether that run made new networks and learned from the rollouts of this version and its ancestors alone."""
    phase: str
    """queued, training, ready, search, gate, over. `ready`: it has a version, and rounds have not handed over yet."""
    decision: str
    """keep, revert, inconclusive; empty until it is decided."""
    why: str
    """Why it ended; empty while it runs."""
    turns: int
    """Training runs begun."""
    versions: int
    newest: str
    """Its newest version; empty before the first."""
    learns_from: str
    """What it may learn from. `own`: rollouts of its versions and of those that they were trained from. `pool`:
    rollouts of all versions. That of an isolated session is `own`, whatever the campaign file says."""
    episodes: int | None
    """Number of episodes of its last training run, demonstrations included; None before the first."""
    sources: DataSources | None
    """The same episodes by source."""
    search: Success
    """Its newest version on train starts."""
    median: float | None
    """Median number of commands of these successes; None without successes."""
    gain: GainView | None
    """Of its newest version over the champion; when it was decided, if it is. None with too few common starts."""
    gain_now: GainView | None
    """Of its newest version over the present champion, also where it was decided over another one."""
    gate: BranchGate | None
    robot_s: float
    """Robot time of its search rollouts, in seconds over all lanes."""
    gate_s: float
    """Robot time of the trials of its gates, of both sides, in seconds."""
    learner_s: float
    """CPU time of its training runs, in seconds; wall-clock time of those that an older ENPIRE recorded."""
    tokens: int
    """Tokens of language models that its session used to propose it, and while it was undecided."""
    money: Mapping[str, float]
    """Currency -> known cost of these calls."""
    calls_of_unknown_cost: int
    share: float
    """Share of the branches' robot time that it gets now, in [0, 1]; 0 if robots do not act for it."""
    gain_per_robot_h: GainPerHour | None
    """At its gate, else on common train starts; None without such a difference."""
    curve: tuple[GainPoint, ...]
    """Gain of each version with enough common starts, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmView:
    """The sessions that share, or one isolated session: what its best version gained over the base.

    Best is the version with the highest gain in success on the train starts that it and the base both acted on. So it
    is also the luckiest, in each arm.
    """

    lanes: tuple[str, ...]
    branches: int
    robot_s: float
    """Robot time of the search rollouts and of the gates of its branches, in seconds."""
    version: str = ""
    """Empty, as the fields below, while no version has enough common starts."""
    n: int = 0
    """Common train starts."""
    success: float | None = None
    """Success of the version minus success of the base."""
    low: float | None = None
    """80 % interval of that difference."""
    high: float | None = None
    per_robot_h: float | None = None
    """The difference for each robot-hour of the arm."""
    per_robot_h_low: float | None = None
    per_robot_h_high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchesView:
    """The branches of one campaign."""

    branches: tuple[BranchView, ...]
    """In the order in which they were opened."""
    acting: int
    """Branches for which robots act now."""
    sharing: str
    """adopt, leaderboard or isolated: what agent sessions know of each other."""
    robot_time: Mapping[str, float]
    """Robot time of all orders by use, in seconds: branches, champion (on the same train starts), collection, gates,
    confirmation, base, demonstrations."""
    arms: tuple[ArmView, ...] = ()
    """The sessions that share, then each isolated one; empty where all share."""
