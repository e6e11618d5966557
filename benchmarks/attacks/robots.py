"""Attacks on the stop of robots: LeRobot's own robot classes behind a guard process, with motors in memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.attacks import Result, Run, attack
from enpire.errors import RobotProblem
from enpire.types import Start
from robot_drivers.guard_client import GuardControl, GuardedClient, open_guarded
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.latch import Latch

BRAKES_S, WATCH_S = 0.15, 0.3
"""How long a robot may brake after an answered stop, and how long it is watched then [s]."""
FAR_DEG, FAST_M_S = 80.0, 0.25
"""Target of the joints (over a second away), and speed of a base."""


def moving(folder: Path, robot: str) -> GuardedClient:
    """A robot of `tests.fakes.lerobot_arms` behind its guard, in motion."""
    folder.mkdir()
    options = {"robot": robot, "folder": str(folder)}
    rig = open_guarded(
        GuardSettings(
            driver="tests.fakes.lerobot_arms:open_rig", folder=folder / "guard", options=options,
            person_to_resume=False, watchdog_s=20.0,
        )
    )  # fmt: skip
    rig.place(0, Start(split="train", index=0, values=(), seed=0))
    rig.observe()
    rates = [item.unit for item in rig.spec.action]
    action = [FAST_M_S if unit == "m/s" else 0.0 if unit == "deg/s" else FAR_DEG for unit in rates]
    rig.act(np.array([action if robot != "kiwi" else [0.0] * 6 + action[6:]], np.float32), np.ones(1, np.bool_))
    time.sleep(0.1)
    return rig


def motion(folder: Path, after_ns: int) -> list[tuple[float, float]]:
    """(largest joint speed [deg/s], distance rolled [m]) of every moment after a time, as the motors wrote them."""
    lines = (line.split() for line in (folder / "motion").read_text().splitlines() if line.count(" ") == 2)
    return [(float(speed), float(rolled)) for stamp, speed, rolled in lines if int(stamp) > after_ns]


def stopped(run: Run, robot: str, break_it: Callable[[Path], None]) -> Result:
    """Move, break, stop through the guard, and read from the motors what moved after the stop was answered."""
    moved: list[float] = []
    for number in range(1 if run.quick else 10):
        folder = run.folder / str(number)
        rig = moving(folder, robot)
        try:
            before = motion(folder, 0)
            if not (before[-1][0] > 0 or before[-1][1] > before[0][1]):
                raise RobotProblem("The robot of this attack does not move.")
            break_it(folder)
            try:
                with GuardControl(folder / "guard" / "guard.json") as guard:
                    guard.stop("the attack")
            except RobotProblem:
                pass  # a stop that is refused must still end the motion
            answered_ns = time.monotonic_ns()
            time.sleep(BRAKES_S + WATCH_S)
            seen = motion(folder, answered_ns + round(1e9 * BRAKES_S))
        finally:
            rig.close()
        moved.append(max(max(speed for speed, _ in seen) * WATCH_S, 1e3 * (seen[-1][1] - seen[0][1])))
    unit = "mm" if robot == "kiwi" else "degrees"
    held = sum(one < 1.0 for one in moved)
    evidence = (
        f"in {WATCH_S} s, from {BRAKES_S} s after the answered stop, the robot moved at most {max(moved):.2f} {unit}"
    )
    return Result(tried=len(moved), held=held, evidence=evidence)


@attack("a loose cable", "an arm travels on after a stop")
def camera_gone(run: Run) -> Result:
    """Unplug the camera of an SO-101 in motion: LeRobot then calls the robot disconnected."""
    return stopped(run, "so101", lambda folder: (folder / "gone").touch())


def _freeze(folder: Path) -> None:
    (folder / "stale").touch()
    time.sleep(0.6)  # LeRobot calls an image old after 0.5 s


@attack("a camera that hangs", "an arm travels on after a stop")
def camera_stale(run: Run) -> Result:
    """Freeze the camera of an SO-101 in motion: LeRobot then refuses to read it."""
    return stopped(run, "so101", _freeze)


@attack("a policy", "a wheel rolls on after a stop")
def wheel_in_motion(run: Run) -> Result:
    """Stop a LeKiwi that rolls at 0.25 m/s: its velocity is sensed and commanded under the same name."""
    return stopped(run, "kiwi", lambda folder: None)


@attack("the out-of-memory killer", "a stop that no guard carried out is reported as done")
def guard_killed(run: Run) -> Result:
    """Kill the guard of a LeKiwi in motion, then ask for a stop: it must fail, and the latch file must be closed."""
    tries = 1 if run.quick else 10
    refused = latched = 0
    for number in range(tries):
        folder = run.folder / str(number)
        rig = moving(folder, "kiwi")
        try:
            os.kill(int(str(rig.status()["pid"])), signal.SIGKILL)
            try:
                rig.stop()
            except RobotProblem as problem:
                refused += "emergency stop" in str(problem)
            latched += Latch(folder / "guard" / "latch.json").read().latched
        finally:
            rig.close()
    evidence = (
        f"{refused} of {tries} stops failed with the advice to use the emergency stop; {latched} latches were closed"
    )
    return Result(tried=tries, held=min(refused, latched), evidence=evidence)
