"""Attacks on stops, and on the ledger of an orchestrator that is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.attacks import Result, Run, attack
from benchmarks.chaos_stops import LIMIT_MS, Logs, Stops, event, stop_in_a_flood
from enpire.requests import operator_commands
from tests.chaos.harness import Orchestrator, free_port, newest_event, until
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import environment
from tests.fakes.sample_campaign import CAMPAIGN, record_campaign
from tests.faults.cut_commit import INSIDE, cut_a_commit, is_cut

APART_S = 0.005
"""Time between a resume and the stop that comes after it."""
SETTLED_S = 0.5
"""How long the robots are watched after both commands."""
QUICK_LIMIT_MS = 5000.0
"""Limit of the quick form, which runs next to other tests."""


@contextmanager
def lab(folder: Path) -> Generator[tuple[Path, str, Path]]:
    """(home, address, logs of the robots) of a running campaign with two stations."""
    robots = folder / "robots"
    robots.mkdir()
    address = f"tcp://127.0.0.1:{free_port()}"
    campaign = write_campaign(folder / "files", bind=address, log=robots / "sim")
    running = Orchestrator(campaign, folder / "home")
    running.start()
    try:
        until(lambda: len(list(robots.iterdir())) == 2 and all(map(os.path.getsize, robots.iterdir())), "the robots")
        yield running.home, address, robots
    finally:
        running.kill_all()


@attack("an operator, or a program with the right to resume", "a stop is undone by a resume that was sent before it")
def an_older_resume_against_a_stop(run: Run) -> Result:
    """A resume and a stop 5 ms apart, in both orders of arrival, with file times that say the opposite."""
    trials, held, acts = 4 if run.quick else 40, 0, 0
    with lab(run.folder) as (home, _, robots):
        for number in range(trials):
            seen, order = newest_event(home), ("resume", "stop") if number % 2 else ("stop", "resume")
            left = {kind: _left(home, kind, seen) for kind in order}
            until(lambda stop=left["stop"]: event(home, "command effective", stop), "every station to hold")
            time.sleep(SETTLED_S)
            logs, began_ns = Logs(robots), time.time_ns()
            time.sleep(SETTLED_S)
            moved = sum(len(robot.acts_ns) for robot in logs.read(began_ns, began_ns))
            held, acts = held + (not moved), acts + moved
            resume = operator_commands.leave(home / "inbox", "resume", operator="ann", seen=newest_event(home))
            until(lambda resume=resume: event(home, "command effective", resume), "the robots to be resumed")
    return Result(
        tried=trials, held=held, evidence=f"{acts} actions after {trials} stops, each next to an older resume"
    )


def _left(home: Path, kind: str, seen: int) -> str:
    """Leave a command. Its file seems to be old if it is a stop, and to be of the future if it is a resume."""
    command_id = operator_commands.leave(home / "inbox", kind, operator="ann", seen=seen)
    moment = 2e9 if kind == "resume" else 1e9
    for path in (home / "inbox").rglob(f"{command_id}.json"):
        with contextlib.suppress(FileNotFoundError):  # it is handled already
            os.utime(path, (moment, moment))
    time.sleep(APART_S)
    return command_id


@attack("an agent and a peer without a key", "a stop is late, or a robot moves again, while both flood the lab")
def a_flood_during_a_stop(run: Run) -> Result:
    """Requests of an agent and connections of a peer, without pause, while an operator stops all robots."""
    stops, trials = Stops(), 2 if run.quick else 40
    limit_ms = QUICK_LIMIT_MS if run.quick else LIMIT_MS
    with lab(run.folder) as (home, address, robots):
        for _ in range(trials):
            stop_in_a_flood(home, address, robots, stops)
            time.sleep(SETTLED_S)
    late = sum(held_ms > limit_ms for held_ms in stops.from_accepted_ms)
    text = " ".join(line.strip() for line in stops.lines())
    tried = len(stops.from_accepted_ms)
    return Result(tried=tried, held=max(0, tried - late - len(stops.problems)), evidence=f"{text} {stops.problems}")


@attack("a power cut, or whatever kills the orchestrator", "the ledger needs a hand", programs=("strace",))
def a_kill_inside_a_commit(run: Run) -> Result:
    """kill -9 at each sync of a commit that leaves a hot journal; then one command, which must work and undo it."""
    # The recorded campaign has no files of episodes, so only its ledger can be verified.
    commands = (
        ("ledger", "verify", "--ledger-only"),
        ("campaign", "show"),
        ("report",),
        ("ledger", "recompute"),
        ("campaign", "list"),
    )
    record_campaign(run.folder / "whole")
    tried = held = 0
    for number, words in enumerate(commands[:2] if run.quick else commands):
        for sync in INSIDE[number % 2 :][:1] if run.quick else INSIDE:
            home = run.folder / f"{'-'.join(words)}-{sync}"
            shutil.copytree(run.folder / "whole", home)
            cut_a_commit(home, CAMPAIGN, sync)
            command = [sys.executable, "-m", "enpire.cli", *words, "--home", str(home)]
            code = subprocess.run(command, env=environment(), capture_output=True, check=False).returncode
            tried, held = tried + 1, held + (code == 0 and not is_cut(home))
    return Result(tried=tried, held=held, evidence=f"{held} of {tried} commands undid a write that was cut and worked")
