"""The gate: its evidence as theorems, its decisions by example."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.errors import UsageError
from enpire.gate.e_values import log_e
from enpire.gate.gate import (
    GateRule,
    Pair,
    Tally,
    Trial,
    confirm,
    decide,
    judge,
    level,
    pairs_in_order,
    unsafe_allowed,
)
from enpire.types import OutcomeKind

small = st.integers(0, 150)
OUTCOMES: tuple[OutcomeKind, ...] = ("success", "failure", "unsafe", "aborted")


def pair(
    index: int, champion: OutcomeKind, candidate: OutcomeKind, ticks: tuple[int, int] = (60, 60), cause: str = ""
) -> Pair:
    return Pair(
        index=index,
        champion=Trial(pair=index, side="champion", outcome=champion, ticks=ticks[0], cause=cause),
        candidate=Trial(pair=index, side="candidate", outcome=candidate, ticks=ticks[1], cause=cause),
    )


def drawn(champion: float, candidate: float, n: int, seed: int) -> list[Pair]:
    draw = random.Random(seed)
    kinds: list[tuple[OutcomeKind, OutcomeKind]] = [
        ("success" if draw.random() < champion else "failure", "success" if draw.random() < candidate else "failure")
        for _ in range(n)
    ]
    return [pair(i, a, b) for i, (a, b) in enumerate(kinds)]


def test_levels_fall_with_the_gates_and_rise_with_promotions() -> None:
    assert level(0.05, 1, 0) == pytest.approx(0.05 * 6 / math.pi**2)
    assert level(0.05, 3, 1) == pytest.approx(0.05 * 6 / math.pi**2 / 9 * 2)
    assert sum(level(0.05, k, 0) for k in range(1, 5000)) < 0.05
    with pytest.raises(UsageError, match="gates count from 1"):
        level(0.05, 0, 0)


@given(st.integers(1, 200), st.integers(0, 199))
def test_a_level_never_exceeds_alpha(k: int, promoted: int) -> None:
    assert 0 < level(0.05, k, min(promoted, k - 1)) <= 0.05


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


@given(st.lists(st.tuples(st.sampled_from(OUTCOMES), st.sampled_from(OUTCOMES)), max_size=80), st.integers(0, 20))
def test_a_decision_is_the_first_pair_that_decides(kinds: list[tuple[OutcomeKind, OutcomeKind]], extra: int) -> None:
    pairs = [pair(i, a, b) for i, (a, b) in enumerate(kinds)]
    rule = GateRule(pairs=60)
    decision = judge(pairs, rule, 0.05)
    used = decision.tally.pairs
    if decision.final:
        assert judge(pairs[:used], rule, 0.05) == decision
        assert not used or not judge(pairs[: used - 1], rule, 0.05).final
        more = [pair(used + i, "failure", "success") for i in range(extra)]
        assert judge(pairs[:used] + more, rule, 0.05) == decision
    else:
        assert used == len(pairs) < rule.pairs


@given(small, small, small)
def test_swapping_the_sides_swaps_the_decision(wins: int, losses: int, ties: int) -> None:
    rule = GateRule(pairs=1000, early_hold=False)
    tally = Tally(wins=wins, losses=losses, neither=ties)
    swapped = Tally(wins=losses, losses=wins, neither=ties)
    there, back = decide(tally, rule, rule.alpha), decide(swapped, rule, rule.alpha)
    mirror = {"promote": "reject", "reject": "promote"}
    assert back.kind == mirror.get(there.kind, there.kind)
    assert (there.log_e, there.log_e_worse) == (back.log_e_worse, back.log_e)


def test_faster_at_equal_success_is_a_reason_of_its_own() -> None:
    pairs = [pair(i, "success", "success", ticks=(90, 70)) for i in range(400)]
    decision = judge(pairs, GateRule(), 0.05)
    assert (decision.kind, decision.reason) == ("promote", "faster")
    assert decision.low > -GateRule().margin - 0.01
    assert decision.log_e < decision.log_need <= decision.log_e_faster


def test_faster_but_perhaps_worse_is_not_promoted() -> None:
    pairs = [pair(i, "success", "success" if i % 12 else "failure", ticks=(90, 70)) for i in range(100)]
    decision = judge(pairs, GateRule(), 0.05)
    assert (decision.kind, decision.reason) == ("reject", "worse")
    assert judge(pairs[:30], GateRule(), 0.05).kind == "continue"


def test_a_slower_candidate_of_equal_success_is_held() -> None:
    pairs = [pair(i, "success", "success", ticks=(70, 90)) for i in range(400)]
    assert judge(pairs, GateRule(early_hold=False), 0.05).reason == "spent"
    early = judge(pairs, GateRule(), 0.05)
    assert (early.kind, early.reason) == ("hold", "hopeless")
    assert early.tally.pairs < 400


@given(st.lists(st.sampled_from(["win", "loss", "tie"]), min_size=1, max_size=60))
def test_hopeless_means_that_a_perfect_rest_would_not_do(kinds: list[str]) -> None:
    sides: dict[str, tuple[OutcomeKind, OutcomeKind]] = {
        "win": ("failure", "success"), "loss": ("success", "failure"), "tie": ("failure", "failure"),
    }  # fmt: skip
    pairs = [pair(i, *sides[kind]) for i, kind in enumerate(kinds)]
    rule = GateRule(pairs=60)
    decision = judge(pairs, rule, 0.01)
    if decision.reason == "hopeless":
        used = decision.tally.pairs
        rest = [pair(used + i, "failure", "success") for i in range(rule.pairs - used)]
        assert judge(pairs[:used] + rest, replace(rule, early_hold=False), 0.01).kind != "promote"


def test_one_unsafe_more_than_the_champions_bound_rejects_at_once() -> None:
    tally = Tally(both=100)
    allowed = unsafe_allowed(tally, GateRule())
    assert allowed == 3
    assert decide(replace(tally, candidate_unsafe=allowed), GateRule(), 0.05).reason != "unsafe"
    decision = decide(replace(tally, candidate_unsafe=allowed + 1), GateRule(), 0.05)
    assert (decision.kind, decision.reason) == ("reject", "unsafe")
    assert judge([pair(0, "success", "unsafe")], GateRule(), 0.05).reason == "unsafe"


def test_aborted_invalid_and_unknown_ends_are_failures_of_their_side() -> None:
    ends: tuple[OutcomeKind, ...] = ("failure", "unsafe", "aborted", "invalid", "unknown")
    for end in ends:
        tally = Tally().add(pair(0, "success", end)).add(pair(1, end, "success"))
        assert (tally.wins, tally.losses) == (1, 1)


def trial(
    index: int, side: Literal["champion", "candidate"], outcome: OutcomeKind = "success", cause: str = ""
) -> Trial:
    return Trial(pair=index, side=side, outcome=outcome, ticks=60, cause=cause)


def test_pairs_are_read_in_their_own_order_up_to_the_first_gap() -> None:
    trials = [trial(2, "champion"), trial(2, "candidate"), trial(0, "candidate"), trial(1, "champion")]
    assert [one.index for one in pairs_in_order(trials)] == []
    trials.append(trial(0, "champion"))
    assert [one.index for one in pairs_in_order(trials)] == [0]
    trials.append(trial(1, "candidate", "aborted", "station lost"))
    assert [one.index for one in pairs_in_order(trials)] == [0, 1, 2]


@pytest.mark.parametrize("cause", ["released", "released: the station left"])
def test_a_side_that_was_taken_back_is_waited_for_and_given_again(cause: str) -> None:
    trials = [trial(0, "champion", "failure"), trial(0, "candidate", "aborted", cause)]
    trials += [trial(1, "champion"), trial(1, "candidate")]
    assert pairs_in_order(trials) == (), "whoever makes the robot stop does not lose the pairs that it costs"
    trials.append(trial(0, "candidate"))
    assert [one.index for one in pairs_in_order(trials)] == [0, 1]
    assert pairs_in_order(trials)[0].candidate.outcome == "success"


def test_a_trial_counts_once() -> None:
    with pytest.raises(UsageError, match="Pair 3 has two champion trials"):
        pairs_in_order([trial(3, "champion"), trial(3, "champion", "failure")])


def test_about_how_many_more_pairs() -> None:
    decision = decide(Tally(wins=20, losses=8, both=60, neither=12), GateRule(), 0.05)
    assert decision.more is not None
    scale = 1 + decision.more / 100
    assert log_e(round(20 * scale), round(8 * scale)) >= decision.log_need
    assert decide(Tally(wins=5, losses=5, both=90), GateRule(), 0.05).more is None
    assert decide(Tally(wins=40), GateRule(), 0.05).more == 0


@pytest.mark.parametrize("wrong", [{"alpha": 2.0}, {"margin": 0.0}, {"pairs": 0}, {"unsafe_margin": -1}])
def test_a_rule_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="alpha and margin must lie between 0 and 1"):
        replace(GateRule(), **wrong)


def test_a_confirmation_by_rate_and_by_bound() -> None:
    assert confirm(390, 400, 0.97).passed
    assert not confirm(387, 400, 0.97).passed
    assert not confirm(390, 400, 0.97, by="bound").passed
    assert confirm(396, 400, 0.97, by="bound").passed
    assert not confirm(0, 0, 0.0).passed
