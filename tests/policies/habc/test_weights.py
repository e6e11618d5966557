"""The gate's limits and the table of weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, SOURCE_POLICY
from policies.habc.segments import Part, Windows, WindowSpec, cut
from policies.habc.weights import (
    LARGEST_VISIT,
    Advantages,
    ExchangeRate,
    WeightRule,
    actor_weights,
    effective_sample_share,
    gate,
    normalised,
    visit_weights,
)
from tests.policies.recorded import episode

HOW = WindowSpec(horizon=8, execute=4, stride=4)


def said(p: float, gain: float, speed: float) -> Advantages:
    return Advantages(
        viability=np.array([p], np.float32),
        viability_advantage=np.array([gain], np.float32),
        efficiency_advantage=np.array([speed], np.float32),
    )


@given(st.floats(0, 1), st.floats(-100, 100), st.floats(-100, 100))
def test_the_gate_stays_inside_its_open_interval(p: float, gain: float, speed: float) -> None:
    g = gate(said(p, gain, speed))[0]
    assert 0 < g < 2


def test_the_gate_is_one_at_zero_advantages() -> None:
    assert gate(said(0.3, 0, 0))[0] == 1


@given(st.floats(0, 1, width=32), st.floats(-4, 4, width=32), st.floats(-4, 4, width=32))
def test_the_gate_mixes_the_advantages_by_the_probability_of_success(p: float, gain: float, speed: float) -> None:
    advantages = said(p, gain, speed)
    assert advantages.mixed.dtype == np.float32
    assert gate(advantages)[0] == pytest.approx(1 + np.tanh((1 - p) * gain + p * speed), abs=1e-5)


def test_the_gate_is_clipped_at_eight() -> None:
    assert gate(said(0.0, 50.0, 0.0))[0] == np.float32(1 + np.tanh(np.float32(8)))
    assert gate(said(0.0, -50.0, 0.0))[0] == np.float32(1 + np.tanh(np.float32(-8)))


@pytest.mark.parametrize(("gain", "expected"), [(1e-3, 2), (0.5, 2), (0.0, 0), (-1e-3, 0)])
def test_the_hard_gate_is_two_above_zero(gain: float, expected: int) -> None:
    hard = gate(said(0.0, gain, 0.0), "hard")
    assert (hard.dtype, hard[0]) == (np.float32, expected)


def test_the_gates_two_limits() -> None:
    # p -> 0: only viability counts; p -> 1: only efficiency.
    assert gate(said(0.0, 0.7, -50))[0] == pytest.approx(1 + np.tanh(0.7))
    assert gate(said(1.0, -50, 0.7))[0] == pytest.approx(1 + np.tanh(0.7))


@given(st.floats(0.01, 0.99), st.floats(-3, 3), st.floats(-3, 3), st.floats(0.01, 1))
def test_the_gate_rises_with_both_advantages(p: float, gain: float, speed: float, more: float) -> None:
    here = gate(said(p, gain, speed))[0]
    assert gate(said(p, gain + more, speed))[0] >= here
    assert gate(said(p, gain, speed + more))[0] >= here


def test_the_gate_is_finite_for_logits_of_fifty() -> None:
    rate = ExchangeRate(time_value=1.0, typical_decisions=20.0)
    for gain in (-50.0, 50.0):
        assert np.isfinite(gate(said(1e-22, gain, gain))[0])
        for p in (0.0, 1e-22, 1.0):
            assert 0 < gate(said(p, gain, gain), "exchange", rate)[0] < 2


def test_the_other_forms_of_the_gate() -> None:
    one = said(0.9, 2.0, -1.0)
    assert gate(one, "viability")[0] == pytest.approx(1 + np.tanh(2.0))
    assert gate(one, "damped_viability")[0] == pytest.approx(1 + np.tanh(0.2))
    assert gate(one, "fixed")[0] == pytest.approx(1 + np.tanh(0.5))
    assert gate(one, "hard")[0] == 0
    assert gate(one, "off")[0] == 1


def logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


def exchanged(p: float, later: float, saved: float, rate: ExchangeRate) -> float:
    """The gain of a step from p_v `p` to `later` that saves decisions, in nats."""
    return float(rate.gain(said(p, logit(later) - logit(p), saved))[0])


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_the_exchange_gate_measures_success_in_log_p_v(p: float, later: float) -> None:
    rate = ExchangeRate(time_value=0.0, typical_decisions=20.0)
    assert exchanged(p, later, 5.0, rate) == pytest.approx(np.log(later / p), abs=1e-4)


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(-5, 5), st.sampled_from([0.5, 2.0, 4.0]))
def test_the_rate_between_success_and_time_does_not_depend_on_the_length_of_a_decision(
    p: float, later: float, saved: float, factor: float
) -> None:
    one = exchanged(p, later, saved, ExchangeRate(time_value=1.0, typical_decisions=20.0))
    other = exchanged(p, later, factor * saved, ExchangeRate(time_value=1.0, typical_decisions=factor * 20.0))
    assert other == pytest.approx(one, abs=1e-5)


def test_the_time_of_a_typical_success_is_worth_what_the_recipe_says() -> None:
    rate = ExchangeRate(time_value=0.7, typical_decisions=20.0)
    assert exchanged(0.9999, 0.9999, 20.0, rate) == pytest.approx(0.7, abs=1e-3)


def test_time_counts_only_where_success_is_likely() -> None:
    rate = ExchangeRate(time_value=1.0, typical_decisions=20.0)
    assert exchanged(0.95, 0.95, 4.0, rate) > 0.15
    assert 0 < exchanged(0.3, 0.3, 4.0, rate) < 0.01


def test_time_counts_only_once_the_policy_is_likely_to_succeed() -> None:
    often, seldom = (ExchangeRate(time_value=1.0, typical_decisions=20.0, success_rate=rate) for rate in (0.9, 0.5))
    assert exchanged(0.95, 0.95, 4.0, often) == pytest.approx(0.2 * (0.9 * 0.95) ** 4, rel=1e-3)
    assert exchanged(0.95, 0.95, 4.0, seldom) == pytest.approx(0.2 * (0.5 * 0.95) ** 4, rel=1e-3)
    assert exchanged(0.95, 0.5, 0.0, seldom) == exchanged(0.95, 0.5, 0.0, often), "success counts as ever"


def test_haste_that_lowers_the_probability_of_success_is_not_imitated_more() -> None:
    rate = ExchangeRate(time_value=1.0, typical_decisions=20.0)
    hasty = said(0.95, logit(0.6) - logit(0.95), 4.0)
    assert gate(hasty, "exchange", rate)[0] < 1
    assert gate(hasty, "soft")[0] > 1.99, "the paper's gate takes four decisions for 0.35 of success"


def test_the_exchange_gate_scales_itself_to_the_windows() -> None:
    random = np.random.default_rng(3)
    found = Advantages(
        viability=random.uniform(0.2, 0.9, 500).astype(np.float32),
        viability_advantage=random.normal(0, 0.01, 500).astype(np.float32),
        efficiency_advantage=random.normal(0, 0.1, 500).astype(np.float32),
    )
    rate = ExchangeRate(time_value=1.0, typical_decisions=20.0).scaled_to(found)
    assert np.square(rate.argument(found)).mean() == pytest.approx(2.0**2, rel=1e-3), "there g is 1.96 or 0.04"
    still = said(0.5, 0.0, 0.0)
    assert gate(still, "exchange", ExchangeRate(time_value=1.0, typical_decisions=20.0).scaled_to(still))[0] == 1


def mixed() -> Windows:
    policy, human = [SOURCE_POLICY] * 16, [SOURCE_HUMAN] * 16
    return cut(
        [
            episode([SOURCE_EXPERT] * 24, True, seed=1),
            episode(policy, True, seed=2),
            episode(policy, False, seed=3),
            episode([*policy, *human, *policy], True, seed=4),
            episode([*policy, *human, *policy], False, seed=5),
            replace(episode(policy, False, seed=6), stopped=True),
        ],
        HOW,
    )


def test_the_table_of_weights() -> None:
    windows = mixed()
    gates = np.random.default_rng(0).uniform(0.1, 1.9, len(windows)).astype(np.float32)
    weights = actor_weights(windows, gates, WeightRule())
    own = np.isin(windows.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION))
    assert (weights[windows.demonstration] == 1).all()
    np.testing.assert_array_equal(weights[own & windows.success], gates[own & windows.success])
    assert (weights[own & ~windows.success] == 0).all()
    assert (weights[np.isin(windows.part, (Part.BEFORE_INTERVENTION, Part.BEFORE_STOP))] == 0).all()
    assert (weights[windows.part == Part.INTERVENTION] == 1).all()
    assert set(windows.part) == set(Part)


def test_the_weights_of_a_rule_without_partition_differ_only_before_interventions() -> None:
    windows = mixed()
    gates = np.random.default_rng(1).uniform(0.1, 1.9, len(windows)).astype(np.float32)
    own, naive = (actor_weights(windows, gates, WeightRule(partition=partition)) for partition in (True, False))
    before = windows.part == Part.BEFORE_INTERVENTION
    np.testing.assert_array_equal(naive[before], np.where(windows.success, gates, 0)[before])
    np.testing.assert_array_equal(naive[~before], own[~before])
    assert WeightRule() == WeightRule(reweight_interventions=False, partition=True)
    assert own.dtype == naive.dtype == np.float32


def test_reweighting_changes_intervention_rows_only() -> None:
    windows = mixed()
    gates = np.full(len(windows), 0.5, np.float32)
    plain = actor_weights(windows, gates, WeightRule())
    weighed = actor_weights(windows, gates, WeightRule(reweight_interventions=True))
    np.testing.assert_array_equal(plain != weighed, windows.part == Part.INTERVENTION)


def test_naive_labels_let_the_frames_before_an_intervention_count() -> None:
    windows = mixed()
    gates = np.full(len(windows), 0.5, np.float32)
    naive = actor_weights(windows, gates, WeightRule(partition=False))
    before = (windows.part == Part.BEFORE_INTERVENTION) & windows.success
    assert (naive[before] == 0.5).all()


@given(st.lists(st.tuples(st.floats(0, 2), st.booleans()), min_size=1, max_size=40))
def test_minibatch_weights_have_mean_one_over_the_valid_set(rows: list[tuple[float, bool]]) -> None:
    raw = np.array([weight for weight, _ in rows], np.float32)
    taught = np.array([demonstration for _, demonstration in rows])
    scaled = normalised(raw, taught)
    valid = ~taught & (raw > 1e-6)
    if valid.any() and (raw[~taught & (raw > 0)] > 1e-6).all():
        assert scaled[valid].mean() == pytest.approx(1, rel=1e-4)
    np.testing.assert_array_equal(scaled[taught], raw[taught])
    assert (scaled[~taught & (raw == 0)] == 0).all()


def test_only_weights_above_zero_without_demonstrations_are_scaled() -> None:
    weights = np.array([0.0, 0.5, 1.5, 4.0, 7.0], np.float32)
    scaled = normalised(weights, np.array([False, False, False, False, True]))
    assert scaled.tolist() == [0.0, 0.25, 0.75, 2.0, 7.0]
    assert scaled.dtype == np.float32


def test_a_batch_of_failures_gives_no_nan() -> None:
    zeros = np.zeros(8, np.float32)
    np.testing.assert_array_equal(normalised(zeros, np.zeros(8, np.bool_)), zeros)


def test_weights_of_one_pass_through_to_the_bit() -> None:
    ones = np.ones(256, np.float32)
    np.testing.assert_array_equal(normalised(ones, np.zeros(256, np.bool_)), ones)


def test_visit_weights_give_successes_the_states_of_all_rollouts() -> None:
    """Of a state with p_v = 0.1 a tenth of the visits is in successes; weighted, it counts as often as visited."""
    visits, p = np.array([600, 400]), np.array([0.9, 0.1], np.float32)
    of_successes = np.rint(visits * p).astype(int)
    viability = np.repeat(p, of_successes)
    weights = visit_weights(viability, np.ones(len(viability), np.bool_))
    shares = np.array([weights[viability == one].sum() for one in p]) / weights.sum()
    np.testing.assert_allclose(shares, visits / visits.sum(), rtol=1e-5)
    assert weights.mean() == pytest.approx(1, rel=1e-5)


def test_visit_weights_are_limited_and_leave_other_windows_alone() -> None:
    p = np.array([0.0, 0.01, 1 / LARGEST_VISIT, 1.0, 0.5, 0.001], np.float32)
    own = np.array([True, True, True, True, False, False])
    weights = visit_weights(p, own)
    assert weights[0] == weights[1] == pytest.approx(weights[2], rel=1e-5) == pytest.approx(20 * weights[3], rel=1e-5)
    assert (weights[~own] == 1).all()
    assert (visit_weights(p, np.zeros(6, np.bool_)) == 1).all()


def test_the_effective_share() -> None:
    assert effective_sample_share(np.ones(5, np.float32)) == pytest.approx(1)
    assert effective_sample_share(np.array([1, 1e-6], np.float32)) == pytest.approx(0.5, abs=1e-3)
    assert effective_sample_share(np.zeros(3, np.float32)) == 0
    assert effective_sample_share(np.array([0, 0, 1, 3], np.float32)) == pytest.approx(0.8)
    assert replace(said(0.5, 0, 0)).viability[0] == 0.5
