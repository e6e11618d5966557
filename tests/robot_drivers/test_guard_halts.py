"""Whatever trips the guard, it tells the driver to halt: the robot would otherwise carry out its last action."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from enpire.errors import RobotProblem
from robot_drivers.guard_client import GuardedClient, open_guarded
from robot_drivers.guard_settings import GuardSettings
from tests.robot_drivers.guarded_arm import HOME, ONE, acts, lines, resume, until

FAR = np.full((1, 2), 1.0, np.float32)


@contextmanager
def arm(settings: GuardSettings, **options: object) -> Iterator[GuardedClient]:
    """The arm that only its guard stops, placed. Its watchdog sleeps, so that it is not what stops the arm."""
    told = replace(
        settings, driver="tests.robot_drivers.slow_robot:open_unholding", options={**settings.options, **options},
        watchdog_s=300.0,
    )  # fmt: skip
    rig = open_guarded(told)
    try:
        resume(told)
        rig.place(0, HOME)
        yield rig
    finally:
        rig.close()


def driver_is_halted(settings: GuardSettings, cause: str, rig: GuardedClient) -> None:
    """The driver was told to stop after its last action; the guard says why."""
    log = settings.folder.parent / "log"
    until(lambda: lines(log, "still")[-1] > acts(log)[-1], "the driver to be told to halt", patience_s=60.0)
    assert cause in str(rig.status()["tripped"])


def refused(rig: GuardedClient, why: str) -> bool:
    try:
        rig.observe()
        rig.act(FAR, ONE)
    except RobotProblem as problem:
        return why in str(problem)
    return False


def test_an_arm_that_is_not_stopped_moves_on(settings):
    """The control of the tests below: nothing else tells this driver to halt."""
    with arm(settings) as rig:
        rig.act(FAR, ONE)
        time.sleep(0.3)
        log = settings.folder.parent / "log"
        assert lines(log, "still")[-1] < acts(log)[-1]


def test_when_the_envelope_is_left(settings):
    with arm(settings, envelope={"workspace": {"shoulder_rad": [-0.3, 0.3]}}) as rig:
        until(lambda: refused(rig, "envelope was left"), "the envelope to be left")
        driver_is_halted(settings, "The envelope was left: shoulder_rad is", rig)


def test_when_the_driver_reports_a_fault_of_the_robot(settings):
    with arm(settings, error=True) as rig:
        rig.act(FAR, ONE)
        with pytest.raises(RobotProblem, match="corrupt packet"):
            rig.act(FAR, ONE)
        driver_is_halted(settings, "The driver failed.", rig)


def test_when_too_many_actions_are_dropped(settings):
    with arm(settings) as rig:
        rig.act(FAR, ONE)
        sequence = rig._sequence  # pyright: ignore[reportPrivateUsage]
        for _ in range(10):
            rig._sequence = sequence - 1  # pyright: ignore[reportPrivateUsage]  the runner repeats an action
            with pytest.raises(RobotProblem, match="dropped an action because it was repeated|stopped the robot"):
                rig.act(FAR, ONE)
        driver_is_halted(settings, "10 actions in a row were dropped", rig)


def test_a_refused_action_is_no_fault_of_the_driver(settings):
    with arm(settings) as rig:
        rig.act(FAR, ONE)
        with pytest.raises(RobotProblem, match="not finite"):
            rig.act(FAR * np.nan, ONE)
        assert rig.status()["tripped"] == ""
        rig.act(FAR, ONE)
