"""Which windows scale HABC's gate and set the time of a typical success, and the gate when V_e diverged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, SOURCE_POLICY, FloatArray
from policies.habc.learner import collect_round_data, evaluate_critics
from policies.habc.segments import Part, Windows
from policies.habc.settings import HabcSettings
from policies.habc.train import CriticTraining, critic_data, new_critics
from policies.habc.weights import Advantages, ExchangeRate, GateForm, WeightRule, actor_weights, gate, gated
from policies.normalise import Scale
from policies.training_data import RecordedEpisode
from tests.policies.recorded import driven, episode

OWN = [SOURCE_POLICY] * 16
RESCUED = [SOURCE_POLICY] * 40 + [SOURCE_HUMAN] * 40
RULES = [
    WeightRule(reweight_interventions=ir, partition=partition) for ir in (False, True) for partition in (True, False)
]


def untrained(episodes: list[RecordedEpisode], **settings: object) -> CriticTraining:
    chosen = replace(HabcSettings(stride=4, execute=4), **settings)
    data = collect_round_data(episodes, chosen)
    scale = Scale.of(data.windows.state)
    training = critic_data(data.windows, chosen, scale, data.kappa, ~data.held_out)
    return CriticTraining(new_critics(data.windows, chosen, 3), training, chosen, 3)


def supervised() -> list[RecordedEpisode]:
    handed_back = [*RESCUED, *OWN]
    return [
        episode([SOURCE_EXPERT] * 24, True, seed=1),
        *(episode(OWN, seed % 3 > 0, seed=seed) for seed in range(2, 12)),
        *(episode(RESCUED, True, seed=seed) for seed in range(12, 20)),
        episode(handed_back, True, seed=20),
        episode(handed_back, False, seed=21),
    ]


def unsupervised() -> list[RecordedEpisode]:
    own = [replace(driven(seed, expert=False, round_=1), order_id=f"own{seed}") for seed in range(40)]
    stopped = replace(driven(50, expert=False, round_=1), success=False, stopped=True)
    return [*(driven(seed, expert=True) for seed in range(60, 66)), *own, stopped]


def found_at(windows: Windows) -> Advantages:
    """Advantages drawn at random, far from 0 before interventions."""
    random = np.random.default_rng(5)
    before = windows.part == Part.BEFORE_INTERVENTION
    return Advantages(
        viability=random.uniform(0.3, 0.95, len(windows)).astype(np.float32),
        viability_advantage=np.where(before, -1, random.normal(0, 0.2, len(windows))).astype(np.float32),
        efficiency_advantage=random.normal(0, 0.5, len(windows)).astype(np.float32),
    )


def mean_square(training: CriticTraining, found: Advantages, rows: np.ndarray) -> float:
    return float(np.square(training.exchange_rate.argument(found)[rows], dtype=np.float64).mean())


@pytest.mark.parametrize("rule", RULES)
def test_the_gate_weights_the_windows_that_it_scales_itself_to(rule: WeightRule) -> None:
    training = untrained(supervised(), gate="exchange")
    windows = training.data.windows
    shut, half = (actor_weights(windows, np.full(len(windows), g, np.float32), rule) for g in (0.0, 0.5))
    np.testing.assert_array_equal(gated(windows, rule), shut != half)
    found = found_at(windows)
    training.update_gates(found, rule)
    assert mean_square(training, found, shut != half) == pytest.approx(2.0**2, rel=1e-3)


def test_windows_before_an_intervention_do_not_widen_the_spread() -> None:
    training = untrained(supervised(), gate="exchange")
    windows = training.data.windows
    assert (windows.success & (windows.part == Part.BEFORE_INTERVENTION)).sum() > 80
    found = found_at(windows)
    training.update_gates(found, WeightRule())
    narrow = training.exchange_rate.spread
    training.update_gates(found, WeightRule(partition=False))
    assert training.exchange_rate.spread > 2 * narrow


def test_a_success_that_an_operator_finished_is_not_the_time_of_a_typical_success() -> None:
    episodes = supervised()
    assert untrained(episodes).exchange_rate.typical_decisions == 4
    operators = [item for item in episodes if item.touched or item.demonstration]
    training = untrained(operators)
    assert training.exchange_rate.typical_decisions == training.critics.shape.horizon_decisions == 24


def test_without_supervision_the_gate_is_that_of_the_published_tables_to_the_bit() -> None:
    """They were made while all windows of the policy's successful episodes scaled the gate and set T."""
    training = untrained(unsupervised(), gate="exchange", bootstrap=1.0)
    windows, found = training.data.windows, found_at(training.data.windows)
    assert (windows.part == Part.BEFORE_STOP).any()
    own = windows.policy & windows.success
    lengths = windows.length[own & (windows.tick == 0)]
    assert training.exchange_rate.typical_decisions == float(np.median(lengths))
    starts = windows.policy & (windows.tick == 0)
    rate = ExchangeRate(
        time_value=6.0,
        typical_decisions=float(np.median(lengths)),
        success_rate=float(found.viability[starts].mean()),
    ).scaled_to(found.at(own))
    for rule in RULES:
        training.update_gates(found, rule)
        assert training.exchange_rate == rate
        weights = actor_weights(windows, training.gates, rule)
        assert weights.tobytes() == earlier_weights(windows, gate(found, "exchange", rate), rule).tobytes()


def earlier_weights(windows: Windows, gates: FloatArray, rule: WeightRule) -> FloatArray:
    """The table of weights as it was written before `gated`."""
    own = np.isin(windows.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION)) if rule.partition else windows.policy
    weights = np.where(own & windows.success, gates, 0)
    weights = np.where(windows.part == Part.INTERVENTION, gates if rule.reweight_interventions else 1, weights)
    return np.where(windows.demonstration, 1, weights).astype(np.float32)


@pytest.mark.parametrize("rule", RULES)
def test_the_table_of_weights_is_as_before_under_supervision(rule: WeightRule) -> None:
    windows = untrained(supervised()).data.windows
    gates = np.random.default_rng(1).uniform(0.1, 1.9, len(windows)).astype(np.float32)
    assert actor_weights(windows, gates, rule).tobytes() == earlier_weights(windows, gates, rule).tobytes()


@pytest.mark.parametrize(
    ("form", "after"),
    [
        ("soft", "damped_viability"),
        ("exchange", "exchange"),
        ("fixed", "viability"),
        ("hard", "viability"),
        ("viability", "viability"),
        ("damped_viability", "damped_viability"),
        ("off", "off"),
    ],
)
def test_a_gate_that_ignores_time_depends_on_viability_alone(form: GateForm, after: GateForm) -> None:
    training = untrained(unsupervised(), gate=form)
    found = found_at(training.data.windows)
    hasty = replace(found, efficiency_advantage=found.efficiency_advantage + 3)
    training.update_gates(found, WeightRule())
    timed = training.gates
    training.update_gates(hasty, WeightRule())
    uses_time = bool((training.gates != timed).any())
    assert uses_time == (form in ("soft", "exchange", "fixed", "hard"))
    training.ignore_time()
    assert training.gate_form == after
    training.update_gates(found, WeightRule())
    without = training.gates
    training.update_gates(hasty, WeightRule())
    assert training.gates.tobytes() == without.tobytes()
    assert uses_time or without.tobytes() == timed.tobytes(), "a gate that does not use time stays as it is"


def test_a_diverged_v_e_leaves_a_gate_without_time_as_it_is() -> None:
    literal = {"efficiency_unit": "decision", "bounded_efficiency": False, "critic_learning_rate": 0.03}
    training = untrained(unsupervised(), gate="damped_viability", critic_steps=5, **literal)
    while training.done < 5:
        training.train_step()
    data = collect_round_data(unsupervised(), training.settings)
    metrics, _ = evaluate_critics(data, training, np.ones(2, np.float32), 1)
    assert metrics["efficiency_sound"] == 0
    expected, undamped = (gate(training.scaled_advantages(), form) for form in ("damped_viability", "viability"))
    assert training.gates.tobytes() == expected.tobytes()
    assert (expected != undamped).any()
