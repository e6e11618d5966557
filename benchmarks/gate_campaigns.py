"""The gates of whole campaigns: their levels, and the test of independent pairs. docs/gate.md quotes these tables.

python -m benchmarks.gate_campaigns            200 campaigns a line
python -m benchmarks.gate_campaigns -n 1000
python -m benchmarks.gate_campaigns --only levels    one of: levels, campaigns, independence
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

import numpy as np

from benchmarks.gate import SEED, Case, pairs_of
from benchmarks.intervals import mean_by_seed
from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from enpire.gate.e_values import log_e
from enpire.gate.gate import judge_readings, readings_of
from enpire.gate.independence import SIGNIFICANT, Votes, independence
from enpire.gate.intervals import wilson
from enpire.gate.rule import GateRule, level

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
        found = mean_by_seed([np.array([one]) for one in shares])
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
    """Print the tables; 1 when the whole interval of a false share of promotions lies above alpha."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--repetitions", type=int, default=200)
    parser.add_argument("--only", choices=("levels", "campaigns", "independence"), help="one table")
    chosen = parser.parse_args(arguments)
    rule, began, numbers = GateRule(), time.monotonic(), list[Measured]()
    print(describe([SEED]))
    print(
        f"{chosen.repetitions} campaigns a line, at most {rule.pairs} pairs a gate; dependent: p at most {SIGNIFICANT}"
    )
    if chosen.only in (None, "levels"):
        print(f"\nlevel (log evidence; fewest wins without a loss)\n\n{levels(rule)}", flush=True)
    if chosen.only in (None, "campaigns"):
        table, numbers = campaigns(rule, chosen.repetitions)
        print(f"\n{table}", flush=True)
    if chosen.only in (None, "independence"):
        print(f"\n{tested(rule, chosen.repetitions)}", flush=True)
    print(f"\n{time.monotonic() - began:.0f} s\n")
    kept = all(number.low is not None and number.low <= rule.alpha for number in numbers)
    return report(numbers, [(f"false share of promotions: at most alpha = {rule.alpha:g}", kept)] if numbers else ())


if __name__ == "__main__":
    sys.exit(main())
