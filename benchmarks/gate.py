"""How often the gate is right and how many pairs it costs: docs/gate.md quotes this table.

python -m benchmarks.gate                 500 repetitions, about a minute
python -m benchmarks.gate -n 2000         the repetitions of the published table
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from enpire.gate.gate import GateRule, Tally, judge_tallies, level
from enpire.gate.intervals import wilson

ROWS = (
    (0.40, 0.40), (0.90, 0.90), (0.99, 0.99), (0.40, 0.68), (0.68, 0.85), (0.85, 0.92), (0.92, 0.97), (0.97, 0.995),
    (0.60, 0.50),
)  # fmt: skip
"""True success of champion and candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of the table."""

    champion: float
    candidate: float
    shared: float
    """Share of starts on which both sides have the same luck, in [0, 1]."""
    faster: float = 0.5
    """Where both succeed: probability that the candidate is the faster."""


def walk(case: Case, pairs: int, draw: np.random.Generator) -> list[Tally]:
    """The tally after every pair of one gate."""
    luck = draw.random((pairs, 2))
    luck[:, 1] = np.where(draw.random(pairs) < case.shared, luck[:, 0], luck[:, 1])
    kept, won = luck[:, 0] < case.champion, luck[:, 1] < case.candidate
    quick = draw.random(pairs) < case.faster
    marks = (won & ~kept, kept & ~won, won & kept, ~won & ~kept, won & kept & quick, won & kept & ~quick)
    counts = np.cumsum(np.stack(marks, axis=1), axis=0).tolist()
    names = ("wins", "losses", "both", "neither", "faster", "slower")
    return [Tally(**dict(zip(names, row, strict=True))) for row in counts]


def measured(case: Case, rule: GateRule, gate_level: float, repetitions: int) -> str:
    """One line of the table: how the gates ended, with Wilson 95 % where it promotes, and what they cost."""
    draw = np.random.default_rng(7)
    ends = [judge_tallies(walk(case, rule.pairs, draw), rule, gate_level) for _ in range(repetitions)]
    promoted = wilson(sum(kind == "promote" for kind, _, _ in ends), repetitions)
    rejected = sum(kind == "reject" for kind, _, _ in ends) / repetitions
    pairs = median(used for _, _, used in ends)
    return (
        f"| {case.champion:.3g} -> {case.candidate:.3g} | {case.shared:.1f} | {case.faster:.2f} | "
        f"{promoted.rate:.3f} [{promoted.low:.3f}, {promoted.high:.3f}] | {rejected:.3f} | {pairs:.0f} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--repetitions", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--early-hold", action="store_true", help="stop when promotion has become impossible")
    parser.add_argument("--k", type=int, default=0, help="judge as the k-th gate of a campaign; 0: at alpha itself")
    chosen = parser.parse_args(arguments)
    rule = GateRule(pairs=chosen.pairs, early_hold=chosen.early_hold)
    gate_level = level(rule.alpha, chosen.k, 0) if chosen.k else rule.alpha
    began = time.monotonic()
    print(f"{chosen.repetitions} gates a line, {rule.pairs} pairs at most, level {gate_level:.4f}, seed 7")
    print("| champion -> candidate | shared luck | faster | promoted [95 %] | rejected | median pairs |")
    print("|---|---|---|---|---|---|")
    cases = [Case(champion=a, candidate=b, shared=shared) for a, b in ROWS for shared in (0.0, 0.5)]
    cases += [Case(champion=0.97, candidate=0.97, shared=0.5, faster=share) for share in (0.7, 0.9)]
    cases += [Case(champion=0.97, candidate=0.90, shared=0.5, faster=0.9)]
    for case in cases:
        print(measured(case, rule, gate_level, chosen.repetitions), flush=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
