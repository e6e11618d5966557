"""The gate: its evidence as theorems, its decisions by example."""

from __future__ import annotations

import math
import random
from dataclasses import asdict, replace
from statistics import median
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.errors import FileProblem, UsageError
from enpire.gate.e_values import log_e
from enpire.gate.gate import GateReader, confirm, decide, judge, rate_to_pass, readings_of, unsafe_allowed
from enpire.gate.intervals import successes_for_bound, wilson
from enpire.gate.regression import lost_success
from enpire.gate.rule import GateRule, level, stored_rule
from enpire.gate.speed import LARGEST, SpeedEvidence
from enpire.gate.trials import Pair, Tally, Trial, pairs_in_order
from enpire.types import OutcomeKind

small = st.integers(0, 150)
Ends = tuple[OutcomeKind, OutcomeKind]
OUTCOMES: tuple[OutcomeKind, ...] = ("success", "failure", "unsafe", "aborted")


def pair(
    index: int, champion: OutcomeKind, candidate: OutcomeKind, ticks: tuple[int, int] = (60, 60), cause: str = ""
) -> Pair:
    return Pair(
        index=index,
        champion=Trial(pair=index, side="champion", outcome=champion, ticks=ticks[0], cause=cause),
        candidate=Trial(pair=index, side="candidate", outcome=candidate, ticks=ticks[1], cause=cause),
    )


def test_levels_fall_with_the_gates_and_rise_with_promotions() -> None:
    assert level(0.05, 1, 0) == pytest.approx(0.05 * 6 / math.pi**2)
    assert level(0.05, 3, 1) == pytest.approx(0.05 * 6 / math.pi**2 / 9 * 2)
    assert sum(level(0.05, k, 0) for k in range(1, 5000)) < 0.05
    with pytest.raises(UsageError, match="gates count from 1"):
        level(0.05, 0, 0)


@given(st.integers(1, 200), st.integers(0, 199))
def test_a_level_never_exceeds_alpha(k: int, promoted: int) -> None:
    assert 0 < level(0.05, k, min(promoted, k - 1)) <= 0.05


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("better", [0.0, 0.25, 0.5])
def test_a_reader_of_a_growing_gate_decides_as_if_it_read_all_pairs(block: int, better: float) -> None:
    draw = random.Random(f"{block} {better}")
    pairs = [
        pair(
            index, "success" if draw.random() < 0.5 else draw.choice(OUTCOMES[1:]),
            "success" if draw.random() < 0.5 + better else draw.choice(OUTCOMES[1:]),
            (draw.randrange(40, 90), draw.randrange(40, 90)),
        )
        for index in range(120)
    ]  # fmt: skip
    rule = GateRule(pairs=100, block=block, unsafe_ceiling=0.5)
    reader, kinds = GateReader(rule, 0.01, drop=0.01), set[str]()
    for end in (0, 1, 2, 7, 8, 8, 30, 50, 51, 99, 120):
        decision = reader.judge(pairs[:end])
        assert decision == judge(pairs[:end], rule, 0.01, drop=0.01)
        kinds.add(decision.kind)
    assert kinds > {"continue"}
    pairs[3] = replace(pairs[3], candidate=replace(pairs[3].candidate, outcome="unsafe"))
    for end in (120, 5, 60):
        assert reader.judge(pairs[:end]) == judge(pairs[:end], rule, 0.01, drop=0.01), "a known pair changed"


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


def test_a_forecast_ends_a_gate_that_goes_nowhere_and_keeps_one_that_may_still_promote() -> None:
    rule = GateRule(pairs=800, forecast_hold=True)
    slow = SpeedEvidence()
    for _ in range(185):
        slow = slow.add(100, 100, rule.least_gain)
    going_nowhere = Tally(wins=5, losses=10, both=185, speed=slow)
    found = decide(going_nowhere, rule, 0.005)
    assert (found.kind, found.reason) == ("hold", "hopeless")
    assert decide(going_nowhere, replace(rule, forecast_hold=False), 0.005).kind == "continue"
    assert decide(Tally(wins=17, losses=4, both=377), rule, 0.005).kind == "continue", "evidence that needs more pairs"
    assert decide(Tally(losses=5, both=44, speed=slow), rule, 0.005).kind == "continue", "too early for a forecast"
    assert decide(Tally(losses=5, both=45, speed=slow), rule, 0.005).kind == "hold"
    for _ in range(60):
        slow = slow.add(160, 100, rule.least_gain)
    assert decide(Tally(wins=3, losses=3, both=240, speed=slow), rule, 0.005).kind == "continue", "it may be faster"


def test_version_1_one_unsafe_more_than_the_champions_bound_rejects_at_once() -> None:
    tally, rule = Tally(both=100), GateRule(version=1)
    allowed = unsafe_allowed(tally, rule)
    assert allowed == 3
    assert decide(replace(tally, candidate_unsafe=allowed), rule, 0.05).reason != "unsafe"
    decision = decide(replace(tally, candidate_unsafe=allowed + 1), rule, 0.05)
    assert (decision.kind, decision.reason) == ("reject", "unsafe")
    assert judge([pair(0, "success", "unsafe")], rule, 0.05).reason == "unsafe"


def test_above_the_ceiling_no_candidate_is_promoted_however_unsafe_the_champion_is() -> None:
    ends = ["unsafe" if i % 4 == 0 else "success" for i in range(200)]
    pairs = [pair(i, "unsafe" if i % 2 else "failure", end) for i, end in enumerate(ends)]  # type: ignore[arg-type]
    assert judge(pairs, GateRule(), 0.05).reason == "unsafe"
    once = [pair(i, "failure", "unsafe" if i == 0 else "success") for i in range(30)]
    assert judge(once, GateRule(), 0.05).tally.pairs == 20, "it waits until 1 of 20 is not above 5 %"
    assert judge(pairs, GateRule(unsafe_ceiling=0.6), 0.05).reason == "better"


def timed(ratios: list[float], champion: int = 1000) -> list[Pair]:
    """Pairs in which both succeed, and the champion needs `ratio` times the ticks of the candidate."""
    return [pair(i, "success", "success", ticks=(champion, round(champion / r))) for i, r in enumerate(ratios)]


def test_a_candidate_that_is_mostly_a_little_faster_and_sometimes_far_slower_is_not_promoted() -> None:
    draw = random.Random(3)
    pairs = timed([1 / 3 if draw.random() < 0.3 else 1.1 for _ in range(400)])
    assert judge(pairs, GateRule(version=1), 0.05).reason == "faster", "version 1 compared signs"
    decision = judge(pairs, GateRule(early_hold=False), 0.05)
    assert decision.kind != "promote"
    assert decision.gain is not None
    assert decision.gain < -0.2


@pytest.mark.parametrize(("ratio", "reason"), [(1.003, "hopeless"), (1.02, "hopeless"), (1.12, "faster")])
def test_a_gain_in_time_counts_above_the_least_gain(ratio: float, reason: str) -> None:
    draw = random.Random(4)
    decision = judge(timed([ratio * math.exp(draw.gauss(0, 0.05)) for _ in range(400)]), GateRule(), 0.05)
    assert decision.reason == reason
    assert decision.gain == pytest.approx(ratio - 1, abs=0.02)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 500)), max_size=40), st.floats(0, 0.5))
def test_evidence_of_speed_is_what_its_definition_says(ticks: list[tuple[int, int]], least_gain: float) -> None:
    evidence = SpeedEvidence()
    for champion, candidate in ticks:
        evidence = evidence.add(champion, candidate, least_gain)
    bound, most = math.log1p(least_gain), math.log(LARGEST)
    found = [max(-most, min(most, math.log(a / b))) for a, b in ticks]
    stakes = [(i + 0.5) / 32 for i in range(32)]
    wealth = [math.prod(1 + stake * (x - bound) / (most + bound) for x in found) for stake in stakes]
    assert evidence.log_e() == pytest.approx(math.log(math.fsum(wealth) / 32), abs=1e-6)
    assert evidence.log_e_at_best(5, least_gain) >= evidence.log_e() - 1e-9


def test_what_the_champion_has_lost_already_is_subtracted_from_the_margin() -> None:
    pairs = timed([1.2] * 400)
    assert judge(pairs, GateRule(), 0.05).reason == "faster"
    assert judge(pairs, GateRule(), 0.05, drop=0.01).kind != "promote"
    assert judge(pairs, GateRule(early_hold=False), 0.05, drop=0.03).reason == "spent"


@pytest.mark.parametrize("version", [2, 3])
def test_a_champion_that_is_not_measured_or_is_the_first_has_lost_nothing(version: int) -> None:
    assert lost_success((990, 1000), [], version) == 0
    assert lost_success((0, 0), [(990, 1000)], version) == 0
    assert lost_success((990, 1000), [(0, 0), (600, 1000)], version) == 0


def test_in_version_2_a_champion_has_lost_what_lies_below_the_best_earlier_lower_bound() -> None:
    assert lost_success((940, 1000), [(500, 1000), (990, 1000)], 2) == pytest.approx(wilson(990, 1000).low - 0.94)
    assert lost_success((985, 1000), [(30, 30)], 2) == 0, "a short lucky measurement sets no threshold"
    assert lost_success((380, 400), [(388, 400)], 2) == 0
    assert lost_success((380, 400), [(399, 400)], 1) == 0


def test_what_was_lost_against_a_single_earlier_champion_is_all_subtracted() -> None:
    assert lost_success((380, 400), [(388, 400)]) == pytest.approx(0.02)
    assert lost_success((940, 1000), [(500, 1000), (990, 1000)]) == pytest.approx(0.05), "the worse one is no rival"


def test_several_earlier_champions_of_equal_success_cost_half_of_the_gates_nothing() -> None:
    draw = random.Random(3)

    def measured(rate: float = 0.97) -> tuple[int, int]:
        return sum(draw.random() < rate for _ in range(400)), 400

    for rivals in (1, 2, 5):
        drops = [lost_success(measured(), [measured() for _ in range(rivals)]) for _ in range(200)]
        assert 0.35 < sum(drop > 0 for drop in drops) / 200 < 0.58, rivals
        assert median(drops) < 0.002
        fallen = [lost_success(measured(0.94), [measured() for _ in range(rivals)]) for _ in range(100)]
        assert median(fallen) > 0.02, "a loss of 3 points is seen as such, less a little where rivals are many"


def test_champions_that_each_lose_a_point_soon_leave_no_margin() -> None:
    counts = [(1552, 1600), (1536, 1600), (1520, 1600)]  # 97, 96, 95 %
    assert lost_success(counts[1], counts[:1]) == pytest.approx(0.01)
    drop = lost_success(counts[2], counts[:2])
    assert drop > 0.015
    assert judge(timed([1.2] * 400), GateRule(), 0.05, drop=drop).kind != "promote"


@pytest.mark.parametrize(
    ("kinds", "vote"),
    [
        ([("failure", "success"), ("success", "success")], (1, 0, 0, 0)),
        ([("success", "failure"), ("failure", "failure")], (0, 1, 0, 0)),
        ([("success", "failure"), ("failure", "success")], (0, 0, 0, 1)),
        ([("success", "success"), ("failure", "failure")], (0, 0, 1, 0)),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
def test_a_block_votes_as_most_of_its_pairs(kinds: list[Ends], vote: tuple[int, ...], version: Literal[3, 4]) -> None:
    ends: list[Ends] = [*kinds, ("failure", "success")]
    pairs = [pair(i, *kind, ticks=(90, 60)) for i, kind in enumerate(ends)]
    readings = readings_of(pairs, GateRule(block=2, early_hold=False, version=version))
    assert [reading.votes.pairs for reading in readings] == [0, 1, 1]
    votes = readings[-1].votes
    assert (votes.wins, votes.losses, votes.both, votes.neither) == vote
    assert votes.faster == vote[2]
    both = vote[2] if version == 3 else ("success", "success") in kinds
    assert votes.speed.pairs == both
    assert votes.speed.total == pytest.approx(both * math.log(1.5), abs=1e-5)
    assert readings[-1].tally.pairs == 3
    won = vote[0] - vote[1]
    assert readings[-1].sums == (() if version == 3 else tuple(int(one == won) for one in range(-2, 3)))


def test_the_time_of_a_block_is_the_mean_of_its_pairs_with_two_successes() -> None:
    ticks = [(90, 60), (90, 45), (90, 10)]
    pairs = [pair(i, "success", "success" if i < 2 else "failure", ticks=ticks[i]) for i in range(3)]
    pairs.append(pair(3, "failure", "success", ticks=(90, 10)))
    votes = readings_of(pairs, GateRule(block=4))[-1].votes
    assert (votes.both, votes.speed.pairs) == (1, 1)
    assert votes.speed.total == pytest.approx((math.log(1.5) + math.log(2)) / 2, abs=1e-5)


def test_the_rule_of_a_campaign_without_settings() -> None:
    assert asdict(GateRule()) == {
        "alpha": 0.05, "pairs": 400, "margin": 0.02, "least_gain": 0.02, "unsafe_ceiling": 0.05, "unsafe_margin": 0,
        "early_hold": True, "forecast_hold": False, "block": 1, "version": 4,
    }  # fmt: skip
    assert GateRule(pairs=1, unsafe_margin=0, least_gain=0.0).pairs == 1
    assert GateRule(pairs=5, block=5).block == 5
    with pytest.raises(UsageError, match="block must lie between 1 and pairs"):
        GateRule(pairs=5, block=6)


def test_a_stored_rule_without_a_version_is_of_version_1() -> None:
    stored = {"alpha": 0.05, "pairs": 400, "margin": 0.02, "unsafe_margin": 0, "early_hold": True}
    assert stored_rule(stored, "here").version == 1
    assert stored_rule(asdict(GateRule()), "here") == GateRule()
    with pytest.raises(FileProblem, match="here has the unknown key 'beta'"):
        stored_rule({"beta": 1}, "here")


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 2.0},
        {"margin": 0.0},
        {"pairs": 0},
        {"unsafe_margin": -1},
        {"unsafe_ceiling": 1.0},
        {"least_gain": 1.0},
        {"block": 0},
    ],
)
def test_a_rule_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="is not valid"):
        replace(GateRule(), **wrong)


def test_a_confirmation_by_rate_and_by_bound() -> None:
    assert confirm(390, 400, 0.97).passed
    assert not confirm(387, 400, 0.97).passed
    assert not confirm(390, 400, 0.97, by="bound").passed
    assert confirm(396, 400, 0.97, by="bound").passed
    assert not confirm(0, 0, 0.0).passed
    assert confirm(1, 1, 0.97).passed


@pytest.mark.parametrize(
    ("n", "goal", "needed"), [(400, 0.95, 388), (400, 0.97, 394), (300, 0.99, 300), (200, 0.99, 201)]
)
def test_the_rate_at_which_a_confirmation_by_bound_passes(n: int, goal: float, needed: int) -> None:
    assert successes_for_bound(n, goal) == needed
    assert rate_to_pass(n, goal, "bound") == needed / n
    assert rate_to_pass(n, goal, "rate") == goal
    assert confirm(needed, n, goal, by="bound").passed if needed <= n else rate_to_pass(n, goal, "bound") > 1
    assert not confirm(needed - 1, n, goal, by="bound").passed
