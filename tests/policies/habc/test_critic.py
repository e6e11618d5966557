"""The critics against closed forms, their gradients, and the guard that the literal loss must trip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from enpire.campaign.recipe import read_recipe
from enpire.files import parse
from enpire.types import SOURCE_HUMAN, SOURCE_POLICY
from policies.flow_network import weighted_loss
from policies.habc.critic import (
    Critics,
    CriticShape,
    Transitions,
    efficiency_gradient,
    efficiency_targets,
    viability_gradient,
)
from policies.habc.diagnostics import calibration_error
from policies.habc.labels import label_weights, labels_supervised, true_weights
from policies.habc.segments import Part, WindowSpec, cut, interception_rate, viability_labels
from policies.habc.settings import HabcSettings
from policies.habc.train import CriticTraining, critic_data, new_critics
from policies.habc.weights import Advantages, WeightRule
from policies.normalise import Scale
from tests.policies.habc.chain import GOOD, SLOW, Chain
from tests.policies.recorded import episode

PLAIN: dict[str, object] = {
    "stride": 1,
    "execute": 1,
    "horizon": 1,
    "multi_step": 1,
    "critic_frequencies": 0,
    "critic_hidden": 32,
    "critic_batch": 1024,
    "critic_learning_rate": 5e-3,
    "label_smoothing": 0.0,
    "balance_length": False,
    "label_ends": False,
}

LITERAL = {"efficiency_unit": "decision", "bounded_efficiency": False}


def trained(chain: Chain, seed: int, episodes: int, **settings: object) -> tuple[CriticTraining, np.ndarray]:
    torch.set_num_threads(1)
    chosen = parse(HabcSettings, PLAIN | settings, "the test")
    windows, action = chain.windows(episodes, seed)
    width = chain.states + 1
    scale = Scale(mean=np.zeros(width, np.float32), spread=np.ones(width, np.float32))
    data = critic_data(windows, chosen, scale, 0.0, np.ones(len(windows), np.bool_))
    training = CriticTraining(new_critics(windows, chosen, seed), data, chosen, seed)
    while training.done < chosen.critic_steps:
        training.train_step()
    return training, action


def test_both_heads_find_the_exact_values_of_the_chain() -> None:
    chain = Chain()
    assert chain.viability()[0] == pytest.approx(0.3374, abs=1e-4)
    assert chain.efficiency()[0] == pytest.approx(-11.698, abs=1e-3)
    training, action = trained(chain, 0, 160_000, critic_steps=1200, target_follow=0.1)
    places = torch.eye(chain.states, chain.states + 1)
    with torch.no_grad():
        logit = training.critics.viability(places).numpy()
        value = training.critics.efficiency(places).numpy()
    exact = chain.viability()
    np.testing.assert_allclose(logit, np.log(exact / (1 - exact)), atol=0.05)
    np.testing.assert_allclose(value, chain.efficiency(), atol=0.1)
    _check_the_step_of_weighted_cloning(chain, training, action)


def _check_the_step_of_weighted_cloning(chain: Chain, training: CriticTraining, action: np.ndarray) -> None:
    said = training.scaled_advantages()
    training.update_gates(said, WeightRule())
    windows = training.data.windows
    success = windows.success
    slow = success & (action == SLOW) & (windows.state[:, 0] == 1)
    assert said.efficiency_advantage[slow].mean() == pytest.approx(-1, abs=0.1)
    good = success & (action == GOOD)
    trust = training.data.successes / (training.data.successes + training.settings.shrink)
    assert said.efficiency_advantage[good].mean() / trust == pytest.approx(chain.slow / (1 - chain.slow), abs=0.1)
    for place in range(chain.states):
        here = success & (windows.state[:, place] == 1)
        g_good, g_slow = (float(training.gates[here & (action == kind)].mean()) for kind in (GOOD, SLOW))
        share = float(training.gates[here & (action == GOOD)].sum() / training.gates[here].sum())
        formula = (1 - chain.slow) * g_good / ((1 - chain.slow) * g_good + chain.slow * g_slow)
        assert share == pytest.approx(formula, abs=0.03)
        assert 0.70 < share < 0.92
    assert float(good.sum() / success.sum()) == pytest.approx(1 - chain.slow, abs=0.02)


def test_the_exchange_gate_values_time_by_p_v_at_the_starts_of_the_newest_rollouts() -> None:
    chain = Chain()
    training, _ = trained(chain, 2, 400, critic_steps=200, gate="exchange")
    windows = training.data.windows
    windows.tick[400:] = 1  # the first 400 windows are the starts, 50 from each state
    said = training.scaled_advantages()
    training.update_gates(said, WeightRule())
    first = training.exchange_rate.success_rate
    assert first == pytest.approx(float(said.viability[:400].mean()))
    assert first == pytest.approx(float(chain.viability().mean()), abs=0.1)
    newer = windows.episode % chain.states == 0
    windows.round[newer] += 1
    training.update_gates(said, WeightRule())
    assert training.exchange_rate.success_rate == pytest.approx(float(said.viability[0]))
    assert training.exchange_rate.success_rate < first


def test_the_literal_efficiency_loss_trips_the_guard() -> None:
    long = Chain(states=30, good=0.5, slow=0.49, bad=0.01)
    literal, _ = trained(long, 1, 600, critic_steps=300, target_follow=1.0, **LITERAL)
    state = literal.divergence_check()
    assert state is not None
    assert not state.sound


def test_the_scaled_loss_with_a_target_network_passes_the_guard() -> None:
    long = Chain(states=30, good=0.5, slow=0.49, bad=0.01)
    scaled, _ = trained(long, 1, 600, critic_steps=600, multi_step=1, target_follow=0.1)
    state = scaled.divergence_check()
    assert state is not None
    assert state.sound, state


def test_no_gradient_reaches_the_makers_of_weights_and_targets() -> None:
    losses = torch.tensor([1.0, 2.0], requires_grad=True)
    weights = torch.tensor([0.5, 1.5], requires_grad=True)
    weighted_loss(losses, weights).backward()
    assert weights.grad is None
    assert losses.grad is not None
    np.testing.assert_allclose(losses.grad.numpy(), [0.25, 0.75])
    later = torch.tensor([-3.0, -4.0], requires_grad=True)
    rows = Transitions(
        features=torch.zeros(2, 1), later=torch.zeros(2, 1), cost=torch.ones(2), ends=torch.tensor([0.0, 1.0])
    )
    target = efficiency_targets(rows, later)
    assert not target.requires_grad
    assert target.tolist() == [-4.0, -1.0]


def test_labels_make_up_for_interception_and_length() -> None:
    windows, _ = Chain().windows(200, 3)
    settings = HabcSettings(balance_length=True, label_supervised=True)
    plain, corrected = label_weights(windows, settings, 0.0), label_weights(windows, settings, 0.5)
    np.testing.assert_allclose(corrected[~windows.success], 2 * plain[~windows.success])
    np.testing.assert_array_equal(corrected[windows.success], plain[windows.success])
    np.testing.assert_allclose(plain, 1 / windows.length)
    # A failure after a person has handed back is no failure that nobody touched: it stands for itself alone.
    handed_back = replace(windows, part=np.full(len(windows), int(Part.AFTER_INTERVENTION)))
    np.testing.assert_array_equal(label_weights(handed_back, settings, 0.5), plain)


def test_each_visit_of_a_state_counts_alike_and_the_reliability_shows_where_it_did_not() -> None:
    # Slow failures: bad decisions are rare and most decisions stay, so failed episodes are long.
    chain = Chain(states=7, good=0.2, slow=0.7, bad=0.1)
    windows, _ = chain.windows(20_000, 5)
    place = windows.state.argmax(axis=1)

    def found(settings: HabcSettings) -> np.ndarray:
        weights = label_weights(windows, settings, 0.0)
        return np.bincount(place, weights * windows.success) / np.bincount(place, weights)

    def reliability(p: np.ndarray) -> float:
        rows = p[place].astype(np.float32)
        given = Advantages(viability=rows, viability_advantage=0 * rows, efficiency_advantage=0 * rows)
        return calibration_error(windows, given, true_weights(windows, 0.0))

    right, balanced = found(HabcSettings()), found(HabcSettings(balance_length=True))
    np.testing.assert_allclose(right, chain.viability(), atol=0.02)
    assert np.abs(balanced - chain.viability()).max() > 0.1
    assert reliability(right) < 0.01
    assert reliability(balanced) > 0.05


def test_a_persons_success_is_not_counted_as_the_policys() -> None:
    windows, _ = Chain().windows(40, 3)
    scale = Scale(mean=np.zeros(9, np.float32), spread=np.ones(9, np.float32))
    shown = np.ones(len(windows), np.bool_)
    alone = critic_data(windows, HabcSettings(), scale, 0.0, shown)
    helped = replace(windows, part=np.full(len(windows), int(Part.BEFORE_INTERVENTION)))
    assert alone.successes == len(np.unique(windows.episode[windows.success])) > 0
    assert critic_data(helped, HabcSettings(), scale, 0.0, shown).successes == 0


def test_interception_biases_the_logit_by_its_logarithm_and_the_weights_undo_it() -> None:
    # Of 100 rollouts 36 would succeed; people take over in half of the 64 that would fail, and finish them.
    alone, helped = [SOURCE_POLICY] * 16, [SOURCE_POLICY] * 8 + [SOURCE_HUMAN] * 8
    episodes = [episode(alone, True, seed=i) for i in range(36)] + [episode(alone, False, seed=i) for i in range(32)]
    episodes += [episode(helped, True, seed=i) for i in range(32)]
    episodes = [replace(item, supervised=True) for item in episodes]
    windows, kappa = cut(episodes, WindowSpec()), interception_rate(episodes)
    label = viability_labels(windows)

    def logit(settings: HabcSettings) -> float:
        # The weighted cross-entropy is least where p_v is the weighted share of successes.
        seen = label >= 0
        p = float(np.average(label[seen], weights=label_weights(windows, settings, kappa)[seen]))
        return float(np.log(p / (1 - p)))

    assert kappa == 0.5
    assert logit(HabcSettings()) == pytest.approx(np.log(0.36 / 0.64), abs=1e-5)
    bias = logit(HabcSettings(correct_interception=False)) - logit(HabcSettings())
    assert bias == pytest.approx(-np.log(1 - kappa), abs=1e-5)


def test_early_stops_and_interception_are_corrected_once() -> None:
    # 100 rollouts, half supervised; half of each would succeed. Operators finish 20 of 25 failures. Early stops with a
    # control arm of one in five leave 5 of the 25 other failures in the data.
    alone, helped = [SOURCE_POLICY] * 16, [SOURCE_POLICY] * 8 + [SOURCE_HUMAN] * 8
    episodes = [episode(alone, True, seed=i) for i in range(50)]
    episodes += [replace(episode(alone, False, seed=i), supervised=True) for i in range(5)]
    episodes += [replace(episode(alone, False, seed=i), rollout_weight=5.0) for i in range(5)]
    episodes += [replace(episode(helped, True, seed=i), supervised=True) for i in range(20)]
    windows, kappa = cut(episodes, WindowSpec()), interception_rate(episodes)
    assert kappa == pytest.approx(0.4), "20 of 50"
    weights = label_weights(windows, HabcSettings(label_supervised=True), kappa)
    assert np.average(windows.success, weights=weights) == pytest.approx(0.5)


def test_only_episodes_drawn_as_unsupervised_say_how_likely_success_is() -> None:
    # 20 of 40 unsupervised rollouts succeed. In the supervised ones operators take over half of the failures and hand
    # back where the policy then succeeds; 20 succeed by themselves.
    alone = [SOURCE_POLICY] * 16
    helped = [SOURCE_POLICY] * 4 + [SOURCE_HUMAN] * 4 + [SOURCE_POLICY] * 8
    episodes = [episode(alone, i < 20, seed=i) for i in range(40)]
    kinds = [(alone, True)] * 20 + [(alone, False)] * 10 + [(helped, True)] * 10
    episodes += [replace(episode(source, won, seed=40 + i), supervised=True) for i, (source, won) in enumerate(kinds)]
    windows, kappa = cut(episodes, WindowSpec()), interception_rate(episodes)
    weights = label_weights(windows, HabcSettings(), kappa)
    assert not weights[windows.supervised].any()
    assert (weights[~windows.supervised] == 1).all(), "no correction for interceptions, because none is labelled"
    assert np.average(windows.success, weights=weights) == pytest.approx(0.5)
    paper = HabcSettings(label_supervised=True, correct_interception=False)
    assert np.average(windows.success, weights=label_weights(windows, paper, kappa)) == pytest.approx(0.6)
    np.testing.assert_array_equal(true_weights(windows, kappa), weights)


def test_the_viability_head_is_labelled_by_a_nearer_state_than_the_efficiency_head_reaches() -> None:
    recorded = episode([SOURCE_POLICY] * 40, True)
    settings = HabcSettings(bootstrap=1.0, multi_step=4, label_steps=1, critic_frequencies=1, few_successes=0)
    windows = cut([recorded], WindowSpec(multi_step=4, label_steps=1))
    data = critic_data(windows, settings, Scale.of(recorded.arrays.state), 0.0, np.ones(len(windows), np.bool_))
    targets, plain = data.targets, np.arange(len(windows))
    viability, (_, _, share, _) = targets.at(torch.from_numpy(plain))
    efficiency, _ = targets.at(torch.from_numpy(plain + targets.first_row[1]))
    torch.testing.assert_close(viability.later[:-1], viability.features[1:])
    torch.testing.assert_close(efficiency.later[:-4], efficiency.features[4:])
    assert share.tolist() == [1.0] * (len(windows) - 1) + [0.0], "only the last decision has the outcome as label"


def test_labels_of_earlier_rounds_fade_because_the_policy_has_improved() -> None:
    # The policy succeeds in 30, 50 and 70 % of the rollouts of three rounds.
    alone = [SOURCE_POLICY] * 16
    won = {round_: 1 + 2 * round_ for round_ in (1, 2, 3)}
    episodes = [
        episode(alone, i < won[round_], round_=round_, seed=10 * round_ + i) for round_ in won for i in range(10)
    ]
    windows = cut(episodes, WindowSpec())

    def share(settings: HabcSettings) -> float:
        return float(np.average(windows.success, weights=label_weights(windows, settings, 0.0)))

    assert abs(share(HabcSettings()) - 0.7) < 0.05
    assert share(HabcSettings(label_decay=1.0)) == pytest.approx(0.5)
    assert share(HabcSettings(label_decay=0.0)) == pytest.approx(0.7)
    assert read_recipe("habc_paper").settings["label_decay"] == 1.0


def test_where_every_episode_is_supervised_their_labels_are_all_there_is() -> None:
    alone, helped = [SOURCE_POLICY] * 16, [SOURCE_POLICY] * 8 + [SOURCE_HUMAN] * 8
    kinds = [(alone, True)] * 36 + [(alone, False)] * 32 + [(helped, True)] * 32
    episodes = [replace(episode(source, won, seed=i), supervised=True) for i, (source, won) in enumerate(kinds)]
    few = [*episodes, *(episode(alone, True, seed=100 + i) for i in range(9))]
    for given in (episodes, few):
        windows, kappa = cut(given, WindowSpec()), interception_rate(given)
        assert labels_supervised(windows, HabcSettings())
        assert label_weights(windows, HabcSettings(), kappa)[windows.supervised].any()
    assert not labels_supervised(cut([*few, episode(alone, True, seed=110)], WindowSpec()), HabcSettings())
    assert labels_supervised(windows, HabcSettings(few_unsupervised=0, partition=False)), "naive labels"
    assert read_recipe("habc_paper").settings["label_supervised"] is True


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("own_rows", [1, 2])
def test_gradients_by_hand_are_those_of_autograd(shared: bool, bounded: bool, own_rows: int) -> None:
    critics = Critics(CriticShape(state_dim=5, hidden=16, shared_encoder=shared, bounded=bounded), 0)
    draw, unit = torch.Generator().manual_seed(1), 3.0
    rows = torch.randn((own_rows, 32, 25), generator=draw)
    label, weight, counted = (torch.rand(32, generator=draw) for _ in range(3))
    counted, target = counted.round(), 10 * torch.randn(32, generator=draw)
    forward_pass = critics(rows)
    logits, value = forward_pass.output[0], critics.in_decisions(forward_pass.output[1])
    told = nn.functional.binary_cross_entropy_with_logits(logits, label, weight, reduction="sum") / weight.sum()
    losses = nn.functional.huber_loss(value / unit, target / unit, delta=1.0, reduction="none")
    (told + (losses * counted).sum() / counted.sum()).backward()
    with torch.no_grad():
        up = efficiency_gradient(value, target, unit, counted) * critics.rate(forward_pass.output[1])
        found = critics.gradients(forward_pass, torch.stack((viability_gradient(logits, label, weight), up)))
    for mine, parameter in zip(found, critics.parameters(), strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(mine.view_as(parameter), parameter.grad)
