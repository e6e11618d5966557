"""The gate: may the candidate replace the champion? Pure arithmetic on finished pairs of trials.

Both sides of a pair begin from the same start, so only pairs with exactly one success say which side succeeds more
often. The evidence is an e-value. It may be read after every pair: if the candidate is not better, it reaches 1/level
with probability at most `level` (Ville's inequality). docs/gate.md explains the rule; `benchmarks/gate.py` measures it.
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
from enpire.shares import require_share
from enpire.types import Episode, Interval, OutcomeKind, never_began

Side = Literal["champion", "candidate"]
DecisionKind = Literal["promote", "reject", "hold", "continue"]
Reason = Literal["better", "faster", "worse", "unsafe", "spent", "hopeless", "unloadable", "undecided"]
"""better, faster: promoted. worse, unsafe: rejected. Held: spent (all pairs are exhausted), hopeless (futility: the
remaining pairs cannot promote), unloadable (no station can load the candidate). undecided: more pairs are needed. These
are the spellings that ledgers store; gate/reasons.py has the words for readers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRule:
    """The rule of a gate, fixed before its first pair and written to the ledger with it."""

    alpha: float = 0.05
    """Largest expected share of false promotions in a campaign, for success and for speed each, in (0, 1)."""
    pairs: int = 400
    """Largest number of pairs; after them the champion stays."""
    margin: float = 0.02
    """Largest loss in success rate that a faster candidate may have, in (0, 1)."""
    unsafe_margin: int = 0
    """Unsafe trials that a candidate may have above the champion's upper bound."""
    early_hold: bool = True
    """End with futility as soon as winning all remaining pairs could not promote the candidate."""

    def __post_init__(self) -> None:
        try:
            require_share("alpha", self.alpha, "(0, 1)")
            require_share("margin", self.margin, "(0, 1)")
        except ValueError as problem:
            raise UsageError(f"The gate rule {asdict(self)} is not valid: {problem}") from problem
        if self.pairs < 1 or self.unsafe_margin < 0:
            raise UsageError(
                f"The gate rule {asdict(self)} is not valid: pairs must be 1 or more, unsafe_margin must be 0 or more."
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
        """Whether the order was released before it began. Only such a trial counts for neither side: it is reissued."""
        return never_began(self.outcome, self.cause)


PROCESS_ENDED = "the station's process ended"
DISK_FULL = "disk: there was no space for the campaign's records"
NOTHING_OPENS = "descriptors: the campaign could open nothing more"
"""Causes of trials that ended because their whole station was interrupted."""
REPLACED = 200
"""Most interrupted trials that one base measurement or one confirmation reissues; further ones count as failures."""


def interrupted(outcome: OutcomeKind, cause: str) -> bool:
    """Whether a trial ended because its station's process or the campaign's session ended.

    The base measurement and a confirmation reissue such a trial from another start. A gate does not, because
    interruptions affect both sides alike. An operator's stop is not an interruption: operators stop rollouts that go
    wrong.
    """
    return outcome == "aborted" and cause.startswith((PROCESS_ENDED, DISK_FULL, NOTHING_OPENS, "the station left"))


def reissued(episode: Episode, replaced: Counter[str]) -> bool:
    """Whether an interrupted trial of a base measurement or a confirmation is reissued; counts it under its version."""
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
    """Counts of finished pairs. Every outcome that is not a success counts as a failure of its side."""

    wins: int = 0
    """The candidate succeeds, the champion fails."""
    losses: int = 0
    """The champion succeeds, the candidate fails."""
    both: int = 0
    neither: int = 0
    faster: int = 0
    """Pairs of `both` in which the candidate needed fewer ticks."""
    slower: int = 0
    """Pairs of `both` in which the candidate needed more ticks."""
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
    """The gate's decision after some pairs, with its evidence."""

    kind: DecisionKind
    reason: Reason
    tally: Tally
    level: float
    log_need: float
    """Threshold of the log evidence: log(1/level)."""
    log_e: float
    """Log evidence that the candidate succeeds more often."""
    log_e_worse: float
    log_e_faster: float
    low: float
    """Confidence sequence for the success rate of the candidate minus that of the champion, at 1 - alpha."""
    high: float
    more: int | None
    """Estimated number of further pairs until a decision, at the rates so far; None if no decision is in sight."""

    @property
    def final(self) -> bool:
        """Whether the gate is closed."""
        return self.kind != "continue"

    def body(self) -> dict[str, object]:
        """The flat fields of the event "gate decided"."""
        flat: dict[str, object] = {"decision": self.kind, "reason": self.reason, "pairs": self.tally.pairs}
        return flat | asdict(self.tally) | {name: getattr(self, name) for name in _NUMBERS}


_NUMBERS = ("level", "log_need", "log_e", "log_e_worse", "log_e_faster", "low", "high", "more")


def level(alpha: float, k: int, promoted: int) -> float:
    """The level of the k-th gate of a campaign (k from 1) after `promoted` promotions: e-LOND.

    alpha_k = alpha * 6 / (pi^2 k^2) * (promoted + 1). The expected share of false promotions is then at most alpha for
    success, and likewise for speed, whatever the dependence between gates. Source: Xu and Ramdas 2024, "Online
    multiple testing with e-values".
    """
    if k < 1 or not 0 <= promoted < k:
        raise UsageError(
            f"Gate {k} after {promoted} promotions is not possible: gates count from 1, and each promotes at most once."
        )
    return min(alpha, alpha * 6 / (math.pi * k) ** 2 * (promoted + 1))


def pairs_in_order(trials: Iterable[Trial]) -> tuple[Pair, ...]:
    """The finished pairs in the order of their numbers, up to the first unfinished one.

    Pairs are not read in the order in which they finish: slow failures finish late, so an early reading would miss
    them. For the same reason no pair is left out. A released side is waited for until it was reissued and ran;
    otherwise a version that makes robots stop would lose only the pairs in which it did so.
    """
    sides: dict[int, dict[str, Trial]] = {}
    for trial in trials:
        if trial.released:
            continue
        if trial.side in sides.setdefault(trial.pair, {}):
            raise UsageError(f"Pair {trial.pair} has two {trial.side} trials; each side has one trial.")
        sides[trial.pair][trial.side] = trial
    pairs: list[Pair] = []
    for index in range(max(sides, default=-1) + 1):
        both = sides.get(index, {})
        if len(both) < 2:
            break
        pairs.append(Pair(index=index, champion=both["champion"], candidate=both["candidate"]))
    return tuple(pairs)


def judge(pairs: Sequence[Pair], rule: GateRule, level: float) -> Decision:
    """The decision after reading every pair in order; pairs after the first decisive one do not count."""
    tallies = list(accumulate(pairs, Tally.add, initial=Tally()))[1:]
    used = judge_tallies(tallies, rule, level)[2]
    return decide(tallies[used - 1] if used else Tally(), rule, level)


def unloadable(decision: Decision) -> Decision:
    """The decision of an undecided gate whose candidate no station can load."""
    return replace(decision, kind="hold", reason="unloadable", more=0)


def judge_tallies(tallies: Sequence[Tally], rule: GateRule, level: float) -> tuple[DecisionKind, Reason, int]:
    """(kind, reason, pairs used) from the tally after every pair, without the numbers of a full `Decision`."""
    for used, tally in enumerate(tallies, start=1):
        kind, reason = _verdict(tally, rule, level)
        if kind != "continue":
            return kind, reason, used
    return "continue", "undecided", len(tallies)


def decide(tally: Tally, rule: GateRule, level: float) -> Decision:
    """The decision from one tally. `judge` reads after every pair; use it for decisions of a campaign."""
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
    # A false rejection deploys nothing, so its level is alpha itself, not the campaign's decreasing level.
    if log_e(tally.losses, tally.wins) >= -math.log(rule.alpha):
        return "reject", "worse"
    if log_e(tally.faster, tally.slower) >= need and _log_e_not_worse(tally, rule.margin) >= need:
        return "promote", "faster"
    if tally.pairs >= rule.pairs:
        return "hold", "spent"
    if rule.early_hold and _futile(tally, rule.pairs - tally.pairs, rule.margin, need):
        return "hold", "hopeless"
    return "continue", "undecided"


def _log_e_not_worse(tally: Tally, margin: float) -> float:
    return log_e_above(tally.wins, tally.losses, tally.both + tally.neither, -margin)


def unsafe_allowed(tally: Tally, rule: GateRule) -> int:
    """Largest allowed number of unsafe candidate trials: the champion's upper bound (Wilson 95 %) plus the margin."""
    return math.floor(wilson(tally.champion_unsafe, tally.pairs).high * tally.pairs) + rule.unsafe_margin


def _futile(tally: Tally, left: int, margin: float, need: float) -> bool:
    if log_e(tally.wins + left, tally.losses) >= need:
        return False
    if log_e(tally.faster + left, tally.slower) < need:
        return True
    return _log_e_not_worse(replace(tally, wins=tally.wins + left), margin) < need


def _more_pairs(tally: Tally, rule: GateRule, level: float) -> int | None:
    """Pairs until the nearest decision, if further pairs are like the average of those so far."""
    need = -math.log(level)
    estimates = (
        pairs_until(tally.wins, tally.losses, tally.pairs, need),
        pairs_until(tally.losses, tally.wins, tally.pairs, -math.log(rule.alpha)),
    )
    nearest = min(estimates)
    return None if nearest >= NO_END else nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationResult:
    """The result of a frozen champion on starts that were made after it was frozen; `n` was fixed before."""

    interval: Interval
    """Wilson 95 %."""
    bound: float
    """Exact one-sided 95 % lower bound of the success rate."""
    passed: bool


def confirm(successes: int, n: int, goal: float, by: Literal["rate", "bound"] = "rate") -> ConfirmationResult:
    """Whether a champion reached the goal, by its measured rate or (`by="bound"`) by its exact lower bound."""
    bound = lower_bound(successes, n)
    reached = n > 0 and (successes / n if by == "rate" else bound) >= goal
    return ConfirmationResult(interval=wilson(successes, n), bound=bound, passed=reached)
