"""The room of an agent: no way out, no private file, no process left running, and limits that hold.

`benchmarks/attacks/room.py` attacks the room of a whole campaign; `tests/attacks` runs that.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.attacks._intruder import tries
from enpire.campaign.campaign import AgentPlan
from enpire.home import open_home
from enpire.processes.child_process import end_process, start_python
from enpire.processes.relay import Relay, enter, server_of
from enpire.processes.room import RoomPlan, open_room
from enpire.processes.room_limits import Cgroup, RoomLimits, limit_this_process, used_below
from enpire.processes.sandbox import Sandbox, bubblewrap, python_command, python_files, python_path, sandboxed
from enpire.processes.system_calls import filter_program
from enpire.steps.agent_process import AgentProcess
from tests.agent_loop.pretend_lab import CAMPAIGN, Running
from tests.fakes.waiting import until

needs_bubblewrap = pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or is not allowed here")


def inside(line: str, sandbox: Sandbox | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a line of Python in a sandbox with the filter of system calls."""
    seen = sandbox or Sandbox()
    with tempfile.TemporaryFile() as calls:
        calls.write(filter_program())
        calls.seek(0)
        command = sandboxed(
            replace(seen, reads=(*python_files(), *seen.reads)), [*python_command(), "-c", line],
            filter_fd=calls.fileno(),
        )  # fmt: skip
        around = {"PYTHONPATH": os.pathsep.join(map(str, python_path())), **variables}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=600, env=around, pass_fds=[calls.fileno()]
        )


@needs_bubblewrap
def test_python_and_its_packages_work_inside() -> None:
    made = Path(f"/tmp/made-inside-{os.getpid()}")
    line = f"import numpy, anthropic, enpire.loop, agent_loop.room; open({str(made)!r}, 'w').write('x'); print('all')"
    done = inside(line)
    assert done.stdout == "all\n", done.stderr
    assert not made.exists()


@needs_bubblewrap
def test_only_system_python_and_loaded_packages_are_visible() -> None:
    line = "import os; print(*[os.path.join(a, x) for a in ('/', {root!r}, '/etc', '/dev') for x in os.listdir(a)])"
    root = Path(__file__).resolve().parents[3]
    seen = set(inside(line.format(root=str(root))).stdout.split())
    assert not {str(root / name) for name in (".git", "docs", "configs", "pyproject.toml", "README.md")} & seen
    assert str(root / "enpire") in seen
    assert {path for path in seen if path.startswith("/etc")} <= {
        "/etc", "/etc/ssl", "/etc/pki", "/etc/alternatives", "/etc/localtime", "/etc/ld.so.cache"
    }  # fmt: skip
    assert not {"/home", "/var", "/run", "/mnt", "/sys", "/boot", "/srv"} & seen
    assert len([path for path in seen if path.startswith("/dev/")]) < 20


@needs_bubblewrap
def test_the_home_is_hidden_also_where_it_lies_in_a_visible_folder(tmp_path: Path) -> None:
    home = tmp_path / "package" / ".enpire"
    home.mkdir(parents=True)
    (home / "secret").write_text("x")
    (tmp_path / "package" / "data.txt").write_text("y")
    sandbox = Sandbox(reads=(tmp_path / "package",), hidden=(home,))
    done = inside(
        f"import os; print(os.listdir({str(home)!r}), open({str(home.parent / 'data.txt')!r}).read())", sandbox
    )
    assert done.stdout == "[] y\n", done.stderr


@needs_bubblewrap
def test_the_sandbox_has_no_terminal_and_no_session_of_its_starter() -> None:
    done = inside("import os; print(open('/proc/self/stat').read().split()[6], os.getsid(0) != 0); open('/dev/tty')")
    assert done.stdout.startswith("0 "), done.stdout
    assert "No such device or address" in done.stderr


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_no_child_of_the_loop_shares_its_terminal(tmp_path: Path) -> None:
    process = start_python("http.server", ["0", "--bind", "127.0.0.1"], tmp_path / "log.txt")
    try:
        assert os.getsid(process.pid) == process.pid != os.getsid(0)
    finally:
        end_process(process)


def test_most_attacks_on_the_room_succeed_without_a_room(tmp_path: Path) -> None:
    """The positive control of `leave the room`: a try that fails everywhere would show nothing."""
    home = open_home(tmp_path / "home")
    home.secret()
    for name in ("ledger.db", "mcp_token", "web.db", "keys/a", "stations/b", "episodes/c", "inbox/d", "agents/e"):
        (home.root / name).parent.mkdir(exist_ok=True)
        (home.root / name).write_text("x")
    (home.inbox / "operator" / "campaign").mkdir(parents=True)
    harmless = ("see the home", "see ", "read ", "signal", "connect", "find a variable", "write")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        about = {
            "home": str(home.root), "pid": str(os.getpid()), "port": str(listening.getsockname()[1]),
            "beside": str(home.root / "mcp_token"), "code": str(tmp_path),
        }  # fmt: skip
        failed: list[str] = []
        for name, attempt in tries(about):
            if name.startswith(harmless) and not name.startswith(
                ("write /usr", "write /dev", "write /evil", "write /proc")
            ):
                try:
                    attempt()
                except (OSError, KeyError, StopIteration):
                    failed.append(name)
    assert [name for name in failed if "home" in name or name.startswith(("signal", "connect", "read", "write"))] == []


@needs_bubblewrap
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_all_child_processes_end_with_the_sandbox(tmp_path: Path, how: signal.Signals) -> None:
    """Own sessions, double forks, ignored signals: all processes end with the sandbox, and not after ten minutes."""
    mark = f"lingering {tmp_path}"
    line = f"import tests.enpire.processes.test_sandbox as here; here.linger({mark!r})"
    reads = (*python_files(), Path(__file__).resolve().parents[3] / "tests")
    around = {"PYTHONPATH": os.pathsep.join(map(str, python_path()))}
    process = subprocess.Popen(sandboxed(Sandbox(reads=reads), [*python_command(), "-c", line]), env=around)
    try:
        until(lambda: len(_carrying(mark)) == LINGERING)
        process.send_signal(how)
        until(lambda: not _carrying(mark), "their end", 60.0)
    finally:
        end_process(process)


LINGERING = 6


def linger(mark: str) -> None:
    """Start processes in own sessions and groups, orphaned, that ignore signals."""
    deaf = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(600)"
    for _ in range(LINGERING):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-c", deaf, mark])
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


class Nosy:
    """An agent that reports in its first turn what it finds, and ends."""

    def __init__(self, context, options) -> None:
        self.context = context

    def turn(self, tools, brief) -> str:
        (self.context.work / "note.txt").write_text("x")
        print("\x1b[2J printed")
        facts = {
            "campaign": brief["campaign"]["id"],
            "open": [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.exists()],
            "score": int(Path("/proc/self/oom_score_adj").read_text()),
            "processes": [path.name for path in Path("/proc").iterdir() if path.name.isdigit()],
            "variables": sorted(os.environ),
        }
        return "done: " + json.dumps(facts)


@needs_bubblewrap
def test_an_agent_of_a_campaign_runs_in_its_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = open_home(tmp_path / "home")
    for name in ("MY_PASSPHRASE", "MY_SETTING", "DATABASE_URL", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "x")
    plan = AgentPlan(name="tests.enpire.processes.test_sandbox:Nosy")
    with Running(home, campaign=replace(CAMPAIGN, agents=(plan,)), paused=True) as lab:
        lab.until(lambda lab: list(lab.ledger.events(kinds=("agent ended",))), turns=20_000)
        [session] = lab.lab.agent_sessions
        assert isinstance(session, AgentProcess)
        log = (session.folder / "log.txt").read_text()
        [turned] = lab.ledger.events(kinds=("agent turned",))
        [started] = lab.ledger.events(kinds=("agent started",))
    assert started.body["sandbox"] == "bubblewrap"
    assert "Traceback" not in log
    assert "\x1b" not in log
    assert "printed" in log
    facts = json.loads(str(turned.body["text"]).removeprefix("done: "))
    assert facts["campaign"] == "C1"
    assert facts["score"] == 1000
    assert len(facts["processes"]) <= 3, "its room's own, and no other"
    assert len([target for target in facts["open"] if target.startswith("socket:")]) == 1
    allowed = {"HOME", "LANG", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "TZ"}
    numbers = {
        name for name in facts["variables"] if name.endswith("_NUM_THREADS") or name.startswith(("LC_", "PYTHONHASH"))
    }
    assert set(facts["variables"]) - numbers <= allowed
    assert not (session.folder / "work" / "note.txt").exists(), "its folder lies in memory"


def test_a_room_without_bubblewrap_runs_the_same_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enpire.processes.room.bubblewrap", tuple)
    lines: list[str] = []
    with open_room(RoomPlan(module="tests.enpire.processes.test_sandbox", work=tmp_path), lines.append) as room:
        hello = room.channel.recv(100)
        room.process.wait(600)
    assert hello == b"hello", lines
    assert room.work == tmp_path
    assert lines == [f"here {tmp_path}"]


def test_a_file_of_the_lab_does_not_replace_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('a module of the laboratory')\n")
    (tmp_path / "part_of_a_lab.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("part_of_a_lab")
    assert tmp_path in python_path()
    around = {"PYTHONPATH": os.pathsep.join(map(str, python_path()))}
    line = "import json, part_of_a_lab; print(json.dumps([1]))"
    done = subprocess.run([*python_command(), "-c", line], env=around, capture_output=True, text=True, check=False)
    assert done.stdout == "[1]\n", done.stderr


@pytest.mark.parametrize("file", ["missing/cgroup.procs", "cgroup.procs"])
def test_a_room_that_cannot_enter_its_cgroup_starts_and_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    (tmp_path / "cgroup.procs").symlink_to("/dev/full")  # it exists and refuses the move
    cgroup = Cgroup((tmp_path / file).parent)
    monkeypatch.setattr(Cgroup, "make", lambda *_: cgroup)
    monkeypatch.setattr(Cgroup, "remove", lambda _: None)
    monkeypatch.setattr("enpire.processes.room.bubblewrap", tuple)
    monkeypatch.setattr("enpire.processes.room.excess", lambda pid, limits: "too much" if hello else "")
    monkeypatch.setenv("ROOM_WAITS", "yes")
    hello = b""
    plan = RoomPlan(module="tests.enpire.processes.test_sandbox", work=tmp_path, variables=("ROOM_WAITS",))
    with open_room(plan, lambda line: None) as room:
        hello = room.channel.recv(100)
        room.process.wait(600)
    assert hello == b"hello"
    assert room.why == "too much"


def test_a_killed_room_leaves_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enpire.processes.room.bubblewrap", tuple)
    for name in (variables := ("ROOM_FORKS", "ROOM_WAITS")):
        monkeypatch.setenv(name, "yes")
    plan = RoomPlan(module="tests.enpire.processes.test_sandbox", work=tmp_path, variables=variables)
    with open_room(plan, lambda line: None) as room:
        room.channel.settimeout(60)
        assert [room.channel.recv(5) for _ in range(2)] == [b"hello", b"hello"], "one of each process"
        room.process.kill()
        assert room.channel.recv(100) == b""


def test_the_room_of_a_process_counts_its_children() -> None:
    def size(mib: int) -> subprocess.Popen[bytes]:
        line = f"x = bytearray(b'x' * {mib * 2**20}); import time; time.sleep(60)"
        return subprocess.Popen([sys.executable, "-c", f"import os; os.fork(); {line}"])

    threads, before = used_below(os.getpid())
    process = size(64)
    try:
        until(lambda: used_below(os.getpid())[1] - before > 2 * 64 * 2**20)
        assert threads + 2 <= used_below(os.getpid())[0] > used_below(os.getpid(), 0)[0], "a limit ends the count"
    finally:
        process.kill()
        process.wait()


def test_limits_hold_for_a_process() -> None:
    line = (
        "from enpire.processes.room_limits import *\n"
        "limit_this_process(RoomLimits(memory_bytes=2**30, file_bytes=2**20, files=32, processes=-1))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "def tried(make):\n    try:\n        make()\n    except (OSError, MemoryError, ValueError) as problem:\n"
        "        return type(problem).__name__\n"
        "import tempfile\n"
        "print(tried(lambda: bytearray(2**31)), tried(lambda: tempfile.TemporaryFile().write(bytes(2**21))),"
        " tried(lambda: [tempfile.TemporaryFile() for _ in range(40)]),"
        " tried(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))) if os.getuid() else 'ValueError')"
    )
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["MemoryError", "OSError", "OSError", "ValueError"], done.stderr
    assert callable(limit_this_process)


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files like those of a cgroup file system of version 2; this process is in user/enpire.scope."""
    monkeypatch.setattr("enpire.processes.room_limits._own_cgroup", lambda: "/user/enpire.scope")
    parent = tmp_path / "user"
    parent.mkdir()
    (parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (parent / "cgroup.procs").write_text("")
    return tmp_path


def test_a_room_gets_a_cgroup_where_one_may_be_made(cgroups: Path) -> None:
    made = Cgroup.make("room", RoomLimits(memory_bytes=2**30, processes=7), cgroups)
    assert made is not None
    assert made.folder == cgroups / "user" / "room"
    assert (made.folder / "memory.max").read_text() == str(2**30)
    assert (made.folder / "pids.max").read_text() == "7"


@pytest.mark.parametrize("missing", ["cgroup.subtree_control", "cgroup.procs"])
def test_there_is_no_cgroup_where_none_may_be_made(cgroups: Path, missing: str) -> None:
    (cgroups / "user" / missing).unlink()
    assert Cgroup.make("room", RoomLimits(), cgroups) is None
    assert not (cgroups / "user" / "room").exists()


def test_there_is_no_cgroup_without_its_controllers(cgroups: Path) -> None:
    (cgroups / "user" / "cgroup.subtree_control").write_text("cpu pids\n")
    assert Cgroup.make("room", RoomLimits(), cgroups) is None


def answering(answer: bytes) -> tuple[socket.socket, list[bytes]]:
    """A server that keeps what it receives and answers once."""
    listening, received = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                received.append(connection.recv(65536))
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return listening, received


def test_the_relay_leads_to_the_named_servers_only() -> None:
    (named, received), (other, untouched) = answering(b"HTTP/1.1 200 OK\r\n\r\nyes"), answering(b"no")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    port, foreign = named.getsockname()[1], other.getsockname()[1]
    Relay(ours, [server_of(f"http://127.0.0.1:{port}")])
    entry = enter(theirs)

    def asked(request: str) -> bytes:
        with socket.create_connection(("127.0.0.1", entry), 10) as connection:
            connection.sendall(request.encode())
            answer = b""
            while block := connection.recv(65536):
                answer += block
                if b"established" in answer and not block.endswith(b"yes"):
                    connection.sendall(b"through")
            return answer

    with named, other, ours, theirs:
        assert asked(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n").endswith(b"yes")
        assert asked(
            f"GET http://127.0.0.1:{port}/a?b=c HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"
        ).endswith(b"yes")
        assert received == [b"through", b"GET /a?b=c HTTP/1.1\r\nConnection: close\r\nHost: x\r\n\r\n"]
        for target in (f"127.0.0.1:{foreign}", f"localhost:{port}", "169.254.169.254:80", f"127.1:{port}"):
            assert b"403 Forbidden" in asked(f"CONNECT {target} HTTP/1.1\r\n\r\n")
        assert b"403 Forbidden" in asked(f"GET http://127.0.0.1:{foreign}/ HTTP/1.1\r\n\r\n")
        assert asked("nonsense\r\n\r\n") == b""
    assert untouched == []


if __name__ == "__main__":
    if "ROOM_FORKS" in os.environ:
        os.fork()
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.sendall(b"hello")
    print("here", os.environ["HOME"])
    time.sleep(600 if "ROOM_WAITS" in os.environ else 0)
