"""The documents about success: a rate, pass@k, a confirmation and the goal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A success rate over the trials that ended with a verdict, with its Wilson 95 % interval."""

    id: str
    """The policy version; empty where several were run."""
    success: float | None
    """None without trials."""
    low: float
    high: float
    n: int
    successes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAt:
    """pass@k of one policy version on hidden starts: success within the first k attempts of one trial."""

    id: str
    """The policy version."""
    round: int
    rates: tuple[Success, ...]
    """pass@1, pass@2, ... up to the largest number of attempts of any trial of the campaign, at most pass@5. All have
    the same n: the trials with a verdict. A new attempt begins when the policy loses a subtask that it had reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """The confirmation of a champion, on starts that were drawn after the version was fixed."""

    id: str
    success: float | None
    low: float
    high: float
    n: int
    successes: int
    bound: float
    """Exact one-sided 95 % lower bound of the success rate."""
    announced: int
    """Number of trials, fixed before the first."""
    passed: bool | None
    """None while it runs."""
    median: float | None = None
    """Median number of commands of its successes; None without successes and where an older ENPIRE recorded none."""
    median_low: int | None = None
    """Exact 95 % interval of the median; None for fewer than six successes."""
    median_high: int | None = None
    limit_ticks: int = 0
    """Time limit of the task, in commands, within which a success succeeded; 0 if not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalView:
    """The success rate that the campaign shall reach, in [0, 1], and the number of starts that confirm it."""

    success: float
    by: str
    """`rate`: the measured rate reaches it; `bound`: its exact one-sided 95 % lower bound does."""
    confirm_starts: int
    commands: int = 0
    """Largest allowed median number of commands of the successes; 0: no limit."""
    limit_ticks: int = 0
    """Time limit of the task, in commands: a success succeeds within it; 0 if not recorded."""
