"""The error levels and the power of the gate, on simulated campaigns."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from enpire.gate.gate import judge
from enpire.gate.rule import GateRule
from enpire.gate.speed import SpeedEvidence
from enpire.gate.trials import Pair
from enpire.types import OutcomeKind
from tests.enpire.gate.test_gate import pair


def drawn(champion: float, candidate: float, n: int, seed: int) -> list[Pair]:
    draw = random.Random(seed)
    kinds: list[tuple[OutcomeKind, OutcomeKind]] = [
        ("success" if draw.random() < champion else "failure", "success" if draw.random() < candidate else "failure")
        for _ in range(n)
    ]
    return [pair(i, a, b) for i, (a, b) in enumerate(kinds)]


@pytest.mark.parametrize(
    ("champion", "candidate", "promoted", "median"), [(0.40, 0.68, 1.00, 38), (0.68, 0.85, 1.00, 70)]
)
def test_a_better_candidate_is_promoted_after_few_pairs(
    champion: float, candidate: float, promoted: float, median: int
) -> None:
    rule = GateRule(early_hold=False)
    runs = [judge(drawn(champion, candidate, rule.pairs, seed), rule, 0.05) for seed in range(60)]
    assert sum(run.kind == "promote" for run in runs) / 60 >= promoted - 0.05
    assert sorted(run.tally.pairs for run in runs)[30] == pytest.approx(median, rel=0.4)


@pytest.mark.parametrize("rate", [0.4, 0.9, 0.99])
def test_an_equal_candidate_is_rarely_promoted(rate: float) -> None:
    runs = [judge(drawn(rate, rate, 200, seed), GateRule(pairs=200), 0.05) for seed in range(100)]
    assert sum(run.kind == "promote" for run in runs) <= 5 + 3 * 2.2
    assert sum(run.reason == "worse" for run in runs) <= 5 + 3 * 2.2


def unsafe_at(champion: float, candidate: float, n: int, seed: int) -> list[Pair]:
    draw = random.Random(seed)
    ends: list[tuple[OutcomeKind, OutcomeKind]] = [
        ("unsafe" if draw.random() < champion else "failure", "unsafe" if draw.random() < candidate else "failure")
        for _ in range(n)
    ]
    return [pair(i, a, b) for i, (a, b) in enumerate(ends)]


@pytest.mark.parametrize("rate", [0.02, 0.05, 0.2])
def test_a_candidate_as_unsafe_as_its_champion_is_rejected_at_most_at_alpha(rate: float) -> None:
    rule = GateRule(pairs=200, early_hold=False, unsafe_ceiling=max(rate, 0.05))
    ends = [judge(unsafe_at(rate, rate, 200, seed), rule, 0.05).reason for seed in range(150)]
    assert ends.count("unsafe") <= 0.05 * 150 + 3 * math.sqrt(150 * 0.05 * 0.95)


def test_a_candidate_that_is_unsafe_more_often_than_its_champion_is_rejected() -> None:
    assert judge(unsafe_at(0.0, 0.2, 400, 1), GateRule(unsafe_ceiling=0.5), 0.05).reason == "unsafe"
    assert judge(unsafe_at(0.1, 0.3, 400, 1), GateRule(unsafe_ceiling=0.5), 0.05).reason == "unsafe"


@pytest.mark.parametrize("seed", range(5))
def test_evidence_of_speed_keeps_its_level_for_heavy_tails(seed: int) -> None:
    draw = random.Random(seed)
    crossed = 0
    for _ in range(100):
        evidence = SpeedEvidence()
        for _ in range(150):
            factor = 4.0 if draw.random() < 0.1 else 4.0 ** (-1 / 9)  # the mean of the logarithm is exactly 0
            evidence = evidence.add(round(1e6 * factor), 10**6, 0.0)
            if evidence.log_e() >= math.log(20):
                crossed += 1
                break
    assert crossed <= 5 + 3 * 2.2


def drifting(seed: int, n: int = 400) -> list[Pair]:
    """Equal versions, each of which is better or worse by about one logit from one block of 16 pairs to the next."""
    draw, pairs, rates = random.Random(seed), list[Pair](), list[float]()
    for index in range(n):
        if index % 16 == 0:
            rates = [1 / (1 + math.exp(-draw.gauss(0, 1))) for _ in range(2)]
        ends: list[OutcomeKind] = ["success" if draw.random() < rate else "failure" for rate in rates]
        pairs.append(pair(index, ends[0], ends[1]))
    return pairs


def test_blocks_keep_the_level_where_the_luck_of_a_version_drifts() -> None:
    rule = GateRule(early_hold=False)
    alone = [judge(drifting(seed), rule, 0.05).kind for seed in range(60)]
    together = [judge(drifting(seed), replace(rule, block=16), 0.05).kind for seed in range(60)]
    assert alone.count("promote") > 0.1 * 60, "pairs that are not independent promote too often"
    assert together.count("promote") <= 0.05 * 60 + 3 * 1.7


def test_blocks_still_promote_a_better_candidate() -> None:
    rule = GateRule(block=8, early_hold=False)
    decision = judge(drawn(0.4, 0.8, 400, 1), rule, 0.05)
    assert (decision.kind, decision.tally.pairs % 8) == ("promote", 0)
    assert decision.log_e >= decision.log_need
