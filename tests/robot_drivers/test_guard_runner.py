"""The runner hangs or is killed, or the guard is: the arm stops, and stays stopped until an operator resumes it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from enpire.errors import RobotProblem
from robot_drivers.guard_client import GuardControl, start_guard
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.latch import Latch
from robot_drivers.resume_code import keep
from tests.fakes.waiting import until
from tests.robot_drivers.guarded_arm import CODE

PATIENT_S = 30.0
RUNNER = Path(__file__).parent / "driving_runner.py"
ROOT = Path(__file__).resolve().parents[2]


def dropped_any(control: GuardControl) -> bool:
    counts = control.status()["dropped"]
    assert isinstance(counts, dict)
    return any(counts.values())


def lines(log: Path, word: str) -> list[int]:
    if not log.exists():
        return []
    return [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith(word)]


@pytest.fixture
def settings(tmp_path) -> GuardSettings:
    driver = tmp_path / "arm.py"
    driver.write_text("from robot_drivers.fake_robot import robot\n")
    keep(tmp_path / "arm", CODE)
    return GuardSettings(driver=str(driver), folder=tmp_path / "arm", options={"log": str(tmp_path / "log")})


@contextmanager
def guard_and_runner(settings: GuardSettings) -> Iterator[tuple[GuardControl, subprocess.Popen[bytes]]]:
    guard = start_guard(settings)
    runner = subprocess.Popen(
        [sys.executable, str(RUNNER), str(settings.folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    try:
        with GuardControl(settings.card) as control:
            yield control, runner
    finally:
        runner.kill()
        runner.wait()
        guard.kill()
        guard.communicate()


def driving(control: GuardControl, log: Path) -> None:
    """Resume the robot, and wait until the arm moves."""
    before = len(lines(log, "act"))
    control.resume("Ada", CODE)
    until(lambda: len(lines(log, "act")) >= before + 3, "commands")


def test_a_hung_runner_is_noticed_and_what_it_sends_later_does_not_pass(settings):
    log = Path(str(settings.options["log"]))
    with guard_and_runner(settings) as (control, runner):
        driving(control, log)
        os.kill(runner.pid, signal.SIGSTOP)
        until(lambda: control.status()["tripped"], "the watchdog")
        assert "No new action" in str(control.status()["tripped"])
        still, last = lines(log, "still")[-1], lines(log, "act")[-1]
        assert still > last
        control.stop("Ada said stop while the runner hung.")
        assert Latch(settings.latch).read().latched
        passed = len(lines(log, "act"))
        os.kill(runner.pid, signal.SIGCONT)
        until(lambda: dropped_any(control) or runner.poll() is not None, "a late command")
        assert len(lines(log, "act")) == passed


def test_a_killed_runner_latches_the_robot(settings):
    log = Path(str(settings.options["log"]))
    with guard_and_runner(settings) as (control, runner):
        driving(control, log)
        runner.kill()
        until(lambda: "runner is gone" in str(control.status()["latched"]), "the latch")
        assert Latch(settings.latch).read().latched
        assert lines(log, "still")[-1] > lines(log, "act")[-1]
        assert not control.status()["runner"]  # the guard lives on and holds the robot


def kill_guards(settings: GuardSettings, rounds: int) -> None:
    """kill -9 the guard at random moments around a stop: an answered stop is on disk, a restart is latched."""
    chance = random.Random(rounds)
    log = Path(str(settings.options["log"]))
    for _ in range(rounds):
        guard = start_guard(settings)
        with GuardControl(settings.card) as control:
            assert control.status()["latched"]
            assert Latch(settings.latch).read().latched
            control.resume("Ada", CODE)
            killer = subprocess.Popen(["sh", "-c", f"sleep {chance.uniform(0.0, 0.03):.4f}; kill -9 {guard.pid}"])
            answered = False
            try:
                control.stop("a stop at a random moment")
                answered = True
            except RobotProblem:
                answered = False
            killer.wait()
            guard.communicate()
        if answered:
            assert Latch(settings.latch).read().cause == "a stop at a random moment"
    again = start_guard(settings)
    with GuardControl(settings.card) as control:
        assert control.status()["latched"]
        control.quit()
    again.communicate()
    assert not lines(log, "act")


def test_a_guard_killed_at_random_restarts_latched(settings):
    kill_guards(settings, 2)


@pytest.mark.slow
def test_a_guard_killed_at_twenty_random_moments_restarts_latched(settings):
    kill_guards(settings, 20)
