"""The arithmetic of studies against `fieldtrial.stats`, and against the enumeration of every sequence of outcomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from fieldtrial.stats import alpha_spending, mcnemar_exact, mcnemar_power, spending_boundaries

from enpire.gate.trials import Pair, Trial
from enpire.study.power import Truth, power
from enpire.study.tests_of_pairs import Design, TestName, least_leads, read, spending


def pairs(outcomes: str) -> list[Pair]:
    """One pair per letter: W (the arm alone succeeds), L (the control alone), B (both), N (neither)."""
    return [
        Pair(
            index=index,
            champion=Trial(pair=index, side="champion", outcome="success" if one in "LB" else "failure", ticks=10),
            candidate=Trial(pair=index, side="candidate", outcome="success" if one in "WB" else "failure", ticks=10),
        )
        for index, one in enumerate(outcomes)
    ]


def design(test: TestName, blocks: int, looks: int = 1, alpha: float = 0.05) -> Design:
    return Design(test=test, blocks=blocks, looks=looks, alpha=alpha)


@pytest.mark.parametrize("discordant", range(40))
def test_one_look_is_the_exact_mcnemar_test(discordant: int) -> None:
    [least] = least_leads((discordant,), (0.025,))
    for wins in range(discordant // 2 + 1, discordant + 1):
        losses = discordant - wins
        assert (wins - losses >= least) == (mcnemar_exact(wins, losses).pvalue <= 0.05), (wins, losses)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("part", [0.1, 0.25, 0.5, 0.9, 1.0])
def test_error_is_spent_as_fieldtrial_spends_it(part: float, alpha: float) -> None:
    assert spending(part, alpha) == pytest.approx(alpha_spending(part, alpha, "obrien_fleming"), rel=1e-6)


def test_with_many_pairs_the_boundaries_are_those_of_the_normal_theory() -> None:
    looks, n = 5, 20_000
    parts = [look / looks for look in range(1, looks + 1)]
    counts = tuple(round(n * part) for part in parts)
    found = least_leads(counts, tuple(spending(part, 0.025) for part in parts))
    expected = spending_boundaries(parts, alpha=0.05, spending="obrien_fleming").boundaries
    for lead, count, boundary in zip(found, counts, expected, strict=True):
        assert lead / math.sqrt(count) == pytest.approx(boundary, abs=0.04)


def ended(steps: Sequence[int], looks: Sequence[int], leads: Sequence[int]) -> bool:
    return any(abs(sum(steps[:look])) >= lead for look, lead in zip(looks, leads, strict=True))


@pytest.mark.parametrize("looks", [(14,), (7, 14), (3, 6, 9, 14), (10, 14), (0, 14), (1, 2, 14)])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_equal_arms_are_called_different_no_more_often_than_planned(looks: tuple[int, ...], alpha: float) -> None:
    """Every one of the 2^14 sequences of discordant pairs, which equal arms give with the same probability."""
    allowed = tuple(spending((number + 1) / len(looks), alpha / 2) for number in range(len(looks)))
    leads = least_leads(looks, allowed)
    share = sum(ended(steps, looks, leads) for steps in product((-1, 1), repeat=14)) / 2**14
    assert share <= alpha
    assert share > 0.2 * alpha, "the test uses its error"


@pytest.mark.parametrize("test", ["anytime", "fixed", "group_sequential"])
def test_power_is_what_every_sequence_of_outcomes_adds_up_to(test: TestName) -> None:
    plan, truth = design(test, 6, looks=2, alpha=0.3), Truth(control=0.2, arm=0.9)
    chances = {"W": truth.win, "L": truth.loss, "B": 1 - truth.win - truth.loss}
    better = worse = blocks = 0.0
    for letters in product(chances, repeat=6):
        chance = math.prod(chances[letter] for letter in letters)
        found = read(pairs("".join(letters)), plan)
        better += chance * (found.answer == "better")
        worse += chance * (found.answer == "worse")
        blocks += chance * found.tally.pairs
    made, within = power(plan, truth), 0.05 if test == "group_sequential" else 1e-9
    assert made.better == pytest.approx(better, abs=within)
    assert made.worse == pytest.approx(worse, abs=within)
    assert made.blocks == pytest.approx(blocks, abs=6 * within)
    assert better > 0.3


@pytest.mark.parametrize(("control", "arm", "n"), [(0.6, 0.8, 60), (0.5, 0.6, 200), (0.9, 0.9, 40), (0.2, 0.1, 25)])
def test_the_power_of_one_look_is_fieldtrials(control: float, arm: float, n: int) -> None:
    truth = Truth(control=control, arm=arm)
    made = power(design("fixed", n), truth)
    assert made.better + made.worse == pytest.approx(mcnemar_power(truth.win, truth.loss, n).power, abs=1e-6)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.95])
def test_the_anytime_test_keeps_its_level_over_all_its_readings(rate: float) -> None:
    made = power(design("anytime", 300), Truth(control=rate, arm=rate))
    assert made.better == pytest.approx(made.worse)
    assert made.better + made.worse <= 0.05


def test_shared_luck_needs_fewer_blocks() -> None:
    alone, alike = (power(design("anytime", 100), Truth(control=0.6, arm=0.8, shared=one)) for one in (0.0, 1.0))
    assert alike.better > alone.better + 0.1
    assert Truth(control=0.6, arm=0.8, shared=1.0).loss == 0.0


def test_a_test_that_ended_does_not_read_later_blocks() -> None:
    plan = design("anytime", 200)
    won = read(pairs("W" * 30), plan)
    assert won.answer == "better"
    at = won.tally.pairs
    assert at < 12
    assert read(pairs("W" * (at - 1)), plan).answer == "open"
    assert read(pairs("W" * at + "L" * 100), plan) == won


@pytest.mark.parametrize("test", ["anytime", "fixed", "group_sequential"])
def test_what_no_test_shows_is_not_called_better(test: TestName) -> None:
    plan = design(test, 12, looks=2)
    assert read(pairs("WBWNBWBB"), plan).answer == "open"
    found = read(pairs("WBWNBWBBWBNB"), plan)
    assert found.answer == "not shown"
    assert found.tally.wins == 4
    assert found.low < 0 < found.high


@pytest.mark.parametrize("test", ["anytime", "fixed", "group_sequential"])
def test_wins_and_losses_are_read_alike(test: TestName) -> None:
    plan = design(test, 12, looks=2)
    better, worse = read(pairs("W" * 12), plan), read(pairs("L" * 12), plan)
    assert (better.answer, worse.answer) == ("better", "worse")
    assert better.evidence == worse.evidence
    assert (better.low, better.high) == pytest.approx((-worse.high, -worse.low))


def test_a_group_sequential_study_is_read_at_its_looks_alone() -> None:
    plan = design("group_sequential", 40, looks=2)
    assert plan.look_blocks == (20, 40)
    assert read(pairs("W" * 19), plan).answer == "open"
    assert read(pairs("W" * 20), plan).answer == "better"
    early, late = least_leads((20, 40), tuple(spending(part, 0.025) for part in (0.5, 1.0)))
    assert early / math.sqrt(20) > late / math.sqrt(40), "an early look needs more"


def test_a_later_look_has_at_most_the_error_that_is_left() -> None:
    one = least_leads((50,), (0.025,))[0]
    leads = least_leads((40, 50), (0.02, 0.025))
    assert leads[1] > one
    assert all(first <= later for first, later in pairwise((one, leads[1])))


def test_where_no_lead_is_enough_no_lead_ends_the_test() -> None:
    assert least_leads((0, 3), (0.0125, 0.025)) == (1, 4)
    assert read(pairs("BBBNNN"), design("fixed", 6)).answer == "not shown"
