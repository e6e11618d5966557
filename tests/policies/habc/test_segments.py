"""Windows, labels and staleness: what a learner may and may not see."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enpire.errors import LearningProblem
from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, SOURCE_POLICY, SOURCE_RESET
from policies.habc.labels import bootstrap_shares, label_weights
from policies.habc.segments import (
    Part,
    Windows,
    WindowSpec,
    cut,
    efficiency_mask,
    interception_rate,
    recent_windows,
    viability_labels,
)
from policies.habc.settings import HabcSettings
from tests.policies.recorded import episode

CONTROL = st.lists(
    st.tuples(st.sampled_from([SOURCE_POLICY, SOURCE_HUMAN]), st.integers(1, 15)), min_size=1, max_size=6
)
HOW = WindowSpec(horizon=8, execute=4, stride=1, multi_step=2)


def spelled(spans: list[tuple[int, int]]) -> list[int]:
    return [source for source, count in spans for _ in range(count)]


def begins(windows: Windows, sources: list[int], how: WindowSpec) -> np.ndarray:
    """The frame at which each window begins, found by its state (states are random, so unique)."""
    states = episode(sources, True).arrays.state
    return np.array([int(np.flatnonzero((states == row).all(axis=1))[0]) for row in windows.state])


@settings(max_examples=60, deadline=None)
@given(CONTROL, st.booleans())
def test_no_label_leaks_across_an_intervention(spans: list[tuple[int, int]], success: bool) -> None:
    sources = spelled(spans)
    try:
        windows = cut([episode(sources, success)], HOW)
    except LearningProblem:
        return
    label = viability_labels(windows)
    human = np.array(sources) == SOURCE_HUMAN
    last = int(np.flatnonzero(human)[-1]) if human.any() else -1
    for begin, said in zip(begins(windows, sources, HOW), label, strict=True):
        if said >= 0:
            assert not human[begin : begin + HOW.horizon].any()
            assert begin > last
            assert said == success
    if human[-1]:
        assert (label == -1).all()


@settings(max_examples=40, deadline=None)
@given(CONTROL)
def test_flipping_the_outcome_changes_labels_only_where_the_policy_was_alone(spans: list[tuple[int, int]]) -> None:
    sources = spelled(spans)
    try:
        good, bad = (cut([episode(sources, y)], HOW) for y in (True, False))
    except LearningProblem:
        return
    np.testing.assert_array_equal(
        viability_labels(good) != viability_labels(bad), np.isin(good.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION))
    )
    for item in fields(Windows):
        if item.name != "success":
            np.testing.assert_array_equal(getattr(good, item.name), getattr(bad, item.name))


ANY = st.lists(
    st.tuples(st.sampled_from([SOURCE_POLICY, SOURCE_HUMAN, SOURCE_EXPERT, SOURCE_RESET]), st.integers(1, 12)),
    min_size=1, max_size=5,
)  # fmt: skip
SPECS = st.builds(
    WindowSpec,
    horizon=st.integers(1, 12), execute=st.integers(1, 5), stride=st.integers(1, 5), multi_step=st.integers(1, 4),
)  # fmt: skip


def part_of(sources: list[int], begin: int, spec: WindowSpec) -> Part | None:
    """The part of one window, by the words of its definition; None for a window to drop."""
    window = sources[begin : begin + spec.horizon]
    human = window.count(SOURCE_HUMAN)
    if set(window) == {SOURCE_EXPERT}:
        return Part.DEMONSTRATION
    if set(window) - {SOURCE_HUMAN, SOURCE_POLICY} or 0 < human < 0.2 * spec.horizon:
        return None
    if human:
        return Part.INTERVENTION
    if SOURCE_HUMAN not in sources:
        return Part.AUTONOMOUS
    return Part.BEFORE_INTERVENTION if SOURCE_HUMAN in sources[begin:] else Part.AFTER_INTERVENTION


@given(ANY, SPECS, st.booleans())
def test_windows_are_those_of_the_definition(spans: list[tuple[int, int]], spec: WindowSpec, success: bool) -> None:
    sources = spelled(spans)
    ticks, recorded = len(sources), episode(sources, success, round_=3)
    parts = {begin: part_of(sources, begin, spec) for begin in range(0, ticks, spec.stride)}
    kept = [begin for begin, part in parts.items() if part is not None]
    other = episode([SOURCE_EXPERT] * 3, True, round_=7, seed=1)
    windows = cut([other, recorded], spec)
    windows = windows.at(windows.episode == 1)
    assert windows.tick.tolist() == kept
    assert windows.length.tolist() == [len(kept)] * len(kept)
    assert windows.success.tolist() == [success] * len(kept)
    assert windows.round.tolist() == [3] * len(kept)
    for row, begin in enumerate(kept):
        frames = range(begin, min(begin + spec.horizon, ticks))
        assert windows.part[row] == parts[begin]
        imitated = [parts[begin] is not Part.INTERVENTION or sources[frame] == SOURCE_HUMAN for frame in frames]
        padded = [*imitated, *[False] * (spec.horizon - len(frames))]
        assert windows.mask[row].tolist() == padded
        sent = [recorded.arrays.action[begin + i] if used else np.zeros(2) for i, used in enumerate(padded)]
        np.testing.assert_array_equal(windows.chunk[row], sent)
        left = -(-(ticks - begin) // spec.execute)
        assert windows.ends[row] == (left <= spec.multi_step)
        assert windows.cost[row] == (left - 1 if left <= spec.multi_step else spec.multi_step)
        later = min(begin + spec.multi_step * spec.execute, ticks)
        np.testing.assert_array_equal(windows.state[row], recorded.arrays.state[begin])
        np.testing.assert_array_equal(windows.next_state[row], recorded.arrays.state[later])


def test_naive_labels_are_the_outcome_of_every_policy_window() -> None:
    sources = [SOURCE_POLICY] * 12 + [SOURCE_HUMAN] * 12 + [SOURCE_POLICY] * 12
    windows = cut([episode(sources, True), episode(sources, False), episode([SOURCE_EXPERT] * 8, True)], HOW)
    naive = viability_labels(windows, partition=False)
    np.testing.assert_array_equal(naive, np.where(windows.policy, windows.success, -1))
    untaught = ~windows.demonstration & windows.success
    np.testing.assert_array_equal(efficiency_mask(windows, partition=False), untaught)
    before = windows.part == Part.BEFORE_INTERVENTION
    np.testing.assert_array_equal(efficiency_mask(windows), untaught & ~before)


def test_the_window_of_a_recipe_without_settings() -> None:
    assert WindowSpec() == WindowSpec(horizon=8, execute=4, stride=4, multi_step=1)


def test_nine_human_steps_are_dropped_and_ten_kept() -> None:
    how = WindowSpec(horizon=50, execute=25, stride=1000)
    for human, kept in ((9, False), (10, True)):
        sources = [SOURCE_POLICY] * (50 - human) + [SOURCE_HUMAN] * human
        if not kept:
            with pytest.raises(LearningProblem, match="no window"):
                cut([episode(sources, True)], how)
            continue
        windows = cut([episode(sources, True)], how)
        assert windows.part.tolist() == [Part.INTERVENTION]
        assert windows.mask[0].sum() == 10


def test_demonstrations_and_interventions_are_never_labelled() -> None:
    taught = cut([episode([SOURCE_EXPERT] * 20, True)], HOW)
    assert (viability_labels(taught) == -1).all()
    assert not efficiency_mask(taught).any()
    helped = cut([episode([SOURCE_HUMAN] * 20, True)], HOW)
    assert (viability_labels(helped) == -1).all()
    assert efficiency_mask(helped).all()


def test_frames_of_a_reset_are_dropped() -> None:
    windows = cut([episode([SOURCE_RESET] * 10 + [SOURCE_POLICY] * 10, True)], WindowSpec(stride=1))
    assert (begins(windows, [SOURCE_RESET] * 10 + [SOURCE_POLICY] * 10, HOW) >= 10).all()


def test_costs_count_the_decisions_that_are_left() -> None:
    windows = cut([episode([SOURCE_POLICY] * 18, True)], WindowSpec(horizon=8, execute=4, stride=4, multi_step=2))
    # 18 frames are 5 decisions: from the first, four more follow it.
    assert windows.cost.tolist() == [2, 2, 2, 1, 0]
    assert windows.ends.tolist() == [False, False, False, True, True]
    arrays = episode([SOURCE_POLICY] * 18, True).arrays
    np.testing.assert_array_equal(windows.next_state[0], arrays.state[8])
    np.testing.assert_array_equal(windows.next_state[-1], arrays.state[18])
    np.testing.assert_array_equal(windows.mask[-1], [1, 1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(windows.chunk[1], arrays.action[4:12])


def test_a_label_may_be_fewer_decisions_ahead_than_the_difference() -> None:
    recorded = episode([SOURCE_POLICY] * 18, True)
    spec = WindowSpec(horizon=8, execute=4, stride=4, multi_step=3)
    same, near = cut([recorded], spec), cut([recorded], replace(spec, label_steps=1))
    np.testing.assert_array_equal(same.label_state, same.next_state)
    np.testing.assert_array_equal(same.label_ends, same.ends)
    for name in ("next_state", "cost", "ends"):
        np.testing.assert_array_equal(getattr(near, name), getattr(same, name))
    np.testing.assert_array_equal(near.label_state, recorded.arrays.state[[4, 8, 12, 16, 18]])
    assert near.label_ends.tolist() == [False, False, False, False, True]


def test_old_policy_windows_are_dropped_and_peoples_never() -> None:
    mixed = [SOURCE_POLICY] * 8 + [SOURCE_HUMAN] * 8
    windows = cut(
        [
            episode([SOURCE_EXPERT] * 8, True, round_=0, seed=1),
            episode([SOURCE_POLICY] * 8, True, round_=1, seed=2),
            episode(mixed, True, round_=1, seed=3),
            episode([SOURCE_POLICY] * 8, True, round_=3, seed=4),
        ],
        WindowSpec(stride=8),
    )
    kept = recent_windows(windows, rounds=2)
    assert kept.part[kept.round == 1].tolist() == [Part.INTERVENTION]
    assert (kept.part == Part.DEMONSTRATION).sum() == 1
    assert (kept.round == 3).any()
    assert len(recent_windows(windows, rounds=3)) == len(windows)
    taught = windows.at(windows.demonstration)
    assert len(recent_windows(taught, rounds=1)) == len(taught) > 0, "demonstrations alone stay"


def test_kappa_is_the_share_of_failures_that_people_took_away() -> None:
    lone, helped = [SOURCE_POLICY] * 8, [SOURCE_POLICY] * 4 + [SOURCE_HUMAN] * 4
    episodes = [episode(lone, False, seed=i) for i in range(3)] + [episode(helped, True, seed=9)]
    assert interception_rate(episodes) == 0.25
    assert interception_rate(episodes[:3]) == 0
    assert interception_rate(episodes[3:]) == 0, "without a failure there is no share"
    taught = episode([SOURCE_EXPERT] * 8, False, seed=10)
    assert interception_rate([*episodes, taught]) == 0.25
    assert interception_rate([*episodes, episode(lone, True, seed=11), episode(helped, False, seed=12)]) == 0.4


def test_a_difference_ends_at_the_takeover_if_asked() -> None:
    sources = spelled([(SOURCE_POLICY, 10), (SOURCE_HUMAN, 6), (SOURCE_POLICY, 12)])
    recorded = episode(sources, True)
    spec = WindowSpec(horizon=2, execute=2, stride=2, multi_step=3)
    plain, cut_off = cut([recorded], spec), cut([recorded], replace(spec, until_takeover=True))
    for windows, span in ((plain, 6), (cut_off, 4)):
        row = int(np.flatnonzero(windows.tick == 6)[0])
        np.testing.assert_array_equal(windows.next_state[row], recorded.arrays.state[6 + span])
        assert (windows.cost[row], windows.ends[row]) == (span / 2, False)
    np.testing.assert_array_equal(cut_off.tick, plain.tick)
    others = (cut_off.tick < 6) | (cut_off.tick >= 10)
    for name in ("next_state", "cost", "ends"):
        np.testing.assert_array_equal(getattr(cut_off, name)[others], getattr(plain, name)[others])


def test_labels_of_supervised_episodes_are_p_v_later_alone() -> None:
    alone, helped = [SOURCE_POLICY] * 40, spelled([(SOURCE_POLICY, 20), (SOURCE_HUMAN, 8), (SOURCE_POLICY, 20)])
    episodes = [
        episode(alone, True),
        *(replace(episode(source, True, seed=1), supervised=True) for source in (alone, helped)),
    ]
    windows = cut(episodes, WindowSpec(multi_step=2, until_takeover=True))
    half = HabcSettings(bootstrap=0.5, few_unsupervised=1)
    shares, weights = bootstrap_shares(windows, half), label_weights(windows, half, 0.0)
    assert (weights[windows.policy] == 1).all()
    assert not weights[~windows.policy].any()
    onward = windows.policy & ~windows.ends
    assert set(shares[onward & ~windows.supervised]) == {0.5}
    assert set(shares[onward & windows.supervised]) == {1.0}
    assert not shares[~onward].any(), "the outcome is the label where the episode ends under the policy"
    assert onward[windows.part == Part.BEFORE_INTERVENTION].all()
    off = HabcSettings(few_unsupervised=1)
    assert not bootstrap_shares(windows, off).any()
    assert not label_weights(windows, off, 0.0)[windows.supervised].any()
