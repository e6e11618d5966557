"""With blocks, a faster candidate's loss in success is tested on the mean of each block, not on its vote."""

from __future__ import annotations

import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.gate.e_values import log_e_above, log_e_mean_above
from enpire.gate.gate import judge, least_pairs, readings_of
from enpire.gate.rule import GateRule, level
from enpire.gate.trials import Pair, Trial
from enpire.types import OutcomeKind

LEVEL = level(0.05, 1, 0)
BLOCK = 8
BETS = [(bet + 0.5) / 64 for bet in range(64)]
counts = st.lists(st.integers(0, 40), min_size=5, max_size=5).map(tuple)


def gate(signs: list[int], candidate_ticks: int = 60) -> list[Pair]:
    """Pairs in which the candidate alone succeeds (1), the champion alone (-1), or both (0)."""
    ends: dict[int, tuple[OutcomeKind, OutcomeKind]] = {
        1: ("failure", "success"), -1: ("success", "failure"), 0: ("success", "success"),
    }  # fmt: skip
    return [
        Pair(
            index=i,
            champion=Trial(pair=i, side="champion", outcome=ends[sign][0], ticks=100),
            candidate=Trial(pair=i, side="candidate", outcome=ends[sign][1], ticks=candidate_ticks),
        )
        for i, sign in enumerate(signs)
    ]  # fmt: skip


def few_lone_failures(blocks: int) -> list[int]:
    """Each side alone fails in 1 of 40 pairs: in every fifth block, at different times."""
    return [{3: 1, 20: -1}.get(i % 40, 0) for i in range(blocks * BLOCK)]


@pytest.mark.parametrize(("version", "kind"), [(3, "hold"), (4, "promote")])
def test_a_faster_candidate_with_a_few_failures_is_promoted_by_the_means_of_blocks(
    version: Literal[3, 4], kind: str
) -> None:
    rule = GateRule(block=BLOCK, pairs=2400, version=version, early_hold=False)
    found = judge(gate(few_lone_failures(300)), rule, LEVEL)
    assert (found.kind, found.reason) == ((kind, "faster") if kind == "promote" else (kind, "spent"))
    assert found.tally.pairs % BLOCK == 0


@pytest.mark.parametrize("block", [1, BLOCK])
@pytest.mark.parametrize("version", [3, 4])
def test_the_least_pairs_are_those_of_a_candidate_that_never_fails_alone(block: int, version: Literal[3, 4]) -> None:
    rule = GateRule(block=block, pairs=4000, version=version, early_hold=False)
    least = least_pairs(rule, LEVEL)
    assert least % block == 0
    assert least >= block * math.log(1 / LEVEL) / -math.log1p(-rule.margin), "no test of a margin needs fewer votes"
    found = judge(gate([0] * (least + block)), rule, LEVEL)
    assert (found.reason, found.tally.pairs) == ("faster", least)
    assert judge(gate([0] * (least - 1)), rule, LEVEL).kind == "continue"


def test_a_candidate_that_loses_the_margin_is_not_promoted_for_its_speed() -> None:
    lost = [-1 if i % 50 == 7 else 0 for i in range(2400)]  # 2 points, in whole blocks and alone
    at_once = [-1 if i % 400 < BLOCK else 0 for i in range(2400)]
    for signs in (lost, at_once):
        rule = GateRule(block=BLOCK, pairs=2400, alpha=0.001, early_hold=False)
        assert judge(gate(signs), rule, 0.05).reason in ("spent", "worse")
    no_margin = judge(gate([0] * 2400), GateRule(block=BLOCK, pairs=2400, early_hold=False), LEVEL, drop=0.02)
    assert no_margin.reason == "spent"


@given(counts, st.floats(-0.9, 0.9))
def test_evidence_of_blocks_is_the_mean_wealth_of_its_bets_and_half_of_it_has_the_largest(
    sums: tuple[int, ...], bound: float
) -> None:
    means = (-1, -0.5, 0, 0.5, 1)
    logs = [
        sum(count * math.log(1 + bet * (x - bound) / (1 + bound)) for count, x in zip(sums, means, strict=True))
        for bet in BETS
    ]
    top = max(logs)
    wealth = math.fsum(math.exp(one - top) for one in logs) / 64 / 2 + math.exp(logs[-1] - top) / 2
    assert log_e_mean_above(sums, bound) == pytest.approx(top + math.log(wealth), abs=1e-7)


@given(counts, st.floats(-0.9, 0.9), st.integers(0, 4), st.integers(0, 4))
def test_a_block_whose_mean_is_the_bound_on_average_leaves_the_wealth_as_it_is(
    sums: tuple[int, ...], bound: float, below: int, above: int
) -> None:
    """Every distribution with this mean is a mixture of pairs of values, one below and one above the bound."""
    means = (-1, -0.5, 0, 0.5, 1)
    if not means[below] < bound < means[above]:
        return
    share = (bound - means[below]) / (means[above] - means[below])
    now = log_e_mean_above(sums, bound)

    def after(index: int) -> float:
        more = tuple(count + (i == index) for i, count in enumerate(sums))
        return math.exp(log_e_mean_above(more, bound) - now)

    assert share * after(above) + (1 - share) * after(below) == pytest.approx(1, rel=1e-6)


def test_blocks_of_one_pair_are_tested_as_pairs() -> None:
    bets = log_e_above(3, 5, 40, -0.02)
    assert log_e_mean_above((5, 40, 3), -0.02) >= bets - math.log(2)
    assert readings_of(gate([0, 1, -1]), GateRule())[-1].sums == ()


@pytest.mark.parametrize(("version", "pairs"), [(3, 104), (4, 56)])
def test_the_first_forecast_comes_after_50_pairs(version: Literal[3, 4], pairs: int) -> None:
    """Version 3 waited for 50 votes, 400 pairs: with so few pairs, only the best that can come ended the gate."""
    rule = GateRule(block=BLOCK, pairs=160, forecast_hold=True, version=version)
    nowhere = judge(gate([0] * 160, candidate_ticks=100), rule, LEVEL)
    assert (nowhere.reason, nowhere.tally.pairs) == ("hopeless", pairs)


def test_a_forecast_keeps_a_gate_that_may_still_promote() -> None:
    rule = GateRule(block=BLOCK, pairs=2400, forecast_hold=True)
    assert judge(gate(few_lone_failures(300)), rule, LEVEL).reason == "faster"
    short = GateRule(block=BLOCK, pairs=1200, forecast_hold=True)
    assert judge(gate(few_lone_failures(150)), short, LEVEL).reason == "hopeless"
