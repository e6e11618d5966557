"""Limits hold per second: whatever a runner sends and when, no joint gets actions that are faster than its limits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as trials
from hypothesis import strategies as st

from robot_drivers.fake_robot import FAKE_SPEC, FakeRig
from robot_drivers.guard_client import open_guarded
from robot_drivers.guard_rules import JITTER_S, ActionRate
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope, Limits
from tests.robot_drivers.guarded_arm import HOME, ONE, acts, resume

PERIOD_S = FAKE_SPEC.period_s
STEP, BEND = 0.05, 0.02
ROUND = 1e-5

GAPS = st.one_of(st.just(0.0), st.floats(0.0, 0.01), st.floats(0.0, 0.1))
WISHES = st.floats(-2.0, 2.0, width=32)


class Arm:
    """The guarded arm in virtual time."""

    def __init__(self) -> None:
        rig = FakeRig(FAKE_SPEC, 1, 0)
        limits = Limits(step={"shoulder_rad": STEP}, bend={"shoulder_rad": BEND})
        self.rig, self.rate, self.now_s = GuardedRig(rig, Envelope(FAKE_SPEC, limits)), ActionRate(PERIOD_S), 0.0
        self.rig.place(0, HOME)
        self.times: list[float] = []
        self.sent: list[float] = []
        self.waited_s = 0.0
        self.rests: list[int] = []
        """The actions before which the arm had come to rest at the last one."""

    def act(self, wish: float, at_s: float) -> None:
        self.now_s = max(self.now_s, at_s)
        wait_s = self.rate.wait_s(self.now_s)
        self.waited_s = max(self.waited_s, wait_s)
        self.now_s += wait_s
        if self.rate.passes(self.now_s):
            assert not self.times or self.now_s - self.times[-1] > 2 * PERIOD_S
            self.rests.append(len(self.sent))
            self.rig.rest()
        self.times.append(self.now_s)
        self.sent.append(float(self.rig.act(np.array([[wish, 0.0]], np.float32), ONE)[0, 0]))


@trials(deadline=None, max_examples=200)
@given(st.lists(st.tuples(GAPS, WISHES), min_size=3, max_size=40))
@example([(0.0, 1.0), (0.03125, 1.0), (0.09375, 0.0)])
def test_over_no_time_is_the_arm_commanded_faster_than_its_limits(commands):
    arm, at_s = Arm(), 0.0
    for gap_s, wish in commands:
        at_s += gap_s
        arm.act(wish, at_s)
    speeds = np.diff(arm.sent)  # per period; the first is that of the second command
    for at in arm.rests:
        assert not at or near_bound(arm.sent[at - 1 : at + 1]) or abs(speeds[at - 1]) <= BEND + ROUND
    for first, last in itertools.combinations(range(len(arm.sent)), 2):
        periods = (arm.times[last] - arm.times[first] + JITTER_S) / PERIOD_S + 1
        assert last - first <= periods + ROUND
        assert abs(arm.sent[last] - arm.sent[first]) <= STEP * periods + ROUND
        at_rest = any(first < at <= last for at in arm.rests)
        if first and not at_rest and not near_bound(arm.sent[first - 1 : last + 1]):
            assert abs(speeds[last - 1] - speeds[first - 1]) <= BEND * periods + ROUND


def near_bound(sent: list[float]) -> bool:
    """Periods in which the bound of the spec overrides the limit on bends."""
    return max(map(abs, sent)) > 1.5 - 2 * STEP


@trials(deadline=None, max_examples=100)
@given(st.lists(st.floats(0.0, 1.29), min_size=20, max_size=28))
def test_a_runner_at_its_limit_is_neither_delayed_nor_clipped_for_its_jitter(lateness):
    arm = Arm()
    arm.act(0.0, 0.0)
    wish = arm.sent[0]
    for tick, late in enumerate(lateness, start=1):
        wish += min(BEND * tick, STEP)
        arm.act(wish, (tick + late) * PERIOD_S)
        assert abs(arm.sent[-1] - wish) <= ROUND
    assert arm.waited_s <= ROUND


def test_a_command_after_a_pause_starts_from_rest():
    arm = Arm()
    for tick in range(6):
        arm.act(1.0, tick * PERIOD_S)
    assert arm.sent[-1] - arm.sent[-2] == pytest.approx(STEP, abs=ROUND)
    arm.act(1.0, 5 * PERIOD_S + 2.9 * PERIOD_S)
    assert arm.sent[-1] - arm.sent[-2] == pytest.approx(BEND, abs=ROUND)


def test_a_runner_that_sends_as_fast_as_it_can_moves_no_faster(settings):
    narrow = replace(settings, options={**settings.options, "envelope": {"step": {"shoulder_rad": STEP}}})
    rig = open_guarded(narrow)
    resume(narrow)
    rig.place(0, HOME)
    sent = [float(rig.act(np.ones((1, 2), np.float32), ONE)[0, 0]) for _ in range(16)]
    rig.close()
    stamps = acts(Path(str(settings.options["log"])))
    # One period for the command itself, one for jitter, one because this machine may be late to write the first line.
    assert sent[-1] - sent[0] <= STEP * ((stamps[-1] - stamps[0]) / 1e9 / PERIOD_S + 3)
