"""Gates at levels below alpha, and evidence against numbers: what a threshold at the wrong place would change."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.errors import UsageError
from enpire.gate.e_values import difference, log_e, log_e_above, log_e_rate_above, pairs_until
from enpire.gate.gate import decide, judge, unloadable
from enpire.gate.intervals import sequence
from enpire.gate.rule import LEAST_GAIN, GateRule, level
from enpire.gate.speed import SpeedEvidence
from enpire.gate.trials import Pair, Tally, Trial
from enpire.types import OutcomeKind

ALPHA = 0.05
LEVELS = (0.0304, 0.0076, 0.001)
"""The levels of the first and second gate of a campaign at alpha, and one of a late gate."""


def fewest(reached, start: int = 0) -> int:
    """The smallest number for which `reached` holds."""
    return next(number for number in range(start, 2000) if reached(number))


def won(
    index: int, candidate: OutcomeKind = "success", champion: OutcomeKind = "failure", faster: bool = False
) -> Pair:
    return Pair(
        index=index,
        champion=Trial(pair=index, side="champion", outcome=champion, ticks=90),
        candidate=Trial(pair=index, side="candidate", outcome=candidate, ticks=70 if faster else 90),
    )


def gains(pairs: int) -> SpeedEvidence:
    """Evidence of pairs in which the candidate needs 70 ticks instead of 90."""
    evidence = SpeedEvidence()
    for _ in range(pairs):
        evidence = evidence.add(90, 70, LEAST_GAIN)
    return evidence


@pytest.mark.parametrize("at", LEVELS)
def test_a_candidate_is_better_from_the_level_on_and_not_from_alpha(at: float) -> None:
    needed = fewest(lambda wins: log_e(wins, 2) >= -math.log(at))
    assert needed > fewest(lambda wins: log_e(wins, 2) >= -math.log(ALPHA)), "the two thresholds differ here"
    assert decide(Tally(wins=needed, losses=2), GateRule(), at).reason == "better"
    assert decide(Tally(wins=needed - 1, losses=2), GateRule(), at).reason == "undecided"
    assert judge([won(index) for index in range(40)], GateRule(), at).tally.wins == fewest(
        lambda wins: log_e(wins, 0) >= -math.log(at)
    )


@pytest.mark.parametrize("at", LEVELS)
def test_a_candidate_is_worse_from_alpha_on_at_every_level(at: float) -> None:
    needed = fewest(lambda losses: log_e(losses, 2) >= -math.log(ALPHA))
    assert decide(Tally(wins=2, losses=needed), GateRule(), at).reason == "worse"
    assert decide(Tally(wins=2, losses=needed - 1), GateRule(), at).reason == "undecided"


@pytest.mark.parametrize("at", LEVELS)
def test_a_candidate_is_faster_only_with_both_kinds_of_evidence_at_the_level(at: float) -> None:
    rule, need = GateRule(pairs=2000, early_hold=False), -math.log(at)
    speed = fewest(lambda pairs: gains(pairs).log_e() >= need)
    safe = fewest(lambda both: log_e_above(0, 0, both, -rule.margin) >= need)
    assert safe > fewest(lambda both: log_e_above(0, 0, both, -rule.margin) >= -math.log(ALPHA))
    assert safe > speed
    assert decide(Tally(both=safe, speed=gains(speed)), rule, at).reason == "faster"
    assert decide(Tally(both=safe, speed=gains(speed - 1)), rule, at).reason == "undecided"
    assert decide(Tally(both=safe - 1, speed=gains(speed)), rule, at).reason == "undecided"


def test_the_rest_of_the_pairs_shows_that_a_faster_candidate_is_not_worse() -> None:
    rule, level = GateRule(pairs=2000, early_hold=False), 0.01
    faster = gains(300)
    for tally in (Tally(both=60, neither=900, speed=faster), Tally(both=700, neither=260, speed=faster)):
        assert log_e_above(0, 0, 960, -rule.margin) >= -math.log(level)
        assert decide(tally, rule, level).reason == "faster"
    few = Tally(both=60, neither=100, speed=faster)
    assert decide(few, rule, level).reason == "undecided"


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 60), st.integers(0, 30), st.integers(1, 40))
def test_futility_looks_at_the_best_that_can_come(wins: int, losses: int, fast: int, ties: int, left: int) -> None:
    tally = Tally(wins=wins, losses=losses, both=fast, neither=ties, faster=fast, speed=gains(fast))
    for version in (1, 2):
        rule = GateRule(pairs=tally.pairs + left, version=version)  # type: ignore[arg-type]
        need = -math.log(0.01)
        speed = log_e(fast + left, 0) if version == 1 else tally.speed.log_e_at_best(left, rule.least_gain)
        safe = log_e_above(wins + left, losses, fast + ties, -rule.margin)
        can_promote = log_e(wins + left, losses) >= need or (speed >= need and safe >= need)
        undecided = decide(tally, replace(rule, early_hold=False), 0.01).reason == "undecided"
        expected = "undecided" if can_promote else "hopeless"
        assert not undecided or decide(tally, rule, 0.01).reason == expected


def level_of(log_evidence: float) -> float:
    """The level whose threshold is exactly this evidence."""
    level = math.exp(-log_evidence)
    near = [level]
    for _ in range(64):
        near = [math.nextafter(near[0], 0), *near, math.nextafter(near[-1], 1)]
    return next(one for one in near if -math.log(one) == log_evidence)


def test_evidence_that_equals_the_threshold_decides() -> None:
    rule = GateRule(pairs=2000)
    assert decide(Tally(wins=9, losses=1), rule, level_of(log_e(9, 1))).reason == "better"
    worse = replace(rule, alpha=level_of(log_e(9, 1)))
    assert decide(Tally(wins=1, losses=9), worse, 0.01).reason == "worse"
    many, few = log_e_above(0, 0, 900, -rule.margin), gains(14).log_e()
    assert few < many
    assert decide(Tally(both=900, speed=gains(14)), rule, level_of(few)).reason == "faster"
    assert decide(Tally(both=900, speed=gains(200)), rule, level_of(many)).reason == "faster"


@pytest.mark.parametrize("margin", [0.5, 0.9])
def test_pairs_that_can_just_reach_the_threshold_are_waited_for(margin: float) -> None:
    rule = GateRule(version=1, pairs=14, margin=margin)
    slower = Tally(wins=2, losses=1, both=4, slower=4)
    assert decide(slower, rule, level_of(log_e(9, 1))).reason == "undecided"
    rule = replace(rule, pairs=55)
    faster = Tally(losses=5, both=40, faster=40)
    best = min(log_e(50, 0), log_e_above(10, 5, 40, -margin))
    assert log_e(10, 5) < best
    assert decide(faster, rule, level_of(best)).reason == "undecided"


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_a_candidate_is_unsafe_from_half_of_alpha_on(alpha: float) -> None:
    need = math.log(2 / alpha)
    more_often = GateRule(alpha=alpha, pairs=2000, unsafe_ceiling=0.9, early_hold=False)
    needed = fewest(lambda harmed: log_e(harmed, 1) >= need)
    for harmed, reason in ((needed, "unsafe"), (needed - 1, "undecided")):
        tally = Tally(neither=500, candidate_unsafe=harmed, candidate_only_unsafe=harmed, champion_only_unsafe=1)
        assert decide(tally, more_often, 0.01).reason == reason
    above = GateRule(alpha=alpha, pairs=2000, early_hold=False)
    needed = fewest(lambda harmed: log_e_rate_above(harmed, 500, above.unsafe_ceiling) >= need)
    for harmed, reason in ((needed, "unsafe"), (needed - 1, "undecided")):
        tally = Tally(neither=500, champion_unsafe=harmed, candidate_unsafe=harmed)
        assert decide(tally, above, 0.01).reason == reason


def test_version_1_has_no_ceiling() -> None:
    tally = Tally(wins=30, neither=10, champion_unsafe=9, candidate_unsafe=9)
    assert decide(tally, GateRule(version=1), 0.01).reason == "better"
    assert decide(tally, GateRule(version=2), 0.01).kind != "promote"


def test_the_estimate_of_further_pairs_is_the_nearer_of_both_decisions() -> None:
    rule = GateRule(alpha=0.05, pairs=2000)
    assert decide(Tally(wins=8, losses=3, both=50), rule, 0.01).more == pairs_until(8, 3, 61, -math.log(0.01))
    assert decide(Tally(wins=3, losses=8, both=50), rule, 0.001).more == pairs_until(8, 3, 61, -math.log(0.05))
    pairs = [won(i, "success", "failure" if i % 16 < 4 else "success") for i in range(32)]
    blocks = judge(pairs, replace(rule, block=4), 0.01)
    assert blocks.more == 4 * pairs_until(2, 0, 8, -math.log(0.01))


def test_a_candidate_that_no_station_loads_is_held() -> None:
    held = unloadable(decide(Tally(wins=3), GateRule(), 0.01))
    assert (held.kind, held.reason, held.more, held.final) == ("hold", "unloadable", 0, True)
    assert held.tally == Tally(wins=3)


@pytest.mark.parametrize("version", [1, 2])
def test_the_fields_of_the_event(version: Literal[1, 2]) -> None:
    tally = Tally(
        wins=9, losses=4, both=60, neither=7, faster=20, slower=11, champion_unsafe=2, candidate_unsafe=3,
        champion_only_unsafe=1, candidate_only_unsafe=2, speed=gains(5),
    )  # fmt: skip
    decision = decide(tally, GateRule(version=version), 0.01)
    counts = ["wins", "losses", "both", "neither", "faster", "slower", "champion_unsafe", "candidate_unsafe"]
    numbers = ["level", "log_need", "log_e", "log_e_worse", "log_e_faster", "low", "high", "more"]
    expected = {"decision": decision.kind, "reason": decision.reason, "pairs": 80}
    expected |= {name: getattr(tally, name) for name in counts}
    expected |= {name: getattr(decision, name) for name in numbers}
    if version == 2:
        expected |= {"gain": decision.gain, "champion_only_unsafe": 1, "candidate_only_unsafe": 2}
    assert decision.body() == expected


@pytest.mark.parametrize("at", LEVELS)
def test_version_1_counts_how_often_a_candidate_is_faster(at: float) -> None:
    rule, need = GateRule(pairs=2000, early_hold=False, version=1), -math.log(at)
    speed = fewest(lambda faster: log_e(faster, 0) >= need)
    safe = fewest(lambda both: log_e_above(0, 0, both, -rule.margin) >= need)
    assert decide(Tally(both=safe, faster=speed), rule, at).reason == "faster"
    assert decide(Tally(both=safe, faster=speed - 1), rule, at).reason == "undecided"


@pytest.mark.parametrize("at", LEVELS)
def test_a_gate_ends_with_futility_exactly_when_the_rest_cannot_reach_the_level(at: float) -> None:
    rule, need = GateRule(pairs=100), -math.log(at)
    left = fewest(lambda wins: log_e(wins, 0) >= need)
    ties = rule.pairs - left
    assert decide(Tally(neither=ties), rule, at).reason == "undecided", "winning all that are left would do"
    assert decide(Tally(neither=ties + 1), rule, at).reason == "hopeless"
    assert decide(Tally(neither=rule.pairs), rule, at).reason == "spent"


@pytest.mark.parametrize("at", LEVELS)
def test_a_decision_names_the_threshold_and_the_evidence_that_it_was_taken_with(at: float) -> None:
    tally = Tally(wins=9, losses=4, both=60, neither=7, faster=20, slower=11, speed=gains(5))
    decision = decide(tally, GateRule(), at)
    assert (decision.level, decision.log_need) == (at, pytest.approx(math.log(1 / at)))
    assert (decision.log_e, decision.log_e_worse) == (log_e(9, 4), log_e(4, 9))
    assert (decision.log_e_faster, decision.gain) == (gains(5).log_e(), pytest.approx(90 / 70 - 1))
    before = decide(tally, GateRule(version=1), at)
    assert (before.log_e_faster, before.gain) == (log_e(20, 11), None)
    assert (decision.low, decision.high) == difference(9, 4, 67, 0.95), "the interval is at alpha, not at the level"
    assert decide(tally, GateRule(alpha=0.2), at).low == difference(9, 4, 67, 0.8)[0]
    assert decision.more is not None
    scale = 1 + decision.more / tally.pairs
    assert log_e(round(9 * scale), round(4 * scale)) >= math.log(1 / at)
    less = 1 + (decision.more - 1) / tally.pairs
    assert log_e(round(9 * less), round(4 * less)) < math.log(1 / at)


def test_the_error_of_the_confidence_sequence_is_shared_by_its_two_ends() -> None:
    for wins, losses, ties in [(12, 3, 40), (3, 12, 40), (0, 0, 25), (200, 90, 10)]:
        for confidence in (0.95, 0.8):
            low, high = difference(wins, losses, ties, confidence)
            need = math.log(2 / (1 - confidence))
            assert log_e_above(wins, losses, ties, low) == pytest.approx(need, abs=1e-6)
            assert log_e_above(losses, wins, ties, -high) == pytest.approx(need, abs=1e-6)


def test_the_sequence_of_a_rate_ends_where_the_likelihood_has_lost_its_share() -> None:
    for successes, n, confidence in [(7, 20, 0.95), (150, 160, 0.95), (3, 9, 0.8)]:
        interval, failures = sequence(successes, n, confidence), n - successes
        mean = math.lgamma(successes + 1) + math.lgamma(failures + 1) - math.lgamma(n + 2)
        for rate in (interval.low, interval.high):
            found = successes * math.log(rate) + failures * math.log1p(-rate)
            assert found == pytest.approx(math.log(1 - confidence) + mean, abs=1e-6)


@pytest.mark.parametrize(
    ("k", "promoted", "share"), [(1, 0, 1.0), (2, 0, 1 / 4), (2, 1, 2 / 4), (3, 2, 3 / 9), (7, 3, 4 / 49)]
)
def test_the_level_of_a_gate(k: int, promoted: int, share: float) -> None:
    assert level(ALPHA, k, promoted) == pytest.approx(ALPHA * 6 / math.pi**2 * share)


@pytest.mark.parametrize(("k", "promoted"), [(0, 0), (1, 1), (3, 3), (2, -1)])
def test_a_gate_that_cannot_be_has_no_level(k: int, promoted: int) -> None:
    with pytest.raises(UsageError, match="each promotes at most once"):
        level(ALPHA, k, promoted)
