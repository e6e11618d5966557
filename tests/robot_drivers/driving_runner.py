"""A runner process for tests: moves the fake robot behind a running guard until it is killed or suspended."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import numpy as np

from enpire.errors import RobotProblem
from enpire.files import parse
from enpire.types import Start
from robot_drivers.guard_client import GuardedClient
from robot_drivers.guard_settings import GuardSettings


def drive(folder: Path) -> None:
    """Swing the shoulder at 30 Hz; begin a new rollout after every refusal."""
    settings = parse(GuardSettings, json.loads((folder / "settings.json").read_text()), "settings")
    rig = GuardedClient(settings, lease=1)
    tick = 0
    while True:
        try:
            rig.place(0, Start(split="train", index=0, values=(0.0, 0.0), seed=tick))
            while True:
                tick += 1
                rig.act(np.array([[math.sin(tick / 5), 0.0]], np.float32), np.ones(1, np.bool_))
                time.sleep(rig.spec.period_s)
        except RobotProblem as problem:
            if "has ended" in str(problem):
                return
            time.sleep(0.01)


if __name__ == "__main__":
    drive(Path(sys.argv[1]))
