"""The conformance checks pass good robots over several transports, and name what is wrong with bad ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from enpire.conformance import CheckFailed, ConformanceReport
from enpire.interfaces import Rig
from enpire.types import Bounds, FloatArray, MaskArray, Observation
from robot_drivers import conformance_bench, fake_robot
from robot_drivers.conformance import CHECKS, check, guarded_robot, starts_of
from robot_drivers.conformance_bench import Bench, RobotUnderTest
from robot_drivers.fake_robot import FAKE_SPEC, FakeRig, FakeRobot
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane


def assert_conforms(report: ConformanceReport) -> None:
    failed = [line for line in report.lines() if line.startswith("FAIL")]
    assert not failed, "\n".join(failed)
    assert report.summary.startswith(f"{report.subject} passes {report.passed} of {report.applied} checks")
    assert report.applied >= 30
    assert any("p99" in note for note in report.notes)


def lockstep(open_it: Callable[[], Rig]) -> RobotUnderTest:
    return RobotUnderTest(name="the arm", open=open_it, start=starts_of(FAKE_SPEC), realtime=False)


def test_there_are_at_least_thirty_named_checks():
    assert len(CHECKS) >= 30
    assert len({rule.__name__ for rule in CHECKS}) == len(CHECKS)
    assert all(rule.__doc__ for rule in CHECKS)


def test_the_fake_rig_conforms():
    report = check(lockstep(lambda: fake_robot.open_rig(None, 3, 0, {})))
    assert_conforms(report)
    left_out = {result.name for result in report.results if result.result == "does not apply"}
    assert left_out - {"keeps_time"} == {  # a busy computer may leave that one out
        "stop_ends_motion", "still_lane_ends_motion", "stop_without_observations", "stop_without_cameras",
        "stop_with_stale_cameras",
    }, "no time passes between the actions of a simulation"  # fmt: skip


@pytest.mark.realtime
def test_a_robot_in_real_time_conforms():
    spec = replace(FAKE_SPEC, rate_hz=100.0)

    class Quick(FakeRobot):
        pass

    Quick.spec = spec

    def opened() -> GuardedRig:
        return GuardedRig(SingleLane(Quick()), Envelope(spec))

    assert_conforms(check(RobotUnderTest(name="the arm", open=opened, start=starts_of(spec), realtime=True)))


class LateMessages(FakeRig):
    """A stopped arm that coasts to 1.5 rad, while its messages are late: the old one is seen again and again."""

    seen = ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.12, 1.0), (0.14, 1.2), (0.24, 1.5), (0.24, 1.5), (0.36, 1.5))
    """(seconds, rad) of one message after the other."""
    looks = 0

    def observe(self) -> Observation:
        """Each message is seen in four looks; the arm stays where the last one has it, and time goes on."""
        place = self.looks // 4
        stamp_s, shoulder_rad = self.seen[min(place, len(self.seen) - 1)]
        stamp_s += 0.12 * max(0, place + 1 - len(self.seen)) * (len(self.seen) > 1)
        self.looks += 1
        state = np.array([[shoulder_rad, 0, 0, 0]], np.float32)
        return Observation(stamp_ns=round(stamp_s * 1e9), state=state)


def test_an_old_message_that_is_seen_again_is_not_taken_for_rest(monkeypatch):
    monkeypatch.setattr(conformance_bench, "BRAKES_S", 0.1)
    bench = Bench(replace(lockstep(lambda: LateMessages(FAKE_SPEC, 1, 0)), realtime=True))
    try:
        rested = bench.come_to_rest()
    finally:
        bench.close()
    assert rested.stamp_ns >= 360_000_000
    assert rested.state[0, 0] == 1.5


class Noisy(FakeRig):
    """An arm at rest whose sensor is noisy: one observation differs from the next by 2.4 % of the range."""

    sign, share = 1.0, 0.012

    def observe(self) -> Observation:
        self.sign = -self.sign
        item = FAKE_SPEC.state[0]
        shoulder_rad = self.sign * self.share * (item.high - item.low)
        return Observation(stamp_ns=time.monotonic_ns(), state=np.array([[shoulder_rad, 0, 0, 0]], np.float32))


def test_a_noisy_sensor_is_not_taken_for_motion(monkeypatch):
    monkeypatch.setattr(conformance_bench, "BRAKES_S", 0.01)
    bench = Bench(replace(lockstep(lambda: Noisy(FAKE_SPEC, 1, 0)), realtime=True))
    try:
        rested = bench.come_to_rest()
        bench.rig.observe()
        bench.stays(rested, "A stopped robot must hold still")
        with pytest.raises(CheckFailed, match="hold still"):
            bench.same(bench.rig.observe(), bench.rig.observe(), "A stopped robot must hold still")
    finally:
        bench.close()


def test_a_robot_that_swings_is_not_taken_for_one_at_rest(monkeypatch):
    monkeypatch.setattr(conformance_bench, "BRAKES_S", 0.01)
    monkeypatch.setattr(conformance_bench, "RESTS_WITHIN_S", 0.05)

    class Swinging(Noisy):
        share = 0.04

    bench = Bench(replace(lockstep(lambda: Swinging(FAKE_SPEC, 1, 0)), realtime=True))
    try:
        with pytest.raises(CheckFailed, match="swings to and fro by 8%"):
            bench.come_to_rest()
        with pytest.raises(CheckFailed, match="hold still, but it swings"):
            bench.stays(bench.seen(bench.pass_period), "A stopped robot must hold still")
    finally:
        bench.close()


def test_a_robot_that_sends_nothing_is_not_taken_for_rest(monkeypatch):
    monkeypatch.setattr(conformance_bench, "BRAKES_S", 0.05)
    monkeypatch.setattr(conformance_bench, "LATE_S", 0.2)

    class Silent(LateMessages):
        seen = ((0.0, 0.0),)

    bench = Bench(replace(lockstep(lambda: Silent(FAKE_SPEC, 1, 0)), realtime=True))
    try:
        with pytest.raises(CheckFailed, match="must be observed anew"):
            bench.come_to_rest()
    finally:
        bench.close()


@pytest.mark.slow
def test_a_simulation_behind_its_guard_conforms(tmp_path):
    settings = GuardSettings(
        driver="fake", folder=tmp_path, lanes=2, pace="fast", person_to_resume=False, watchdog_s=20.0
    )
    assert_conforms(check(replace(guarded_robot(settings, FAKE_SPEC), realtime=False)))


class NoEnvelope(FakeRig):
    """A rig that checks no action, and ends its stops by itself."""

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        self._stopped = False
        return super().act(action, moving)


class Frozen(FakeRig):
    """A rig with frozen sensors."""

    def observe(self) -> Observation:
        if not hasattr(self, "kept"):
            self.kept = super().observe()
        return self.kept


class Leaky(FakeRig):
    """A rig whose lanes influence each other, with wrong units and a shared buffer."""

    def __init__(self) -> None:
        shoulder = Bounds(name="shoulder_rad", unit="furlong", low=-2.0, high=2.0)
        super().__init__(replace(FAKE_SPEC, state=(shoulder, *FAKE_SPEC.state[1:])), 2, 0)
        self.buffer = np.zeros((2, 2), np.float32)

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        super().act(action, moving)
        self._state[1] += 0.1 * (self._state[0] - self._state[1]) * moving[0]
        self.buffer[:] = action
        return self.buffer


@pytest.mark.parametrize(
    ("make", "must_fail"),
    [
        (
            lambda: NoEnvelope(FAKE_SPEC, 2, 0),
            {"above_is_clipped", "nan_is_refused", "width_is_refused", "stop_refuses_commands", "stop_overrules"},
        ),
        (
            lambda: GuardedRig(Frozen(FAKE_SPEC, 1, 0), Envelope(FAKE_SPEC)),
            {"stamp_rises", "stamp_unit", "live_is_fresh", "motion_is_seen"},
        ),
        (Leaky, {"units", "sent_owned", "lanes_independent"}),
    ],
)
def test_a_bad_robot_is_told_what_is_wrong(make, must_fail):
    report = check(lockstep(make))
    failed = {failure.name for failure in report.failures}
    assert must_fail <= failed
    assert not report.conforms
    assert all(failure.detail.startswith("-> ") for failure in report.failures)


def test_pin_insertion_in_mujoco_conforms():
    pytest.importorskip("mujoco")
    from robot_drivers.mujoco_robot import open_rig
    from sim.tasks.pin_insertion import PinInsertion

    task = PinInsertion()
    subject = RobotUnderTest(
        name="the arm",
        open=lambda: open_rig(task, 2, 0, {}),
        start=lambda index: task.start("train", index, b""),
        realtime=False,
    )
    assert_conforms(check(subject))
