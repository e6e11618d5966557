"""On a busy computer, the checks of robots tell a slow driver from a late computer."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from enpire.conformance import CheckResult, run_check
from enpire.types import FloatArray, Observation
from robot_drivers import conformance
from robot_drivers.conformance import starts_of
from robot_drivers.conformance_bench import Bench, RobotUnderTest
from robot_drivers.conformance_motion import check_keeps_time
from robot_drivers.fake_robot import FAKE_SPEC, FakeRobot
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.machine_lateness import Lateness, LatenessMeter
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane


class Slow(FakeRobot):
    """Its bus takes 60 ms for a reading; a period is 33 ms."""

    def observe(self) -> Observation:
        time.sleep(0.06)
        return super().observe()


class Computing(FakeRobot):
    """It computes for 8 ms in every action: a quarter of a period, on a processor of its own."""

    def act(self, action: FloatArray) -> FloatArray:
        began_s = time.thread_time()
        while time.thread_time() - began_s < 0.008:
            pass
        return super().act(action)


def bench_of(robot: type[FakeRobot]) -> Bench:
    def opened() -> GuardedRig:
        return GuardedRig(SingleLane(robot()), Envelope(FAKE_SPEC))

    return Bench(RobotUnderTest(name="the arm", open=opened, start=starts_of(FAKE_SPEC), realtime=True))


def keeps_time(robot: type[FakeRobot], machine: Lateness | None = None) -> CheckResult:
    """The result of the check; with `machine` as the measure of this computer, if it is given."""
    bench = bench_of(robot)
    try:
        if machine is not None:
            bench.meter.since = lambda began_s: machine  # pyright: ignore[reportAttributeAccessIssue]
        return run_check(check_keeps_time, bench, lambda: None)
    finally:
        bench.close()


def burn() -> None:
    while True:
        np.ones(1000).sum()


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """The processors of this computer, with this many processes for each that only compute."""
    spawn = multiprocessing.get_context("spawn")
    started = [spawn.Process(target=burn, daemon=True) for _ in range(processes * (os.cpu_count() or 1))]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


IDLE = Lateness(median_s=0.0001, worst_s=0.001, slowness=1.0)
LATE = Lateness(median_s=0.05, worst_s=0.08, slowness=1.1)
STARVED = Lateness(median_s=0.001, worst_s=0.08, slowness=20.0)
"""Far more than explains the slow driver, because the computer of the test may be late as well."""


def test_a_slow_driver_is_named_on_a_computer_that_is_on_time() -> None:
    found = keeps_time(Slow, IDLE)
    assert found.result == "failed"
    assert "the driver is slow" in found.detail
    assert "this computer itself woke processes up to 1.0 ms late" in found.detail


@pytest.mark.realtime
@pytest.mark.parametrize("machine", [LATE, STARVED])
def test_what_a_late_computer_explains_is_not_blamed_on_the_driver(machine: Lateness) -> None:
    found = keeps_time(Slow, machine)
    assert found.result == "does not apply"
    assert "no fault of the driver" in found.detail
    assert "up to 80.0 ms late" in found.detail


@pytest.mark.parametrize("sign", ["No new action came for 62 ms.", "wrist latest frame is too old: 567.0 ms."])
@pytest.mark.parametrize(
    ("machine", "says"), [(IDLE, "it was on time"), (LATE, "the computer, not the driver, was late")]
)
def test_a_missed_action_and_an_old_image_name_their_cause(machine: Lateness, says: str, sign: str) -> None:
    bench = Bench(
        RobotUnderTest(
            name="the arm",
            open=lambda: GuardedRig(SingleLane(FakeRobot()), Envelope(FAKE_SPEC)),
            start=starts_of(FAKE_SPEC),
            realtime=True,
        )
    )
    bench.meter.close()
    bench.meter.since = lambda began_s: machine  # pyright: ignore[reportAttributeAccessIssue]
    tripped = CheckResult(name="stop_holds", rule="", result="failed", detail=f"-> {sign}")
    assert says in conformance._explained(tripped, bench, 0.0).detail  # pyright: ignore[reportPrivateUsage]
    other = CheckResult(name="stop_holds", rule="", result="failed", detail="-> It moved.")
    assert conformance._explained(other, bench, 0.0) == other  # pyright: ignore[reportPrivateUsage]


@pytest.mark.slow
def test_the_meter_measures_for_as_long_as_the_checks_take() -> None:
    meter = LatenessMeter()
    try:
        began_s = time.monotonic()
        while len(meter._samples) < 3000:  # pyright: ignore[reportPrivateUsage]  more than a pipe holds
            assert time.monotonic() - began_s < 100.0
            time.sleep(0.1)
        now_s = time.monotonic()
        while meter.since(now_s).median_s == 0.0:
            assert time.monotonic() - now_s < 10.0, "no sample comes any more"
    finally:
        meter.close()


@pytest.mark.slow
@pytest.mark.realtime
def test_the_meter_sees_the_load_of_the_computer() -> None:
    meter = LatenessMeter()
    try:
        with busy(8):
            time.sleep(1.0)
            began_s = time.monotonic()
            time.sleep(2.0)
            loaded = meter.since(began_s)
        assert loaded.worst_s > 0.002 or loaded.slowness > 1.5, loaded.text
        assert meter.since(time.monotonic() + 10.0) == Lateness(median_s=0.0, worst_s=0.0, slowness=1.0)
    finally:
        meter.close()


@pytest.mark.slow
@pytest.mark.realtime
def test_a_driver_that_computes_is_not_blamed_for_a_busy_computer() -> None:
    with busy(8):
        assert keeps_time(Computing).result != "failed"
