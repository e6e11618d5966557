"""The niceness of sessions. Each test runs real processes; where Linux has no autogroups, the niceness of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from enpire.interfaces import ImprovementJob
from enpire.processes import core_shares, training_process
from enpire.processes.child_process import ProcessLimits, end_process, start_python
from enpire.processes.core_shares import share_cores, share_with_sessions
from enpire.processes.room import RoomPlan, open_room
from enpire.processes.room_limits import children
from enpire.processes.sandbox import bubblewrap
from tests.fakes.waiting import until

NICE = training_process.NICE
AUTOGROUPS = Path("/proc/self/autogroup").exists()
SLEEP = "import time; time.sleep(600)"


def session_nice(pid: int) -> int:
    """The niceness of a session; without autogroups that of the process."""
    if not AUTOGROUPS:
        return os.getpriority(os.PRIO_PROCESS, pid)
    return int(Path(f"/proc/{pid}/autogroup").read_text().rsplit(" ", 1)[1])


def below(pid: int) -> list[int]:
    return [one for child in children(pid) for one in (child, *below(child))]


def test_the_session_of_a_child_gets_its_niceness(tmp_path: Path) -> None:
    nice = ProcessLimits(nice=7, oom_score=500)
    child = start_python("tests.enpire.processes.sleeping", [], tmp_path / "log.txt", nice)
    usual = start_python("tests.enpire.processes.sleeping", [], tmp_path / "log.txt")
    try:
        until(lambda: session_nice(child.pid) == 7)
        assert session_nice(usual.pid) == (0 if AUTOGROUPS else os.getpriority(os.PRIO_PROCESS, 0))
    finally:
        for process in (child, usual):
            end_process(process)


def test_a_training_run_is_as_nice_as_robots_in_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_process, "NICE", NICE)
    job = ImprovementJob(
        recipe={}, task="", parent=None, episodes=(), work=tmp_path / "work", output=tmp_path / "v", round=1, seed=1
    )
    run = training_process.TrainingProcess.begin(job, module="tests.enpire.processes.sleeping")
    try:
        until(lambda: session_nice(run.process.pid) == 10)
    finally:
        run.end()


def test_new_sessions_below_a_process_get_the_niceness_and_known_ones_are_left() -> None:
    line = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
    first = subprocess.Popen([sys.executable, "-c", line], start_new_session=True)
    try:
        until(lambda: len(below(first.pid)) == 1 and os.getsid(below(first.pid)[0]) != first.pid)
        (second,) = below(first.pid)
        if AUTOGROUPS:
            both = {first.pid, second}
            until(lambda: share_with_sessions(first.pid, 6, {first.pid}) == both)
            assert (session_nice(first.pid), session_nice(second)) == (0, 6)
            seen: set[int] = set()
            until(lambda: seen.update(share_with_sessions(first.pid, 5, seen)) or seen == both)
            assert (session_nice(first.pid), session_nice(second)) == (5, 5)
    finally:
        for pid in (*below(first.pid), first.pid):
            os.kill(pid, 9)
        first.wait()


@pytest.mark.parametrize("sandbox", [True, False])
def test_every_session_of_a_room_gets_the_niceness_of_its_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: bool
) -> None:
    if not sandbox:
        monkeypatch.setattr("enpire.processes.room.bubblewrap", tuple)
    monkeypatch.setattr("enpire.processes.room.os.nice", lambda _: 4)
    tests = Path(__file__).resolve().parents[2]
    lines: list[str] = []
    with open_room(
        RoomPlan(module="tests.enpire.processes.sleeping", work=tmp_path, reads=(tests,)), lines.append
    ) as room:
        sessions = 3 if sandbox and bubblewrap() else 2  # bubblewrap makes one, and the process that runs in it

        def has_it() -> bool:
            there = [room.process.pid, *below(room.process.pid)]
            enough = len({os.getsid(pid) for pid in there}) == sessions
            return enough and (not AUTOGROUPS or {session_nice(pid) for pid in there} == {4})

        until(has_it, f"every session has it; the room printed {lines}")
        room.process.kill()


@pytest.mark.parametrize("nice", [0, 5])
def test_a_process_in_a_session_of_low_priority_says_so(nice: int) -> None:
    line = "import os; from enpire.processes.core_shares import *; "
    line += f"share_cores(os.getpid(), {nice}); print(low_priority())"
    said = subprocess.run([sys.executable, "-c", line], stdout=subprocess.PIPE, start_new_session=True, check=True)
    says = "has a niceness of 5 (/proc/self/autogroup)" in said.stdout.decode()
    assert says == (AUTOGROUPS and nice > 0)


@pytest.mark.parametrize("content", [None, "", "/autogroup-7 nice 0\n", "/autogroup-7 nice -5\n"])
def test_the_usual_priority_is_not_reported(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "autogroup"
    if content is not None:
        own.write_text(content)
    monkeypatch.setattr(core_shares, "_OWN", own)
    assert core_shares.low_priority() == ""


def test_a_system_that_takes_one_change_at_a_time_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    answers = [BlockingIOError(), BlockingIOError(), 1]

    def write(*_: object) -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    system = {"open": lambda *_: 0, "close": lambda _: None, "write": write, "O_WRONLY": os.O_WRONLY}
    monkeypatch.setattr(core_shares, "os", SimpleNamespace(**system))
    monkeypatch.setattr(core_shares, "time", type("Clock", (), {"sleep": waited.append}))
    assert not share_cores(1, 5, tries=1)
    assert waited == []
    assert share_cores(1, 5)
    assert len(waited) == 1
    assert answers == []


def test_a_process_that_has_ended_is_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    began = time.monotonic()
    assert not share_cores(process.pid, 5)
    assert share_with_sessions(process.pid, 5) == set()
    assert time.monotonic() - began < 5
