"""`python -m benchmarks.mutants [MODULE...] [--sample N] [--seed 15] [--record] [--only WORD]`: see the package."""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from benchmarks.machine import commit, describe
from benchmarks.mutants import Mutant, hand_made, modules, survivors
from benchmarks.mutants.scores import Score, record
from benchmarks.mutants.trial import Tree, Verdict

GOAL = 0.95
"""Smallest share of a module's mutants that its tests must kill; those of survivors.yaml do not count."""
FIRST_LIMIT_S = 1200.0
SEED = 15
"""Draws the mutants of `--sample`, where `--seed` gives no other."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when every hand-made mutant, or `GOAL` of a module's mutants, is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help=f"modules to mutate: {', '.join(modules())}; none: hand-made ones")
    parser.add_argument("--sample", type=int, metavar="N", help="try N mutants, drawn at random, and not all")
    parser.add_argument("--seed", type=int, default=SEED, help=f"draws the mutants of --sample (default: {SEED})")
    parser.add_argument("--record", action="store_true", help="write the scores of the modules to scores.md")
    parser.add_argument("--only", action="append", help="only mutants whose name contains this; may be repeated")
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args(arguments)
    if chosen.record and (chosen.only or not chosen.modules):
        parser.error("--record writes the scores of whole modules: name them, and leave out --only.")
    print(describe([chosen.seed] if chosen.sample else []), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        trees: Queue[Tree] = Queue()
        for number in range(chosen.workers):
            (Path(folder) / str(number)).mkdir()
            trees.put(Tree(Path(folder) / str(number)))
        draw = (lambda mutants: drawn(mutants, chosen.sample, chosen.seed)) if chosen.sample else list[Mutant]
        found = [_score(name, chosen.only or [""], draw, trees) for name in chosen.modules or ["hand-made"]]
    for score in found:
        print(f"{'PASS' if score.share >= _goal(score.module) else 'FAIL'}  {score.sentence()}")
    if chosen.record:
        record(found)
    return 0 if all(score.share >= _goal(score.module) for score in found) else 1


def _goal(module: str) -> float:
    return 1.0 if module == "hand-made" else GOAL


def _mutants(module: str) -> list[Mutant]:
    if module == "hand-made":
        return hand_made()
    from benchmarks.mutants.generate import mutants_of

    return list(mutants_of(modules()[module]))


def drawn(mutants: Sequence[Mutant], n: int, seed: int = SEED) -> list[Mutant]:
    """`n` of the mutants. Each has its own random number, so another list keeps most of the draw."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())[:n]


def _score(
    module: str, words: Sequence[str], draw: Callable[[Sequence[Mutant]], list[Mutant]], trees: Queue[Tree]
) -> Score:
    """Try the mutants of a module, and print those that survive."""
    began_s, known = time.monotonic(), survivors()
    named = [one for one in _mutants(module) if any(word in one.name for word in words)]
    counted = [one for one in named if (one.file, one.line, one.after) not in known]
    tried = draw(counted)
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
    for mutant, end in zip(tried, verdicts, strict=True):
        if end == "survived":
            print(f"NOT KILLED  {mutant.name}")
    return Score(
        module=module,
        killed=len(tried) - verdicts.count("survived"),
        tried=len(tried),
        mutants=len(counted),
        excused=len(named) - len(counted),
        too_slow=verdicts.count("too slow"),
        took_s=time.monotonic() - began_s,
        commit=commit(),
    )


def _limit_s(mutants: Sequence[Mutant], trees: Queue[Tree]) -> float:
    """How long the tests of a mutant may take, from one run of all tests on each tree as it is.

    Raises:
        SystemExit: the tests fail without a mutant.
    """
    tests, took_s = list(dict.fromkeys(test for one in mutants for test in one.tests)), 0.0
    if not tests:
        return 0.0
    for _ in range(trees.qsize()):
        tree = trees.get()
        passed, tree_took_s = tree.passes(tests, FIRST_LIMIT_S)
        if not passed:
            raise SystemExit(f"{tree.output}\nThe tests fail without a mutant.")
        trees.put(tree)
        took_s = max(took_s, tree_took_s)
    return 10.0 + 4 * took_s


if __name__ == "__main__":
    sys.exit(main())
