"""`python -m benchmarks.mutants [MODULE...] [--only WORD] [--workers 2]`: see the package's first lines."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from benchmarks.machine import describe
from benchmarks.mutants import Mutant, hand_made, modules, survivors
from benchmarks.mutants.trial import Tree, Verdict, preload

GOAL = 0.95
"""Smallest share of a module's mutants that its tests must kill; those of survivors.yaml do not count."""
FIRST_LIMIT_S = 1200.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when every hand-made mutant, or `GOAL` of a module's mutants, is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help=f"modules to mutate: {', '.join(modules())}; none: hand-made ones")
    parser.add_argument("--only", default="", help="only mutants whose file or line contains this")
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args(arguments)
    print(describe(), flush=True)
    preload()
    with tempfile.TemporaryDirectory() as folder:
        trees: Queue[Tree] = Queue()
        for number in range(chosen.workers):
            (Path(folder) / str(number)).mkdir()
            trees.put(Tree(Path(folder) / str(number)))
        held = [_all_killed("hand-made", _chosen(hand_made(), chosen.only), trees, 1.0)] if not chosen.modules else []
        for name in chosen.modules:
            from benchmarks.mutants.generate import mutants_of

            held.append(_all_killed(name, _chosen(list(mutants_of(modules()[name])), chosen.only), trees, GOAL))
    return 0 if all(held) else 1


def _chosen(mutants: Sequence[Mutant], word: str) -> list[Mutant]:
    return [one for one in mutants if word in one.name]


def _all_killed(name: str, mutants: Sequence[Mutant], trees: Queue[Tree], goal: float) -> bool:
    """Try the mutants, print those that survive; whether at least the share `goal` was killed."""
    began_s, known = time.monotonic(), survivors()
    excused = [one for one in mutants if (one.file, one.before, one.after) in known]
    tried = [one for one in mutants if one not in excused]
    limit_s = _limit_s(tried, trees)

    def verdict(mutant: Mutant) -> Verdict:
        tree = trees.get()
        try:
            end = tree.try_mutant(mutant, limit_s)
        finally:
            trees.put(tree)
        print(f"{end:>8}  {mutant.name}", flush=True)
        return end

    with ThreadPoolExecutor(trees.qsize()) as pool:
        verdicts = list(pool.map(verdict, tried))
    alive = [one for one, end in zip(tried, verdicts, strict=True) if end == "survived"]
    killed = len(tried) - len(alive)
    for one in alive:
        print(f"NOT KILLED  {one.name}")
    share = killed / len(tried) if tried else 1.0
    print(
        f"{'PASS' if share >= goal else 'FAIL'}  {name}: {killed} of {len(tried)} killed ({share:.1%}), "
        f"{verdicts.count('too slow')} of them by time; {len(excused)} survive for a reason (survivors.yaml); "
        f"{time.monotonic() - began_s:.0f} s",
        flush=True,
    )
    return share >= goal


def _limit_s(mutants: Sequence[Mutant], trees: Queue[Tree]) -> float:
    """How long the tests of a mutant may take, from one run of all tests on the tree as it is.

    Raises:
        SystemExit: the tests fail without a mutant.
    """
    tests = list(dict.fromkeys(test for one in mutants for test in one.tests))
    if not tests:
        return 0.0
    tree = trees.get()
    passed, took_s = tree.passes(tests, FIRST_LIMIT_S)
    trees.put(tree)
    if not passed:
        raise SystemExit(f"{tree.output}\nThe tests fail without a mutant.")
    return 30.0 + 4 * took_s


if __name__ == "__main__":
    sys.exit(main())
