"""kill -9 at random moments of the real processes; then the same command again."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path
from typing import cast

import pytest

from enpire.requests import operator_commands
from tests.chaos.harness import LEARNER, STATION, WAIT_S, Orchestrator, Witness, audit, children, kill_quietly, until
from tests.chaos.point_lab import write_campaign


def kill_one(lab: Orchestrator, victim: str) -> bool:
    """Kill a process and restart the orchestrator if it was that; returns whether a process was killed."""
    if victim == "orchestrator":
        lab.kill()
    elif victim == "power":
        lab.kill_all()
    else:
        alive = children(lab.pid, victim)
        return bool(alive) and kill_quietly(alive[0])
    lab.start()
    return True


@pytest.mark.parametrize(("kills", "seed"), [(4, 1), pytest.param(28, 2, marks=[pytest.mark.slow])])
def test_a_campaign_killed_at_random_moments_loses_and_doubles_nothing(tmp_path: Path, kills: int, seed: int) -> None:
    draw = random.Random(seed)
    home = tmp_path / "home"
    lab = Orchestrator(write_campaign(tmp_path / "files"), home)
    witness = Witness.of(home)
    witness.start()
    lab.start()
    victims = ["orchestrator", STATION, "power", LEARNER]
    try:
        for number in range(kills):
            seen = len(witness.seen)
            until(lambda: len(witness.seen) > seen + 4 or not lab.alive, "episodes after a kill")  # noqa: B023
            assert lab.alive, lab.said()[-2000:]
            time.sleep(draw.uniform(0.0, 0.5))
            deadline = time.monotonic() + WAIT_S
            while not kill_one(lab, victims[number % len(victims)]) and time.monotonic() < deadline:
                time.sleep(0.02)
        seen = len(witness.seen)
        until(lambda: len(witness.seen) > seen + 4, "episodes after the last kill")
        assert lab.end() == 130, lab.said()[-2000:]
        lab.start()
        seen = len(witness.seen)
        until(lambda: len(witness.seen) > seen + 4, "episodes after an interruption")
        operator_commands.leave(home / "inbox", "end campaign", operator="the test")
        assert cast("subprocess.Popen[bytes]", lab.process).wait(WAIT_S) == 3, lab.said()[-2000:]
    finally:
        lab.kill_all()
        witness.stop()
    found = audit(home, witness)
    assert found.problems() == []
    assert found.outcomes["success"] > 10
    assert "the learner failed" not in lab.said()
