"""Champion against candidate: which one may the stations run? Pure arithmetic on finished pairs of trials.

Both sides start alike, so only pairs in which one succeeds and the other does not speak about success. The evidence
is an e-value: it may be read after every pair, and reaches 1/level with probability `level` at most when the candidate
is not better (Ville's inequality). docs/gate.md explains the rule; `benchmarks/gate.py` measures it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Literal

from enpire.errors import UsageError
from enpire.gate.e_values import NO_END, difference, log_e, log_e_above, pairs_until
from enpire.gate.intervals import lower_bound, wilson
from enpire.types import Episode, Interval, OutcomeKind, never_began

Side = Literal["champion", "candidate"]
DecisionKind = Literal["promote", "reject", "hold", "continue"]
Reason = Literal["better", "faster", "worse", "unsafe", "spent", "hopeless", "unloadable", "undecided"]
"""better, faster: promoted. worse, unsafe: rejected. spent, hopeless, unloadable (at every station): held. undecided:
more pairs, please."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRule:
    """What is agreed before the first pair; it goes into the ledger with the gate."""

    alpha: float = 0.05
    """Largest share of false promotions in a campaign, for success and for speed each, in (0, 1)."""
    pairs: int = 400
    """Pairs that may be spent; then the champion stays."""
    margin: float = 0.02
    """How much worse in success a faster candidate might at most be, in (0, 1)."""
    unsafe_margin: int = 0
    """Unsafe trials that a candidate may have beyond the champion's upper bound."""
    early_hold: bool = True
    """Stop as soon as even a perfect rest of the pairs could not promote the candidate."""

    def __post_init__(self) -> None:
        if not (0 < self.alpha < 1 and 0 < self.margin < 1 and self.pairs >= 1 and self.unsafe_margin >= 0):
            raise UsageError(
                f"The gate rule {asdict(self)} cannot be: alpha and margin lie between 0 and 1, pairs is 1 or more, "
                "unsafe_margin is 0 or more."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How one side of one pair ended."""

    pair: int
    side: Side
    outcome: OutcomeKind
    ticks: int
    """Commanded periods until the end."""
    cause: str = ""

    @property
    def released(self) -> bool:
        """Taken back before it began: the only end that counts for neither side; the trial is given again."""
        return never_began(self.outcome, self.cause)


PROCESS_ENDED = "the station's process ended"
DISK_FULL = "disk: there was no space for the campaign's records"
NOTHING_OPENS = "descriptors: the campaign could open nothing more"
"""Causes of trials that were cut off with their whole station."""
REPLACED = 200
"""At most so many interrupted trials of one measure, or one confirmation, are given again; further ones count."""


def interrupted(outcome: OutcomeKind, cause: str) -> bool:
    """Whether a trial was cut off with its whole station, however it went: a process that ended, a session that did.

    The base's measure and a confirmation give such a trial again, from another start. A gate does not: there both sides
    bear it alike. An operator's stop is none: people stop what they see go wrong.
    """
    return outcome == "aborted" and cause.startswith((PROCESS_ENDED, DISK_FULL, NOTHING_OPENS, "the station left"))


def given_again(episode: Episode, replaced: Counter[str]) -> bool:
    """Whether an interrupted trial of a measure that is read once is given again; counts it under its version."""
    version = episode.order.policy_id
    if not interrupted(episode.outcome, episode.cause) or replaced[version] >= REPLACED:
        return False
    replaced[version] += 1
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both sides from one hidden start."""

    index: int
    champion: Trial
    candidate: Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What the finished pairs say, counted. Whatever is not a success is a failure of its side."""

    wins: int = 0
    """Candidate succeeds where the champion fails."""
    losses: int = 0
    both: int = 0
    neither: int = 0
    faster: int = 0
    """Of `both`: the candidate needed fewer ticks."""
    slower: int = 0
    champion_unsafe: int = 0
    candidate_unsafe: int = 0

    @property
    def pairs(self) -> int:
        """Finished pairs."""
        return self.wins + self.losses + self.both + self.neither

    def add(self, pair: Pair) -> Tally:
        """The tally with one more pair."""
        champion, candidate = pair.champion, pair.candidate
        won, kept = candidate.outcome == "success", champion.outcome == "success"
        return Tally(
            wins=self.wins + (won and not kept),
            losses=self.losses + (kept and not won),
            both=self.both + (won and kept),
            neither=self.neither + (not won and not kept),
            faster=self.faster + (won and kept and candidate.ticks < champion.ticks),
            slower=self.slower + (won and kept and candidate.ticks > champion.ticks),
            champion_unsafe=self.champion_unsafe + (champion.outcome == "unsafe"),
            candidate_unsafe=self.candidate_unsafe + (candidate.outcome == "unsafe"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the pairs so far allow to say, with the evidence for it."""

    kind: DecisionKind
    reason: Reason
    tally: Tally
    level: float
    log_need: float
    """Evidence that promotes: log(1/level)."""
    log_e: float
    """Evidence that the candidate succeeds more often."""
    log_e_worse: float
    log_e_faster: float
    low: float
    """Confidence sequence of the difference in success rate, candidate minus champion, at 1 - alpha."""
    high: float
    more: int | None
    """About so many more pairs to decide if things go on as so far; None when no decision is in sight."""

    @property
    def final(self) -> bool:
        """Whether the gate is closed."""
        return self.kind != "continue"

    def body(self) -> dict[str, object]:
        """The flat fields of the event "gate decided"."""
        flat: dict[str, object] = {"decision": self.kind, "reason": self.reason, "pairs": self.tally.pairs}
        return flat | asdict(self.tally) | {name: getattr(self, name) for name in _FIGURES}


_FIGURES = ("level", "log_need", "log_e", "log_e_worse", "log_e_faster", "low", "high", "more")


def level(alpha: float, k: int, promoted: int) -> float:
    """The level of the k-th gate of a campaign (k from 1) after `promoted` promotions: e-LOND.

    alpha_k = alpha * 6 / (pi^2 k^2) * (promoted + 1). Then at most the share alpha of all promotions is expected to
    be false for success, and likewise for speed, however the gates depend on each other. Source: Xu and Ramdas 2024,
    "Online multiple testing with e-values".
    """
    if k < 1 or not 0 <= promoted < k:
        raise UsageError(f"Gate {k} after {promoted} promotions cannot be: gates count from 1, one promotion each.")
    return min(alpha, alpha * 6 / (math.pi * k) ** 2 * (promoted + 1))


def pairs_in_order(trials: Iterable[Trial]) -> tuple[Pair, ...]:
    """The finished pairs in the order of their numbers, up to the first that is not finished.

    Not in the order in which they finish: slow failures would come late, and reading early would see a sample in which
    they are missing. For the same reason no pair is left out: a side that was taken back is waited for until it was
    given again, or whoever makes the robot stop would lose the pairs that this cost, and be the better for it.
    """
    sides: dict[int, dict[str, Trial]] = {}
    for trial in trials:
        if trial.released:
            continue
        if trial.side in sides.setdefault(trial.pair, {}):
            raise UsageError(f"Pair {trial.pair} has two {trial.side} trials; a trial counts once.")
        sides[trial.pair][trial.side] = trial
    pairs: list[Pair] = []
    for index in range(max(sides, default=-1) + 1):
        both = sides.get(index, {})
        if len(both) < 2:
            break
        pairs.append(Pair(index=index, champion=both["champion"], candidate=both["candidate"]))
    return tuple(pairs)


def judge(pairs: Sequence[Pair], rule: GateRule, level: float) -> Decision:
    """Read after every pair, in order; the first pair that decides is the last one that counts."""
    tallies = list(accumulate(pairs, Tally.add, initial=Tally()))[1:]
    used = judge_tallies(tallies, rule, level)[2]
    return decide(tallies[used - 1] if used else Tally(), rule, level)


def unloadable(decision: Decision) -> Decision:
    """An undecided gate as it ends when no station can run the candidate."""
    return replace(decision, kind="hold", reason="unloadable", more=0)


def judge_tallies(tallies: Sequence[Tally], rule: GateRule, level: float) -> tuple[DecisionKind, Reason, int]:
    """(kind, reason, pairs used) from the tally after every pair, without the figures of a full decision."""
    for used, tally in enumerate(tallies, start=1):
        kind, reason = _verdict(tally, rule, level)
        if kind != "continue":
            return kind, reason, used
    return "continue", "undecided", len(tallies)


def decide(tally: Tally, rule: GateRule, level: float) -> Decision:
    """One reading of the evidence. `judge` reads after every pair; use that for a decision that counts."""
    kind, reason = _verdict(tally, rule, level)
    low, high = difference(tally.wins, tally.losses, tally.both + tally.neither, 1 - rule.alpha)
    return Decision(
        kind=kind,
        reason=reason,
        tally=tally,
        level=level,
        log_need=-math.log(level),
        log_e=log_e(tally.wins, tally.losses),
        log_e_worse=log_e(tally.losses, tally.wins),
        log_e_faster=log_e(tally.faster, tally.slower),
        low=low,
        high=high,
        more=_more_pairs(tally, rule, level) if kind == "continue" else 0,
    )


def _verdict(tally: Tally, rule: GateRule, level: float) -> tuple[DecisionKind, Reason]:
    need = -math.log(level)
    if tally.candidate_unsafe > unsafe_allowed(tally, rule):
        return "reject", "unsafe"
    if log_e(tally.wins, tally.losses) >= need:
        return "promote", "better"
    # A false rejection deploys nothing, so it is held to alpha itself, not to the campaign's shrinking level.
    if log_e(tally.losses, tally.wins) >= -math.log(rule.alpha):
        return "reject", "worse"
    if log_e(tally.faster, tally.slower) >= need and _log_e_not_worse(tally, rule.margin) >= need:
        return "promote", "faster"
    if tally.pairs >= rule.pairs:
        return "hold", "spent"
    if rule.early_hold and _hopeless(tally, rule.pairs - tally.pairs, rule.margin, need):
        return "hold", "hopeless"
    return "continue", "undecided"


def _log_e_not_worse(tally: Tally, margin: float) -> float:
    return log_e_above(tally.wins, tally.losses, tally.both + tally.neither, -margin)


def unsafe_allowed(tally: Tally, rule: GateRule) -> int:
    """Unsafe trials that the candidate may have so far: the champion's upper bound (Wilson 95 %) plus the margin."""
    return math.floor(wilson(tally.champion_unsafe, tally.pairs).high * tally.pairs) + rule.unsafe_margin


def _hopeless(tally: Tally, left: int, margin: float, need: float) -> bool:
    if log_e(tally.wins + left, tally.losses) >= need:
        return False
    if log_e(tally.faster + left, tally.slower) < need:
        return True
    return _log_e_not_worse(replace(tally, wins=tally.wins + left), margin) < need


def _more_pairs(tally: Tally, rule: GateRule, level: float) -> int | None:
    """Pairs until the likeliest road decides, if every further pair is like the average of those so far."""
    need = -math.log(level)
    roads = (
        pairs_until(tally.wins, tally.losses, tally.pairs, need),
        pairs_until(tally.losses, tally.wins, tally.pairs, -math.log(rule.alpha)),
    )
    nearest = min(roads)
    return None if nearest >= NO_END else nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A frozen champion on starts that exist only since it was frozen; `n` was announced before."""

    interval: Interval
    """Wilson 95 %."""
    bound: float
    """One-sided 95 % lower bound, exact."""
    passed: bool


def confirm(successes: int, n: int, goal: float, by: Literal["rate", "bound"] = "rate") -> Confirmation:
    """Whether a champion reached the goal: its measured rate, or (`by="bound"`) the lower bound of it."""
    bound = lower_bound(successes, n)
    reached = n > 0 and (successes / n if by == "rate" else bound) >= goal
    return Confirmation(interval=wilson(successes, n), bound=bound, passed=reached)
