"""One study at several sites, pooled at the end: `python -m benchmarks.sites` shows its errors, and what it finds.

    python -m benchmarks.sites            1000 studies a line
    python -m benchmarks.sites -n 4000

Sites differ in difficulty, and each ends its own study as soon as its own test shows something. The pooled answer is
the one of `enpire study pool`. The trials are simulated as coin tosses.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from enpire.gate.intervals import wilson
from enpire.study.pool import PooledAnswer, pooled_answer

SEED, ALPHA, SITES = 11, 0.05, (1, 4, 10, 30)
HARD, EASY = 0.5, 0.95
"""Success of the control lies between these, evenly drawn for each site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """How much better the arm is than the control, at each site."""

    name: str
    gain: float
    """Added to the success rate; the sum is at most 1."""
    reversed_share: float = 0.0
    """Share of the sites at which the arm is as much worse."""


TRUTHS = (
    Truth(name="equal", gain=0.0),
    Truth(name="+5 points", gain=0.05),
    Truth(name="+10 points", gain=0.1),
    Truth(name="+10 points, at every fifth site -10", gain=0.1, reversed_share=0.2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one study at several sites found."""

    alone: int
    """Sites whose own test calls the arm better or worse."""
    pooled: PooledAnswer
    wrong: bool
    """Whether the pooled answer is not the sign of the mean gain over these sites."""
    blocks: int


def study(truth: Truth, sites: int, blocks: int, draw: np.random.Generator) -> Found:
    """Run the study at every site, each with its own end, and pool them."""
    wins, losses, run, alone, gains = 0, 0, 0, 0, 0.0
    for _ in range(sites):
        control = draw.uniform(HARD, EASY)
        gain = -truth.gain if draw.random() < truth.reversed_share else truth.gain
        arm = min(1.0, control + gain)
        gains += arm - control
        won, lost = 0, 0
        succeeded = draw.random((blocks, 2)) < (arm, control)
        for mine, other in succeeded.tolist():
            run += 1
            won, lost = won + (mine and not other), lost + (other and not mine)
            if answer(won, lost) != "not shown":
                alone += 1
                break
        wins, losses = wins + won, losses + lost
    pooled = answer(wins, losses)
    true = "better" if gains > 0 else "worse" if gains < 0 else "not shown"
    return Found(alone=alone, pooled=pooled, wrong=pooled not in ("not shown", true), blocks=run)


@lru_cache(maxsize=1 << 18)
def answer(wins: int, losses: int) -> PooledAnswer:
    """The answer of the product, kept: most counts occur many times."""
    return pooled_answer(wins, losses, ALPHA)[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 when the whole interval of a wrong answer's rate lies above alpha."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--repetitions", type=int, default=1000)
    parser.add_argument("--blocks", type=int, default=40, help="most blocks at a site")
    chosen = parser.parse_args(arguments)
    print(describe([SEED]))
    print(f"{chosen.repetitions} studies a line, at most {chosen.blocks} blocks a site, alpha {ALPHA:g}\n")
    print("| arm | sites | pooled: better [95 %] | pooled: worse | a site alone shows a difference | blocks, mean |")
    print("|---|---|---|---|---|---|")
    numbers: list[Measured] = []
    for truth in TRUTHS:
        for sites in SITES:
            draw = np.random.default_rng((SEED, sites, TRUTHS.index(truth)))
            found = [study(truth, sites, chosen.blocks, draw) for _ in range(chosen.repetitions)]
            count = {name: sum(one.pooled == name for one in found) for name in ("better", "worse")}
            better = wilson(count["better"], len(found))
            alone = sum(one.alone for one in found) / (sites * len(found))
            blocks = sum(one.blocks for one in found) / len(found)
            print(
                f"| {truth.name} | {sites} | {better.rate:.3f} [{better.low:.3f}, {better.high:.3f}] | "
                f"{count['worse'] / len(found):.3f} | {alone:.3f} | {blocks:.0f} |",
                flush=True,
            )
            wrong = wilson(sum(one.wrong for one in found), len(found))
            numbers.append(
                Measured(
                    name=f"{truth.name}, {sites} sites: wrong answers", value=wrong.rate, low=wrong.low, high=wrong.high
                )
            )
    kept = all(one.low is not None and one.low <= ALPHA for one in numbers)
    return report(numbers, [(f"wrong answers of the pooled study: at most alpha = {ALPHA:g}", kept)])


if __name__ == "__main__":
    sys.exit(main())
