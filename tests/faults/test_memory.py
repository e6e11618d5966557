"""Memory runs out: the learner is ended and resumes later, station and guard are never ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from enpire.campaign.campaign import AgentPlan
from enpire.fleet.station_processes import start_station
from enpire.home import open_home
from enpire.interfaces import ImprovementJob
from enpire.processes.child_process import end_process
from enpire.processes.training_process import TrainingProcess
from enpire.steps.agent_process import AgentProcess
from robot_drivers.guard_client import GuardControl, start_guard
from robot_drivers.guard_settings import GuardSettings
from tests.agent_loop.pretend_lab import Running
from tests.chaos.harness import until
from tests.fakes.point_task import point_station

LIMIT_BYTES = 700 << 20
HELD_BYTES = LIMIT_BYTES // 2
HOLDING = f"input(); held = bytearray(b'x') * {HELD_BYTES}; print('holding', flush=True); input()"
ROUNDS = 3


@pytest.fixture
def little_memory() -> Iterator[Path]:
    """A control group whose processes share little memory."""
    version_one, version_two = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/cgroup.controllers")
    if version_one.is_dir():
        root, limit = version_one, "memory.limit_in_bytes"
    elif version_two.exists() and "memory" in version_two.read_text():
        root, limit = version_two.parent, "memory.max"
    else:
        pytest.skip("no control group for memory here")
    group = root / f"enpire-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(LIMIT_BYTES))
    except OSError as problem:
        pytest.skip(f"this user may make no control groups ({problem.strerror})")
    yield group
    group.rmdir()


def test_processes_set_the_order_in_which_linux_ends_them(tmp_path: Path) -> None:
    """Agents are ended before the learner, the learner before stations, the guard of a robot last."""
    driver = tmp_path / "arm.py"
    driver.write_text("from robot_drivers.fake_robot import robot\n")
    guard = start_guard(GuardSettings(driver=str(driver), folder=tmp_path / "arm", person_to_resume=False))
    running: list[subprocess.Popen[bytes]] = [guard]
    agent = AgentProcess(lane="one", plan=AgentPlan(name="search"), folder=tmp_path / "lane", seed=1)
    try:
        running.append(start_station(point_station(tmp_path, "cell"), "inproc://nobody", tmp_path / "logs"))
        running.append(TrainingProcess.begin(_job(tmp_path / "run"), module="tests.faults.memory_hog_learner").process)
        with Running(open_home(tmp_path / "home"), paused=True) as loop:
            agent.turn(loop.lab)
            assert agent.process is not None
            everybody = [*(process.pid for process in running), agent.process.pid]
            until(lambda: len(set(map(_score, everybody))) == len(everybody), "everybody to have said it")
            scores = [_score(pid) for pid in everybody]
            agent.end()
    finally:
        for process in running:
            end_process(process)
        assert guard.stderr is not None
        guard.stderr.close()
    assert scores == sorted(scores)
    assert scores[0] <= _score(os.getpid()) < scores[1], "the orchestrator keeps its own score"


def _score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@pytest.mark.slow
def test_the_learner_is_ended_first_and_resumes_and_the_guard_is_never_ended(
    little_memory: Path, tmp_path: Path
) -> None:
    driver = tmp_path / "arm.py"
    driver.write_text("from robot_drivers.fake_robot import robot\n")
    train = partial(TrainingProcess.begin, module="tests.faults.memory_hog_learner")
    settings = GuardSettings(driver=str(driver), folder=tmp_path / "arm", person_to_resume=False)
    guard = start_guard(settings)
    station = start_station(point_station(tmp_path, "cell"), "inproc://nobody", tmp_path / "logs")
    # More than the learner ever gets: the learner goes first only because of its score.
    other = subprocess.Popen([sys.executable, "-c", HOLDING], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    running: list[subprocess.Popen[bytes]] = [guard, station, other]
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        for process in running:
            (little_memory / "cgroup.procs").write_text(str(process.pid))
        other.stdin.write(b"\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"holding\n"
        for round_ in range(ROUNDS):
            job = _job(tmp_path / f"run{round_}")
            training = train(job)
            running.append(training.process)
            (little_memory / "cgroup.procs").write_text(str(training.process.pid))
            (training.folder / "go").touch()
            assert training.process.wait(600) == -9
            assert training.was_killed()
            again = training.again(train, job)
            assert again.process.wait(600) == 0
            assert again.metrics() == {"loss": 0.5}
            assert [process.poll() for process in (guard, station, other)] == [None] * 3
        with GuardControl(settings.card) as control:
            assert control.status()
    finally:
        for process in running:
            end_process(process)
        for pipe in (guard.stderr, other.stdin, other.stdout):
            assert pipe is not None
            pipe.close()


def _job(work: Path) -> ImprovementJob:
    return ImprovementJob(
        recipe={}, task="point", parent=None, episodes=[], work=work, output=work / "out", round=1, seed=0
    )  # fmt: skip
