"""kill -9 of each process of the lab in each phase of branches: smoke run, search, gate, confirmation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.branch_campaign import STEPS, bodies, kill_in_each_phase, reports_of, running_branches
from tests.chaos.harness import LEARNER, STATION, WAIT_S, Orchestrator, children, command_line, kill_quietly, until
from tests.chaos.test_kill import kill_one

pytestmark = [pytest.mark.timeout(2400)]


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["orchestrator", "station", "learner", "power"])
def test_kills_in_every_phase_of_branches_lose_and_double_nothing(tmp_path: Path, victim: str) -> None:
    killed: list[str] = []
    with running_branches(tmp_path) as running:
        lab, witness, home = running.lab, running.witness, running.lab.home

        def kill(phase: str, present: frozenset[str]) -> Callable[[], object] | None:
            if victim == "learner":
                job = kill_learner(lab, phase, present)
                killed.extend([job] if job else [])
                reports = len(reports_of(home, job))
                return (lambda: len(reports_of(home, job)) > reports) if job else None
            seen, old = len(witness.seen), children(lab.pid, STATION)
            if not kill_one(lab, STATION if victim == "station" else victim):
                return None
            return lambda: len(witness.seen) > seen + 8 and len(set(children(lab.pid, STATION)) - set(old)) > 0

        kill_in_each_phase(lab, running.events, kill)
        for job in killed:
            until(partial(has_ended, home, job), f"the end of the training run {job}", 2 * WAIT_S)
    assert [body["job"] for body in bodies(home, "learner killed")] == killed


def kill_learner(lab: Orchestrator, phase: str, present: frozenset[str]) -> str:
    """Kill a learner that has steps left; returns its training run, empty if none was killed.

    In the phase of smoke runs it is one in its smoke run. In the other phases, another branch or a round trains.
    """
    for pid in children(lab.pid, LEARNER):
        job = Path(next((word for word in command_line(pid).split() if "/learning/" in word), "")).name
        fits = job in present if phase == "smoke" else bool(job)
        if fits and steps_of(lab.home, job) < STEPS - 10 and kill_quietly(pid):
            return job
    return ""


def steps_of(home: Path, job: str) -> int:
    """The steps that a training run, or its smoke run, has done by its newest report."""
    reports = reports_of(home, job)
    return int(str(reports[-1]["done"])) if reports else 0


def has_ended(home: Path, job: str) -> bool:
    """Whether a training run has made its version."""
    return any(body["job"] == job for body in bodies(home, "learner ended"))
