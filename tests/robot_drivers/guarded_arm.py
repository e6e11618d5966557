"""Shared by the tests of the guard: the fake arm behind its guard, its log, and the operator who resumes it."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from enpire.types import Start
from robot_drivers.guard_client import GuardControl, GuardedClient, open_guarded
from robot_drivers.guard_settings import GuardSettings
from tests.chaos.harness import children, kill_quietly
from tests.fakes.waiting import until as until

ONE = np.ones(1, np.bool_)
HOME = Start(split="train", index=0, values=(0.0, 0.0), seed=0)
PATIENT_S = 30.0


CODE = "Ada's code"


def guards() -> list[int]:
    """The guards that this process started and that have not ended."""
    return children(os.getpid(), "robot_drivers.guard")


def end_guards(but: Collection[int] = ()) -> None:
    """End them as a test leaves them when it fails: with kill -9."""
    for pid in guards():
        if pid not in but:
            kill_quietly(pid)


def resume(settings: GuardSettings) -> None:
    with GuardControl(settings.card) as control:
        control.resume("Ada", CODE)


def address_of(settings: GuardSettings) -> str:
    with GuardControl(settings.card) as control:
        return control.address


def lines(log: Path, word: str) -> list[int]:
    return [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith(word)]


def acts(log: Path) -> list[int]:
    return lines(log, "act")


def slow(settings: GuardSettings, **options: float) -> GuardedClient:
    """The slow arm, moving, behind a guard with a watchdog time of 1 s."""
    told = replace(
        settings, driver="tests.robot_drivers.slow_robot:open_rig", options={**settings.options, **options},
        watchdog_s=1.0,
    )  # fmt: skip
    rig = open_guarded(told)
    resume(told)
    rig.place(0, HOME)
    rig.act(np.ones((1, 2), np.float32), ONE)
    return rig
