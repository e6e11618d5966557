"""The data of a round: which windows stay, how many rollouts an episode stands for, and which were supervised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.types import IMPORTED_STATION, SOURCE_HUMAN, SOURCE_POLICY, EarlyStop
from policies.habc.labels import bootstrap_shares, label_weights, true_weights
from policies.habc.learner import collect_round_data
from policies.habc.segments import Part, WindowSpec, cut, efficiency_mask, interception_rate, viability_labels
from policies.habc.settings import HabcSettings
from policies.habc.train import critic_data
from policies.habc.weights import WeightRule, actor_weights
from policies.normalise import Scale
from policies.training_data import RecordedEpisode, read_episodes
from tests.policies.recorded import driven, episode, write


def test_what_people_did_never_ages_and_counts_for_kappa_while_it_is_fresh() -> None:
    lone, helped = [SOURCE_POLICY] * 8, [SOURCE_POLICY] * 4 + [SOURCE_HUMAN] * 8
    rounds = range(1, 5)
    episodes = [
        episode(sources, sources is helped, round_=round_, seed=2 * round_ + (sources is helped))
        for round_ in rounds
        for sources in (lone, helped)
    ]
    round_data = collect_round_data(episodes, HabcSettings(window_rounds=1))
    assert set(round_data.windows.round.tolist()) == set(rounds)
    assert set(round_data.windows.round[round_data.windows.policy].tolist()) == {4}
    assert round_data.kappa == 0.5


def test_a_flagged_rollout_of_the_control_arm_stands_for_those_that_were_stopped(tmp_path: Path) -> None:
    rule = EarlyStop(below=0.1, control=0.25, armed=False)
    plain, flagged = driven(1, expert=False, round_=1), driven(2, expert=False, round_=1)
    folders = [write(tmp_path, plain), write(tmp_path, flagged, early_stop=rule, predicted_failure_at=8)]
    withdrawn = replace(driven(3, expert=False, round_=1), order_id="withdrawn")
    episodes = read_episodes(folders)
    assert [item.rollout_weight for item in episodes] == [1.0, 4.0]
    at_the_end = write(tmp_path, withdrawn, early_stop=replace(rule, control=1.0), predicted_failure_at=8)
    assert [item.rollout_weight for item in read_episodes([at_the_end])] == [1.0]
    windows = cut(episodes, WindowSpec())
    weight = label_weights(windows, HabcSettings(balance_length=True), 0.0)
    heft = [weight[windows.episode == index].sum() for index in (0, 1)]
    assert heft == pytest.approx([1.0, 4.0])
    settings = HabcSettings(bootstrap=1.0, label_decay=1.0)
    assert (label_weights(windows, settings, 0.0) == windows.rollout_weight).all()
    stopped = replace(episode([SOURCE_POLICY] * 8, False, round_=2), stopped=True)
    later = [replace(item, round=2) for item in episodes]
    windows = cut([*episodes, *later, stopped], WindowSpec())
    alike = label_weights(windows, settings, 0.0)
    assert (alike[windows.round == 2] == 1).all(), "where the stopped rollouts are in the data"
    assert (alike[windows.round == 1] == windows.rollout_weight[windows.round == 1]).all(), "where they are not"


def test_only_bootstrapping_critics_learn_from_rollouts_that_were_stopped_early(tmp_path: Path) -> None:
    armed = EarlyStop(below=0.1, control=0.25, armed=True)
    plain = [replace(driven(seed, expert=False, round_=1), order_id=f"plain{seed}") for seed in range(9)]
    lone = episode([SOURCE_POLICY] * 16, False, seed=50)
    folders = [write(tmp_path, item) for item in plain]
    folders.append(write(tmp_path, lone, outcome="aborted", early_stop=armed, predicted_failure_at=16))
    folders.append(write(tmp_path, replace(lone, order_id="halted"), outcome="aborted", early_stop=armed))
    assert not any(item.stopped for item in read_episodes(folders))
    episodes = read_episodes(folders, stopped=True)
    assert [(item.order_id, item.rollout_weight) for item in episodes if item.stopped] == [(lone.order_id, 1.0)]
    assert interception_rate([*episodes, episode([SOURCE_HUMAN] * 8, True), episode([SOURCE_POLICY] * 8, False)]) == 0.5

    outcomes = collect_round_data(episodes, HabcSettings())
    assert outcomes.episodes == outcomes.judged == episodes[:9]
    settings = HabcSettings(bootstrap=1.0, stride=4)
    round_data = collect_round_data(episodes, settings)
    stopped = round_data.windows.part == Part.BEFORE_STOP
    own = round_data.windows.at(stopped)
    assert own.tick.tolist() == [0, 4, 8, 12]
    assert np.array_equal(own.next_state, lone.arrays.state[[16] * 4]), "p_v at the stop"
    assert (own.cost.tolist(), own.ends.any()) == ([4, 3, 2, 1], False)
    assert (round_data.judged, len(round_data.episodes)) == (episodes[:9], 10)
    assert not round_data.held_out.any(), "the tenth episode of the policy is one without an outcome"

    assert (bootstrap_shares(round_data.windows, settings)[stopped] == 1).all()
    assert (label_weights(round_data.windows, settings, 0.0)[stopped] == 1).all()
    assert (true_weights(round_data.windows, 0.0)[stopped] == 0).all()
    for partition in (True, False):
        rule = WeightRule(partition=partition)
        assert (viability_labels(round_data.windows, partition)[stopped] == -1).all()
        assert not efficiency_mask(round_data.windows, partition)[stopped].any()
        assert (actor_weights(round_data.windows, np.ones(len(stopped), np.float32), rule)[stopped] == 0).all()


def test_p_v_later_is_no_label_where_operators_finished_every_episode() -> None:
    helped = [episode([SOURCE_POLICY] * 8 + [SOURCE_HUMAN] * 8, True, seed=seed) for seed in range(9)]
    settings = HabcSettings(bootstrap=1.0, critic_steps=1)

    def labelled(episodes: list[RecordedEpisode]) -> int:
        round_data = collect_round_data(episodes, settings)
        scale = Scale.of(round_data.windows.state)
        data = critic_data(round_data.windows, settings, scale, round_data.kappa, ~round_data.held_out)
        return len(data.targets.viability_rows)

    assert labelled(helped) == 0
    assert labelled([*helped[:8], episode([SOURCE_POLICY] * 8, False, seed=9)]) > 0


def test_imported_episodes_with_an_intervention_among_them_all_count_as_supervised(tmp_path: Path) -> None:
    alone = [replace(driven(seed, expert=False, round_=1), order_id=f"alone{seed}") for seed in (1, 2)]
    helped = episode([SOURCE_POLICY] * 8 + [SOURCE_HUMAN] * 8, True, seed=3)
    own, imported = write(tmp_path, alone[0]), write(tmp_path, alone[1], station=IMPORTED_STATION)
    assert [item.supervised for item in read_episodes([own, imported])] == [False, False]
    folders = [own, imported, write(tmp_path, helped, station=IMPORTED_STATION)]
    assert [item.supervised for item in read_episodes(folders)] == [False, True, True]
