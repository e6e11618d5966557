"""Measures how long a stop takes on this computer: it stops a moving fake arm behind its guard many times."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from enpire.types import Start
from robot_drivers.guard_client import open_guarded
from robot_drivers.guard_settings import GuardSettings

MOVING_S = 0.02
"""How long the arm moves before a stop [s]."""
ENOUGH_S = 2.0
"""No further stop begins after this time [s]."""


def measure(trials: int) -> Sequence[float]:
    """Times from the request of a stop to zero velocity [ms]: `trials` of them, fewer on a slow computer.

    Raises:
        RobotProblem: the guard does not start.
    """
    with tempfile.TemporaryDirectory() as folder:
        driver, log = Path(folder) / "arm.py", Path(folder) / "log"
        driver.write_text("from robot_drivers.fake_robot import robot\n")
        rig = open_guarded(
            GuardSettings(
                driver=str(driver), folder=Path(folder) / "arm", options={"log": str(log)}, person_to_resume=False
            )
        )
        took_ms: list[float] = []
        began_s = time.monotonic()
        try:
            while len(took_ms) < trials and time.monotonic() - began_s < ENOUGH_S:
                tick = len(took_ms)
                rig.resume()
                rig.place(0, Start(split="train", index=0, values=(0.0, 0.0), seed=tick))
                rig.act(np.array([[math.sin(tick / 5), 0.0]], np.float32), np.ones(1, np.bool_))
                time.sleep(MOVING_S)
                asked_ns = time.monotonic_ns()
                rig.stop()
                took_ms.append((min(_still(log, asked_ns)) - asked_ns) / 1e6)
        finally:
            rig.close()
        return took_ms


def _still(log: Path, after_ns: int) -> list[int]:
    """Times after `after_ns` at which the speed of the arm was zero, from its log [ns]."""
    lines = (line.split() for line in log.read_text().splitlines())
    return [int(stamp) for word, stamp in lines if word == "still" and int(stamp) > after_ns]
