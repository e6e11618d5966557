"""The gate: may the candidate replace the champion? Pure arithmetic on finished pairs of trials.

Both sides of a pair begin from the same start, so only pairs with exactly one success say which side succeeds more
often. The evidence is an e-value. It may be read after every pair: if the candidate is not better, it reaches 1/level
with probability at most `level` (Ville's inequality). docs/gate.md explains the rule; `benchmarks/gate.py` measures it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal

from enpire.gate.e_values import (
    NO_END,
    difference,
    log_e,
    log_e_above,
    log_e_mean_above,
    log_e_rate_above,
    pairs_until,
)
from enpire.gate.intervals import lower_bound, successes_for_bound, wilson
from enpire.gate.rule import GateRule
from enpire.gate.trials import Pair, Tally
from enpire.types import Interval, OutcomeKind

DecisionKind = Literal["promote", "reject", "hold", "continue"]
Reason = Literal["better", "faster", "worse", "unsafe", "spent", "hopeless", "unloadable", "undecided"]
"""better, faster: promoted. worse, unsafe: rejected. Held: spent (all pairs are exhausted), hopeless (futility: the
remaining pairs cannot promote), unloadable (no station can load the candidate). undecided: more pairs are needed. These
are the spellings that ledgers store; gate/reasons.py has the words for readers."""


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
    """Log evidence that the candidate is faster where both succeed."""
    gain: float | None
    """Mean gain in time where both succeed, such as 0.1 for 10 %; None in version 1 of the rule."""
    alpha: float
    """1 - alpha is the coverage of the confidence sequence of the difference."""
    more: int | None
    """Estimated number of further pairs until a decision, at the rates so far; None if no decision is in sight."""

    @property
    def low(self) -> float:
        """Confidence sequence for the success rate of the candidate minus that of the champion, at 1 - alpha."""
        return self._difference[0]

    @property
    def high(self) -> float:
        """Its upper end."""
        return self._difference[1]

    @property
    def _difference(self) -> tuple[float, float]:
        """Computed when it is asked for: it takes longer than the decision after a pair."""
        return difference(self.tally.wins, self.tally.losses, self.tally.both + self.tally.neither, 1 - self.alpha)

    @property
    def final(self) -> bool:
        """Whether the gate is closed."""
        return self.kind != "continue"

    def body(self) -> dict[str, object]:
        """The flat fields of the event "gate decided"."""
        flat: dict[str, object] = {"decision": self.kind, "reason": self.reason, "pairs": self.tally.pairs}
        flat |= {name: getattr(self.tally, name) for name in _COUNTS}
        flat |= {name: getattr(self, name) for name in _NUMBERS}
        if self.gain is not None:
            flat |= {"gain": self.gain} | {name: getattr(self.tally, name) for name in _COUNTS_OF_VERSION_2}
        return flat


_COUNTS = ("wins", "losses", "both", "neither", "faster", "slower", "champion_unsafe", "candidate_unsafe")
_COUNTS_OF_VERSION_2 = ("champion_only_unsafe", "candidate_only_unsafe")
_NUMBERS = ("level", "log_need", "log_e", "log_e_worse", "log_e_faster", "low", "high", "more")


def judge(pairs: Sequence[Pair], rule: GateRule, level: float, drop: float = 0.0) -> Decision:
    """The decision after reading every pair in order; pairs after the first decisive one do not count.

    `drop` is what the champion has lost in success rate against the best earlier champion
    (`enpire.gate.regression.lost_success`). A faster candidate may only lose the rest of the margin; without a rest, it
    must succeed more often.
    """
    return GateReader(rule, level, drop).judge(pairs)


_NO_MARGIN = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The counts after some pairs, and those of the votes: of pairs, or of whole blocks of them."""

    tally: Tally = field(default_factory=Tally)
    votes: Tally = field(default_factory=Tally)
    sums: tuple[int, ...] = ()
    """Number of blocks in which wins minus losses is -block, ..., block; empty where each pair votes, and before
    version 4."""

    def after(self, pairs: Sequence[Pair], used: int, rule: GateRule) -> Reading:
        """The counts after one more pair, the last of the first `used` pairs."""
        tally = self.tally.add(pairs[used - 1], rule.least_gain)
        if rule.block == 1:
            return Reading(tally=tally, votes=tally)
        if used % rule.block:
            return replace(self, tally=tally)
        count = Tally()
        for pair in pairs[used - rule.block : used]:
            count = count.add(pair)
        vote = _vote(pairs[used - rule.block], count)
        votes = self.votes.add(vote, rule.least_gain)
        if not rule.tests_block_means:
            return Reading(tally=tally, votes=votes)
        speed = self.votes.speed
        if count.both:
            speed = speed.add(vote.champion.ticks, vote.candidate.ticks, rule.least_gain)
        sums = list(self.sums or (0,) * (2 * rule.block + 1))
        sums[rule.block + count.wins - count.losses] += 1
        return Reading(tally=tally, votes=replace(votes, speed=speed), sums=tuple(sums))


class GateReader:
    """Reads the growing pairs of one gate: the decision of `judge`, without reading a pair again that it knows."""

    def __init__(self, rule: GateRule, level: float, drop: float = 0.0) -> None:
        """Begin without pairs; the arguments are those of `judge`."""
        self.rule, self.level = replace(rule, margin=max(rule.margin - drop, _NO_MARGIN)), level
        self._read: tuple[Pair, ...] = ()
        """The pairs that count so far."""
        self._reading = Reading()

    def judge(self, pairs: Sequence[Pair]) -> Decision:
        """The decision after these pairs; where one that was read has changed, all are read again."""
        known = len(self._read)
        if tuple(pairs[:known]) != self._read:
            self._read, self._reading, known = (), Reading(), 0
        for used in range(known + 1, len(pairs) + 1):
            if self._is_decided():
                break
            self._reading, known = self._reading.after(pairs, used, self.rule), used
        self._read = tuple(pairs[:known])
        return _decision(self._reading, self.rule, self.level)

    def _is_decided(self) -> bool:
        return bool(self._reading.tally.pairs) and _verdict(self._reading, self.rule, self.level)[0] != "continue"


def readings_of(pairs: Sequence[Pair], rule: GateRule) -> list[Reading]:
    """The counts after every pair."""
    used = range(1, len(pairs) + 1)
    return list(accumulate(used, lambda reading, n: reading.after(pairs, n, rule), initial=Reading()))[1:]


def _vote(first: Pair, count: Tally) -> Pair:
    """The vote of a block as one pair: the side that won more of its pairs, else both; with their mean times."""
    tie: OutcomeKind = "success" if count.both else "failure"
    champion: OutcomeKind = tie if count.wins == count.losses else _OUTCOME[count.losses > count.wins]
    candidate: OutcomeKind = tie if count.wins == count.losses else _OUTCOME[count.wins > count.losses]
    ticks = round(_TICKS * math.exp(count.speed.total / count.both)) if count.both else _TICKS
    return Pair(
        index=first.index,
        champion=replace(first.champion, outcome=champion, ticks=ticks),
        candidate=replace(first.candidate, outcome=candidate, ticks=_TICKS),
    )


_OUTCOME: tuple[OutcomeKind, OutcomeKind] = ("failure", "success")
_TICKS = 10**6
"""Ticks of the candidate in the vote of a block; only the ratio to the champion's counts."""


def unloadable(decision: Decision) -> Decision:
    """The decision of an undecided gate whose candidate no station can load."""
    return replace(decision, kind="hold", reason="unloadable", more=0)


def judge_readings(readings: Sequence[Reading], rule: GateRule, level: float) -> tuple[DecisionKind, Reason, int]:
    """(kind, reason, pairs used) from the reading after every pair, without the numbers of a full `Decision`."""
    for used, reading in enumerate(readings, start=1):
        kind, reason = _verdict(reading, rule, level)
        if kind != "continue":
            return kind, reason, used
    return "continue", "undecided", len(readings)


def least_pairs(rule: GateRule, level: float) -> int:
    """Pairs that a candidate needs to be promoted as faster, if no pair of the gate has one winner."""

    def enough(votes: int) -> bool:
        return _log_e_not_worse(_ties(votes, rule), rule.margin) >= -math.log(level)

    votes = bisect_left(range(_MANY), True, key=enough)
    return votes * rule.block


_MANY = 1_000_000
"""More votes than a margin of 0.0001 needs."""


def _ties(votes: int, rule: GateRule) -> Reading:
    """Votes of pairs, or of blocks, in which neither side won."""
    each = (0,) * rule.block
    sums = (*each, votes, *each) if rule.tests_block_means else ()
    return Reading(votes=Tally(both=votes), sums=sums)


def decide(tally: Tally, rule: GateRule, level: float) -> Decision:
    """The decision from one tally of independent pairs. `judge` reads after every pair; campaigns use it."""
    return _decision(Reading(tally=tally, votes=tally), rule, level)


def _decision(reading: Reading, rule: GateRule, level: float) -> Decision:
    kind, reason = _verdict(reading, rule, level)
    tally, votes = reading.tally, reading.votes
    return Decision(
        kind=kind,
        reason=reason,
        tally=tally,
        level=level,
        log_need=-math.log(level),
        log_e=log_e(votes.wins, votes.losses),
        log_e_worse=log_e(votes.losses, votes.wins),
        log_e_faster=_log_e_faster(votes, rule),
        gain=tally.speed.gain if rule.version > 1 else None,
        alpha=rule.alpha,
        more=_more_pairs(votes, rule, level) if kind == "continue" else 0,
    )


def _verdict(reading: Reading, rule: GateRule, level: float) -> tuple[DecisionKind, Reason]:
    need = -math.log(level)
    # A false rejection deploys nothing, so its level is alpha itself, not the campaign's decreasing level.
    need_to_reject = -math.log(rule.alpha)
    tally, votes = reading.tally, reading.votes
    if _unsafe(tally, rule):
        return "reject", "unsafe"
    if log_e(votes.losses, votes.wins) >= need_to_reject:
        return "reject", "worse"
    if not _exceeds_ceiling(tally, rule):
        if log_e(votes.wins, votes.losses) >= need:
            return "promote", "better"
        if _log_e_faster(votes, rule) >= need and _log_e_not_worse(reading, rule.margin) >= need:
            return "promote", "faster"
    if tally.pairs >= rule.pairs:
        return "hold", "spent"
    if _futile(reading, rule, need):
        return "hold", "hopeless"
    return "continue", "undecided"


def _log_e_faster(votes: Tally, rule: GateRule) -> float:
    return log_e(votes.faster, votes.slower) if rule.version == 1 else votes.speed.log_e()


def _log_e_not_worse(reading: Reading, margin: float) -> float:
    if reading.sums:
        return log_e_mean_above(reading.sums, -margin)
    votes = reading.votes
    return log_e_above(votes.wins, votes.losses, votes.both + votes.neither, -margin)


def _unsafe(tally: Tally, rule: GateRule) -> bool:
    """Whether the candidate is unsafe more often than the champion, or above the ceiling, each at alpha / 2."""
    if rule.version == 1:
        return tally.candidate_unsafe > unsafe_allowed(tally, rule)
    need = math.log(2 / rule.alpha)
    if log_e(tally.candidate_only_unsafe, tally.champion_only_unsafe) >= need:
        return True
    return log_e_rate_above(tally.candidate_unsafe, tally.pairs, rule.unsafe_ceiling) >= need


def _exceeds_ceiling(tally: Tally, rule: GateRule) -> bool:
    """Whether the observed unsafe rate of the candidate exceeds the ceiling: no promotion while it does."""
    return rule.version > 1 and tally.candidate_unsafe > rule.unsafe_ceiling * tally.pairs


def unsafe_allowed(tally: Tally, rule: GateRule) -> int:
    """Version 1: largest allowed number of unsafe candidate trials: the champion's Wilson bound plus the margin."""
    return math.floor(wilson(tally.champion_unsafe, tally.pairs).high * tally.pairs) + rule.unsafe_margin


def _futile(reading: Reading, rule: GateRule, need: float) -> bool:
    """Whether the remaining votes cannot promote the candidate, at best or by the forecast."""
    votes = reading.votes
    left = rule.pairs // rule.block - votes.pairs
    if rule.early_hold:
        faster = votes.speed.log_e_at_best(left, rule.least_gain)
        if rule.version == 1:
            faster = log_e(votes.faster + left, votes.slower)
        if not _may_promote(_after(reading, rule, left, 0, mean=1.0), faster, rule, need):
            return True
    if rule.forecast_hold and votes.pairs * (rule.block if rule.tests_block_means else 1) >= _LEAST_FORECAST:
        wins = round(left * wilson(votes.wins, votes.pairs).high)
        losses = min(left - wins, round(left * wilson(votes.losses, votes.pairs).low))
        faster, tally = votes.speed.log_e_forecast(left, rule.least_gain), reading.tally
        mean = wilson(tally.wins, tally.pairs).high - wilson(tally.losses, tally.pairs).low
        return not _may_promote(_after(reading, rule, wins, losses, mean), faster, rule, need)
    return False


_LEAST_FORECAST = 50
"""Pairs before the first forecast; in version 3 of the rule, votes."""


def _after(reading: Reading, rule: GateRule, wins: int, losses: int, mean: float) -> Reading:
    """The counts after the last vote, with so many further wins and losses; in all other further votes both succeed.

    `mean`: of the further pairs, in blocks whose means are tested: 1 for a win, -1 for a loss.
    """
    votes = reading.votes
    ties = rule.pairs // rule.block - votes.pairs - wins - losses
    end = replace(votes, wins=votes.wins + wins, losses=votes.losses + losses, both=votes.both + ties)
    if not rule.tests_block_means:
        return replace(reading, votes=end)
    return replace(reading, votes=end, sums=_more_sums(reading, rule, mean))


def _more_sums(reading: Reading, rule: GateRule, mean: float) -> tuple[int, ...]:
    """The sums of the blocks until all pairs have run, as equal as whole numbers with this mean can be."""
    sums = list(reading.sums or (0,) * (2 * rule.block + 1))
    left = rule.pairs // rule.block - sum(sums)
    each, above = divmod(round(left * rule.block * mean), max(left, 1))
    sums[rule.block + each] += left - above
    if above:
        sums[rule.block + each + 1] += above
    return tuple(sums)


def _may_promote(end: Reading, log_e_faster: float, rule: GateRule, need: float) -> bool:
    """Whether a candidate with these counts, and with this evidence that it is faster, would be promoted."""
    better = log_e(end.votes.wins, end.votes.losses) >= need
    return better or (log_e_faster >= need and _log_e_not_worse(end, rule.margin) >= need)


def _more_pairs(tally: Tally, rule: GateRule, level: float) -> int | None:
    """Pairs until the nearest decision, if further pairs are like the average of those so far."""
    need = -math.log(level)
    estimates = (
        pairs_until(tally.wins, tally.losses, tally.pairs, need),
        pairs_until(tally.losses, tally.wins, tally.pairs, -math.log(rule.alpha)),
    )
    nearest = min(estimates)
    return None if nearest >= NO_END else nearest * rule.block


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationResult:
    """The result of a frozen champion on starts that were made after it was frozen; `n` was fixed before."""

    interval: Interval
    """Wilson 95 %."""
    bound: float
    """Exact one-sided 95 % lower bound of the success rate."""
    passed: bool


def rate_to_pass(n: int, goal: float, by: Literal["rate", "bound"]) -> float:
    """The measured rate at which a confirmation of `n` trials passes; above 1 if none can."""
    return goal if by == "rate" else successes_for_bound(n, goal) / n


def confirm(successes: int, n: int, goal: float, by: Literal["rate", "bound"] = "rate") -> ConfirmationResult:
    """Whether a champion reached the goal, by its measured rate or (`by="bound"`) by its exact lower bound."""
    bound = lower_bound(successes, n)
    reached = n > 0 and (successes / n if by == "rate" else bound) >= goal
    return ConfirmationResult(interval=wilson(successes, n), bound=bound, passed=reached)
