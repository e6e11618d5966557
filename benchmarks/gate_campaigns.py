"""The gates of whole campaigns: levels, independent pairs, small losses in a row. docs/gate.md quotes these tables.

python -m benchmarks.gate_campaigns            200 campaigns a line
python -m benchmarks.gate_campaigns -n 1000
python -m benchmarks.gate_campaigns --only levels    one of: levels, campaigns, independence, losses

The table of losses has a quarter of the campaigns, because its gates have up to 1,600 pairs.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import median
from typing import Literal

import numpy as np

from benchmarks.gate import SEED, Case, pairs_of
from benchmarks.intervals import exact_share
from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from enpire.gate.e_values import log_e
from enpire.gate.gate import DecisionKind, GateReader, Reading, judge_readings, least_pairs, readings_of
from enpire.gate.independence import SIGNIFICANT, Votes, independence
from enpire.gate.intervals import wilson
from enpire.gate.regression import lost_success
from enpire.gate.rule import GateRule, level
from enpire.gate.trials import Tally
from enpire.types import Interval

EQUAL, BETTER, NEAR_TOP = Case(champion=0.7, candidate=0.7), Case(champion=0.4, candidate=0.68), Case(
    champion=0.92, candidate=0.97
)  # fmt: skip
CAMPAIGNS = {
    "6 gates, no candidate is better": (EQUAL,) * 6,
    "6 gates, every second candidate is better (0.4 → 0.68)": (BETTER, EQUAL) * 3,
    "6 gates, every second candidate is better (0.92 → 0.97)": (NEAR_TOP, Case(champion=0.97, candidate=0.97)) * 3,
}
"""The true success of champion and candidate in each gate."""
MIXED = (BETTER, EQUAL, Case(champion=0.68, candidate=0.85), Case(champion=0.85, candidate=0.85))
TESTED = {
    "4 gates, 0.7 → 0.7": (EQUAL,) * 4,
    "4 gates, 0.4 → 0.68, 0.7 → 0.7, 0.68 → 0.85, 0.85 → 0.85": MIXED,
    "1 gate, 0.7 → 0.7": (EQUAL,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The gates of one simulated campaign."""

    promoted: tuple[bool, ...]
    votes: tuple[Votes, ...]

    def false(self, cases: Sequence[Case]) -> int:
        """Promotions of candidates that are not better."""
        return sum(won for won, case in zip(self.promoted, cases, strict=True) if case.candidate <= case.champion)


def campaign(cases: Sequence[Case], rule: GateRule, draw: np.random.Generator) -> Run:
    """One campaign: each gate has the level of its number and of the promotions before it."""
    promoted: list[bool] = []
    votes: list[Votes] = []
    for k, case in enumerate(cases, start=1):
        pairs = pairs_of(case, rule.pairs, draw)
        kind, _, used = judge_readings(readings_of(pairs, rule), rule, level(rule.alpha, k, sum(promoted)))
        promoted.append(kind == "promote")
        votes.append(Votes.of(pairs[:used], rule.block))
    return Run(promoted=tuple(promoted), votes=tuple(votes))


def wins_in_a_row(gate_level: float) -> int:
    """Fewest discordant pairs, all won by the candidate, that promote it."""
    return next(wins for wins in count(1) if log_e(wins, 0) >= -math.log(gate_level))


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """A campaign whose every candidate is 30 % faster than the champion and succeeds a little less often."""

    gates: int
    loss: float
    """Success rate that each candidate loses against the champion of its time."""
    pairs: int
    version: Literal[2, 3] = 3
    """Of the gate's rule."""

    @property
    def name(self) -> str:
        """The first cell of its line."""
        kept = f"{100 * self.loss:g} points worse" if self.loss else "equal success"
        return f"{self.gates} gates of {self.pairs} pairs, each candidate 30 % faster, {kept}, version {self.version}"


LOSSES = (
    Losses(gates=8, loss=0.01, pairs=400), Losses(gates=8, loss=0.01, pairs=1600),
    Losses(gates=20, loss=0.005, pairs=1600), Losses(gates=20, loss=0.005, pairs=1600, version=2),
    Losses(gates=8, loss=0.0, pairs=1600), Losses(gates=8, loss=0.0, pairs=1600, version=2),
)  # fmt: skip
BEGINS, BASE_TRIALS = 0.97, 200
READ_EVERY = 20
"""Pairs between two readings of these gates; a gate may be read at any time."""


def small_losses(plan: Losses, draw: np.random.Generator) -> tuple[float, int]:
    """(success of the best champion minus that of the last one, promotions) of one campaign."""
    rule, rates = GateRule(pairs=plan.pairs, version=plan.version), [BEGINS]
    counts = [(int(draw.binomial(BASE_TRIALS, BEGINS)), BASE_TRIALS)]
    for k in range(1, plan.gates + 1):
        case = Case(champion=rates[-1], candidate=rates[-1] - plan.loss, gain=(1.3, 1.0))
        drop = lost_success(counts[-1], counts[:-1], rule.version)
        kind, tally = _gate_end(case, rule, level(rule.alpha, k, len(rates) - 1), drop, draw)
        counts[-1] = (counts[-1][0] + tally.both + tally.losses, counts[-1][1] + tally.pairs)
        if kind == "promote":
            rates.append(case.candidate)
            counts.append((tally.both + tally.wins, tally.pairs))
    return max(rates) - rates[-1], len(rates) - 1


def _gate_end(
    case: Case, rule: GateRule, at: float, drop: float, draw: np.random.Generator
) -> tuple[DecisionKind, Tally]:
    """How a gate ends that is read after every READ_EVERY pairs, and its counts."""
    rule, tally = GateReader(rule, at, drop).rule, Tally()
    while True:
        for pair in pairs_of(case, READ_EVERY, draw):
            tally = tally.add(pair, rule.least_gain)
        kind, _, _ = judge_readings([Reading(tally=tally, votes=tally)], rule, at)
        if kind != "continue":
            return kind, tally


def lost_too_much(losses: Sequence[float], margin: float) -> Interval:
    """Share of campaigns whose last champion succeeds more than `margin` less often than their best one."""
    return wilson(sum(loss > margin + 1e-9 for loss in losses), len(losses))


def losses(repetitions: int) -> tuple[str, list[tuple[str, bool]]]:
    """What many small losses add up to: (table, promises)."""
    lines = [
        "| campaign | mean loss, points | largest | above the margin [95 %] | promotions | limit |", "|" + "---|" * 6
    ]  # fmt: skip
    promises: list[tuple[str, bool]] = []
    for plan in LOSSES:
        draw, rule = np.random.default_rng(SEED), GateRule()
        ends = [small_losses(plan, draw) for _ in range(repetitions)]
        lost = [loss for loss, _ in ends]
        above = lost_too_much(lost, rule.margin)
        kept = above.low <= rule.alpha
        if promised := plan.version > 2 and plan.loss > 0:
            promises.append((f"{plan.name}: more than the margin lost in at most {rule.alpha:g}", kept))
        lines.append(
            f"| {plan.name} | {100 * float(np.mean(lost)):.2f} | {100 * max(lost):.1f} "
            f"| {above.rate:.3f} [{above.low:.3f}, {above.high:.3f}] | {np.mean([n for _, n in ends]):.2f} "
            f"| {'pass' if promised and kept else 'FAIL' if promised else '–'} |"
        )
    return "\n".join(lines), promises


def levels(rule: GateRule) -> str:
    """The level, threshold and fewest wins of the k-th gate, by the number of promotions before it."""
    lines = [
        "| gate | no promotion before | half of the gates before promoted | all gates before promoted |",
        "|" + "---|" * 4,
    ]
    for k in (1, 2, 3, 4, 6, 8, 12, 20):
        cells: list[str] = []
        for promoted in (0, (k - 1) // 2, k - 1):
            found = level(rule.alpha, k, promoted)
            cells.append(f"{found:.4f} ({-math.log(found):.2f}; {wins_in_a_row(found)})")
        lines.append(f"| {k} | {' | '.join(cells)} |")
    return "\n".join(lines)


def least(rule: GateRule) -> str:
    """The pairs that a faster candidate needs if no pair has one winner, by block, gate and margin."""
    lines = [
        "| block | margin | gate 1 | gate 4, no promotion before | gate 8, no promotion before |",
        "|" + "---|" * 5,
    ]
    for block in (1, 8, 16):
        for margin in (0.02, 0.05):
            one = replace(rule, block=block, margin=margin)
            needed = [least_pairs(one, level(rule.alpha, k, 0)) for k in (1, 4, 8)]
            lines.append(f"| {block} | {margin:.0%} | {' | '.join(map(str, needed))} |")
    return "\n".join(lines)


def share(hits: int, n: int) -> str:
    """A share with its Wilson 95 % interval."""
    found = wilson(hits, n)
    return f"{found.rate:.3f} [{found.low:.3f}, {found.high:.3f}]"


def campaigns(rule: GateRule, repetitions: int) -> tuple[str, list[Measured]]:
    """Promotions of whole campaigns at the levels that their gates have: (table, false share of promotions)."""
    lines = [
        "| campaign | with a false promotion [95 %] | false share of promotions | better ones promoted |",
        "|" + "---|" * 4,
    ]
    numbers: list[Measured] = []
    for name, cases in CAMPAIGNS.items():
        draw = np.random.default_rng(SEED)
        runs = [campaign(cases, rule, draw) for _ in range(repetitions)]
        false = [run.false(cases) for run in runs]
        shares = [wrong / max(1, sum(run.promoted)) for wrong, run in zip(false, runs, strict=True)]
        better = repetitions * sum(case.candidate > case.champion for case in cases)
        right = sum(sum(run.promoted) for run in runs) - sum(false)
        cell = share(right, better) if better else "–"
        lines.append(f"| {name} | {share(sum(map(bool, false)), repetitions)} | {np.mean(shares):.3f} | {cell} |")
        found = exact_share(sum(shares), len(shares))
        numbers.append(
            Measured(name=f"false share of promotions: {name}", value=found.mean, low=found.low, high=found.high)
        )
    return "\n".join(lines), numbers


def tested(rule: GateRule, repetitions: int) -> str:
    """How often the test calls the votes of a campaign dependent, by drift."""
    lines = [
        "| campaign, drift from 16 pairs to the next | called dependent [95 %] | p ≤ 0.05 | too few | median votes |",
        "|" + "---|" * 5,
    ]
    for name, cases in TESTED.items():
        for drift in (0.0, 0.5, 1.0):
            for block in (1, 16) if len(cases) > 1 else (1,):
                draw = np.random.default_rng(SEED)
                drifting = [replace(case, drift=drift) for case in cases]
                one_rule = replace(rule, block=block)
                found = [independence(campaign(drifting, one_rule, draw).votes) for _ in range(repetitions)]
                line = (
                    f"{name}, {drift:g} logits, blocks of {block}",
                    share(sum(one.found for one in found), repetitions),
                    f"{sum(one.p is not None and one.p <= 0.05 for one in found) / repetitions:.3f}",
                    f"{sum(one.p is None for one in found) / repetitions:.3f}",
                    f"{median(one.votes for one in found):.0f}",
                )
                lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 when the whole interval of a share lies above its limit, which few campaigns cannot show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--repetitions", type=int, default=200)
    parser.add_argument("--only", choices=("levels", "campaigns", "independence", "losses"), help="one table")
    chosen = parser.parse_args(arguments)
    rule, began, numbers = GateRule(), time.monotonic(), list[Measured]()
    print(describe([SEED]))
    print(
        f"{chosen.repetitions} campaigns a line, at most {rule.pairs} pairs a gate; dependent: p at most {SIGNIFICANT}"
    )
    if chosen.only in (None, "levels"):
        print(f"\nlevel (log evidence; fewest wins without a loss)\n\n{levels(rule)}", flush=True)
        print(f"\nleast pairs of a faster candidate\n\n{least(rule)}", flush=True)
    if chosen.only in (None, "campaigns"):
        table, numbers = campaigns(rule, chosen.repetitions)
        print(f"\n{table}", flush=True)
    if chosen.only in (None, "independence"):
        print(f"\n{tested(rule, chosen.repetitions)}", flush=True)
    promises: list[tuple[str, bool]] = []
    if chosen.only in (None, "losses"):
        table, promises = losses(max(1, chosen.repetitions // 4))
        print(f"\n{table}", flush=True)
    print(f"\n{time.monotonic() - began:.0f} s\n")
    promises += [false_share(numbers, rule.alpha)] if numbers else []
    return report(numbers, promises)


def false_share(numbers: Sequence[Measured], most: float) -> tuple[str, bool]:
    """Whether no interval lies above `most`, in words that say so where an interval does not lie below it either."""
    ends = [(number.low or 0.0, 1.0 if number.high is None else number.high) for number in numbers]
    kept, shown = all(low <= most for low, _ in ends), all(high <= most for _, high in ends)
    few = "" if shown or not kept else " (too few campaigns to show at most alpha: an interval reaches above it)"
    return f"false share of promotions: no interval lies above alpha = {most:g}{few}", kept


if __name__ == "__main__":
    sys.exit(main())
