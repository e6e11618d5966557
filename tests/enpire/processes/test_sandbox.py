"""The sandbox of an agent: no writes outside, no private files, no processes left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.campaign import AgentPlan
from enpire.home import Home, open_home
from enpire.processes.child_process import ProcessLimits, end_process, start_python
from enpire.processes.sandbox import Sandbox, bubblewrap, sandboxed
from enpire.steps.agent_process import AgentProcess
from tests.agent_loop.pretend_lab import CAMPAIGN, Running

pytestmark = pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or the kernel allows no rooms")

CORPUS = {
    "a file beside its folder": "open('{home}/mine', 'w')",
    "the ledger": "open('{home}/ledger.db', 'r+b')",
    "an episode that is not there yet": "os.makedirs('{home}/episodes/new')",
    "a configuration that nobody has yet": "os.makedirs('{cwd}/.claude')",
    "a hook of git": "open('{cwd}/.git/hooks/post-checkout', 'w')",
    "the code of ENPIRE": "open('{cwd}/enpire/loop.py', 'a')",
    "a start file of Python": "open(os.path.join(sys.prefix, 'lib', 'evil.pth'), 'w')",
    "a file of the shell": "open(os.path.expanduser('~/.bashrc'), 'r+')",
    "a link to the outside, written through": "os.symlink('{home}/ledger.db', 'link') or open('link', 'r+b')",
    "the root of another process": "open('/proc/%d/root{home}/mine' % {pid}, 'w')",
    "a second mount": "subprocess.run(['mount', '-o', 'remount,rw', '/'], check=True)",
    "the secret of the hidden starts": "open('{home}/secret').read()[0]",
    "the keys of the stations": "open('{home}/keys/cell-7.secret')",
    "the spool of a station": "os.listdir('{home}/stations')[0]",
    "the people's passwords": "open('{home}/web.db').read()[0]",
    "keys of the user": "os.listdir(os.path.expanduser('~/.ssh'))",
    "the network": "socket.create_connection(('127.0.0.1', {port}), 1)",
    "a socket of the system": "os.listdir('/run')[0]",
    "another process": "os.kill({pid}, 0)",
}
"""Attack -> one line of code that tries it."""
TRY = "import os, socket, subprocess, sys\n{line}\nprint('through')"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = open_home(tmp_path / "home")
    found.private()
    (found.stations / "cell").mkdir()
    for path in (found.ledger, found.keys / "cell-7.secret", found.root / "web.db"):
        path.write_text("x")
    return found


@pytest.fixture
def sandbox(home: Home, tmp_path: Path) -> Sandbox:
    work = tmp_path / "work"
    work.mkdir()
    return Sandbox(reads=(home.root,), writes=(work,), hidden=home.private())


@pytest.mark.parametrize("attack", CORPUS)
def test_no_attack_leaves_the_sandbox(home: Home, sandbox: Sandbox, attack: str) -> None:
    listening = subprocess.Popen(
        [sys.executable, "-c", "import socket,time; s=socket.create_server(('127.0.0.1',0)); "
         "print(s.getsockname()[1], flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert listening.stdout is not None
    port = int(listening.stdout.readline())
    line = CORPUS[attack].format(home=home.root, cwd=Path.cwd(), pid=listening.pid, port=port)
    before = {path: path.stat().st_mtime_ns for path in home.root.rglob("*")}
    try:
        tried = subprocess.run(
            sandboxed(sandbox, [sys.executable, "-c", TRY.format(line=line)]), cwd=sandbox.writes[0],
            capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
    finally:
        listening.kill()
        listening.communicate()
    assert "through" not in tried.stdout
    assert "Error" in tried.stderr, "the line itself must fail, not its start"
    assert {path: path.stat().st_mtime_ns for path in home.root.rglob("*")} == before


def test_allowed_work_succeeds_in_the_sandbox(home: Home, sandbox: Sandbox) -> None:
    line = (
        f"open('note.txt', 'w').write('seen ' + open('{home.ledger}').read()); import numpy, enpire; "
        "open('/tmp/scratch', 'w').write('x')"
    )
    told = subprocess.run(
        sandboxed(sandbox, [sys.executable, "-c", TRY.format(line=line)]), cwd=sandbox.writes[0],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert told.stdout == "through\n", told.stderr
    assert (sandbox.writes[0] / "note.txt").read_text() == "seen x"
    assert not Path("/tmp/scratch").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_all_child_processes_end_with_the_sandbox(sandbox: Sandbox, tmp_path: Path, how: signal.Signals) -> None:
    """Own sessions, double forks, ignored signals: all processes end within a second after the sandbox."""
    work, log = sandbox.writes[0], tmp_path / "log.txt"
    process = start_python(
        "tests.enpire.processes.test_sandbox", ["linger", str(work)], log, ProcessLimits(sandbox=sandbox)
    )
    mark = f"lingering {work}"
    try:
        _until(lambda: len(_carrying(mark)) == LINGERING, log)
        process.send_signal(how)
        _until(lambda: not _carrying(mark), log, 1.0)
    finally:
        end_process(process)


LINGERING = 6


def linger(folder: str) -> None:
    """Start processes in own sessions and groups, orphaned, that ignore signals."""
    deaf = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(600)"
    for _ in range(LINGERING):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-c", deaf, f"lingering {folder}"])
            os._exit(0)
    time.sleep(600)


def _carrying(mark: str) -> list[int]:
    """Processes of this machine whose arguments hold the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
    return found


def _until(seen, log: Path, patience_s: float = 30.0) -> None:
    until_s = time.monotonic() + patience_s
    while not seen():
        assert time.monotonic() < until_s, log.read_text()
        time.sleep(0.02)


class Nosy:
    """An agent that reports in its first turn what it finds, and ends."""

    def __init__(self, place, options) -> None:
        self.place = place

    def turn(self, tools, brief) -> str:
        home = Path(os.environ["NOSY_HOME"])
        facts = {
            "campaign": brief["campaign"]["id"],
            "seen": [path.name for path in home.iterdir() if path.is_file() and os.access(path, os.R_OK)],
            "open": [path.name for path in Path("/proc/self/fd").iterdir()],
            "score": int(Path("/proc/self/oom_score_adj").read_text()),
            "processes": [path.name for path in Path("/proc").iterdir() if path.name.isdigit()],
        }
        (self.place.work / "facts.json").write_text(json.dumps(facts))
        return "done: looked around"


def test_an_agent_lane_of_a_campaign_runs_in_its_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = open_home(tmp_path / "home")
    monkeypatch.setenv("NOSY_HOME", str(home.root))
    plan = AgentPlan(name="tests.enpire.processes.test_sandbox:Nosy")
    with Running(home, campaign=replace(CAMPAIGN, agents=(plan,)), paused=True) as lab:
        ended = ("agent ended",)
        lab.until(lambda lab: bool(list(lab.ledger.events(kinds=ended))))
        [lane] = lab.lab.agent_sessions
        assert isinstance(lane, AgentProcess)
        assert "Traceback" not in (told := (lane.folder / "log.txt").read_text()), told
        [started] = lab.ledger.events(kinds=("agent started",))
        assert started.body["sandbox"] == "bubblewrap"
        facts = json.loads((lane.folder / "work" / "facts.json").read_text())
    assert facts["campaign"] == "C1"
    assert "ledger.db" in facts["seen"]
    assert not {"secret", "web.db"} & set(facts["seen"])
    assert facts["score"] == 1000
    assert len(facts["processes"]) <= 3, "its sandbox's own, and nobody else"
    assert len(facts["open"]) <= 5, "standard streams, the listing itself, and what Python opens"


if __name__ == "__main__":
    linger(sys.argv[2])
