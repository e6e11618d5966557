"""The room of an agent session: a process that holds the agent's code and nothing of the lab.

It runs in a sandbox where bubblewrap works. Three connections lead out of it: a channel, on which it asks for tools;
its output, which is copied up to a limit; and the relay to the servers that its agent names.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from enpire.files import configs_root
from enpire.log_lines import printable
from enpire.processes.child_process import PARENT, end_process
from enpire.processes.core_shares import share_with_sessions
from enpire.processes.credentials import only_allowed
from enpire.processes.relay import Relay, Server
from enpire.processes.room_limits import MEASURED_EVERY_S, Cgroup, RoomLimits, children, excess
from enpire.processes.sandbox import Sandbox, bubblewrap, python_command, python_files, python_path, sandboxed
from enpire.processes.system_calls import filter_program

WORK = Path("/room")
"""The agent's own folder inside a sandbox. It lies in memory and ends with the room."""
_FIRST_STEPS = '{ echo 1000 > "/proc/$$/oom_score_adj"; [ -z "$0" ] || echo 0 > "$0"; } 2> /dev/null; exec "$@"'
"""Shell line that has the system end the room first when memory runs out, moves the process into a cgroup, if there is
one and the system allows it, then becomes the command."""
_BLOCK = 64 * 1024
_SESSIONS_EVERY = 10
"""Looks at a room from one search for new sessions to the next."""
_NUMBERS = itertools.count(1)
"""Rooms of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomPlan:
    """What one room runs, and what it gets."""

    module: str
    """Python module that runs inside, with two numbers: the descriptors of its channel and of its relay (-1: none)."""
    work: Path
    """The agent's own folder where there is no sandbox."""
    variables: tuple[str, ...] = ()
    """Environment variables that pass into the room besides those that always do."""
    servers: frozenset[Server] = frozenset()
    """Servers that it may reach."""
    models: Path | None = None
    """Socket of the model gateway that it may reach."""
    reads: tuple[Path, ...] = ()
    """Files and folders that it may read besides those of the system and of Python: the programs of its agent."""
    binds: tuple[tuple[Path, Path], ...] = ()
    """(file or folder, where it appears in the sandbox): what it may read. Without a sandbox nothing is bound."""
    hidden: tuple[Path, ...] = ()
    """Folders that it must not see wherever they lie: the home of the lab."""
    one_core: bool = False
    """Whether all its processes together use one processor core, which they cannot change inside a sandbox."""
    limits: RoomLimits = field(default_factory=RoomLimits)


@dataclass(slots=True)
class Room:
    """A running room."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    """Our end; a read returns nothing when the room has ended."""
    work: Path
    """The agent's own folder, as the agent sees it."""
    limits: RoomLimits
    """What its processes limit themselves to."""
    reads: tuple[Path, ...] = ()
    """Files and folders that it was given to read."""
    why: str = ""
    """Which limit it exceeded, when it was ended for that."""

    def watch(self, limits: RoomLimits) -> None:
        """End the room when its processes together exceed a limit; returns when it has ended.

        Sessions that begin in the room get its niceness within about a second.
        """
        nice, sessions = os.nice(0), set[int]()
        _hurry(threading.get_native_id())
        for look in itertools.count():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(MEASURED_EVERY_S)
                # A process of bubblewrap that is killed while it starts leaves a child, which holds the channel open.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                return
            if why := excess(self.process.pid, limits):
                self.why = why
                # The first process of a sandbox, the child of ours, takes all others with it.
                for pid in (*children(self.process.pid), self.process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    _hurry(pid)
            elif nice > 0 and look % _SESSIONS_EVERY == 0:
                sessions = share_with_sessions(self.process.pid, nice, sessions, limits.processes + 4)


def _hurry(thread: int) -> None:
    """Give a thread or process precedence where this user may: the kernel does not limit the processes of root."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, -20)


@contextmanager
def open_room(plan: RoomPlan, show: Callable[[str], None]) -> Generator[Room]:
    """Start a room; its processes end with the block.

    Args:
        plan: what it runs.
        show: is called, from another thread, with the lines that the room prints.
    """
    inside: list[socket.socket] = []
    ours, theirs = socket.socketpair()
    inside.append(theirs)
    if plan.servers or plan.models:
        control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        Relay(control, plan.servers, plan.models)
        inside.append(their_control)
    cgroup = Cgroup.make(f"enpire-room-{os.getpid()}-{next(_NUMBERS)}", plan.limits)
    with tempfile.TemporaryFile() as calls, _one_core(plan.one_core):
        process = _start(plan, [end.fileno() for end in inside], calls, cgroup)
    for end in inside:
        end.close()
    # Elsewhere the kernel counts all processes of the user, not those of the room.
    own_users = "--unshare-user" in bubblewrap()
    limits = plan.limits if own_users else replace(plan.limits, processes=-1)
    room = Room(process, ours, WORK if bubblewrap() else plan.work, limits, plan.reads)
    assert process.stdout is not None
    # Also with a cgroup: the system may have refused to move the process into it.
    threads = [
        threading.Thread(target=_copy, args=(process.stdout, show, plan.limits.output_bytes), daemon=True),
        threading.Thread(target=room.watch, args=(plan.limits,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield room
    finally:
        ours.close()
        end_process(process)
        for thread in threads:
            thread.join(5.0)
        process.stdout.close()
        if cgroup is not None:
            cgroup.remove()


@contextmanager
def _one_core(wanted: bool) -> Generator[None]:
    """Children that this thread starts in the block run on one core, chosen by chance."""
    if not wanted or not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {random.choice(sorted(cores))})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _start(plan: RoomPlan, ends: list[int], calls: IO[bytes], cgroup: Cgroup | None) -> subprocess.Popen[bytes]:
    descriptors = [str(end) for end in (*ends, -1)[:2]]
    # Unbuffered: what the agent printed is in its log also if the room is killed.
    command = [*python_command(), "-u", "-m", plan.module, *descriptors]
    path = os.pathsep.join(map(str, python_path()))
    work = WORK if bubblewrap() else plan.work
    variables = {
        **only_allowed(os.environ, plan.variables), "PATH": "/usr/bin:/bin", "PYTHONPATH": path, "HOME": str(work),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    if bubblewrap():
        calls.write(filter_program())
        calls.seek(0)
        reads = (*python_files(), configs_root(), *plan.reads)
        scratch = (WORK, *Sandbox().scratch)
        sandbox = Sandbox(
            reads=reads, binds=plan.binds, hidden=plan.hidden, scratch=scratch,
            scratch_bytes=plan.limits.scratch_bytes,
        )  # fmt: skip
        filter_fd = calls.fileno() if filter_program() else None
        command, ends = sandboxed(sandbox, command, filter_fd=filter_fd), [*ends, calls.fileno()]
    else:
        variables[PARENT] = str(os.getpid())
    command = ["sh", "-c", _FIRST_STEPS, str(cgroup.folder / "cgroup.procs") if cgroup else "", *command]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=variables,
        pass_fds=ends, start_new_session=True,
    )  # fmt: skip


def _copy(output: IO[bytes], show: Callable[[str], None], most: int) -> None:
    """Show what a room prints, line by line, up to `most` bytes; the rest is read and dropped."""
    left, line, decoder = most, "", getincrementaldecoder("utf-8")("replace")
    with contextlib.suppress(OSError, ValueError):
        while block := os.read(output.fileno(), _BLOCK):
            if left <= 0:
                continue
            # A block may end within a line, or within a letter.
            *whole, line = (line + decoder.decode(block[:left])).split("\n")
            for one in whole:
                show(printable(one))
            left -= len(block)
            if len(line) > _BLOCK or left <= 0:
                show(printable(line))
                line = ""
            if left <= 0:
                show(f"[the room has printed {most >> 20} MiB; the rest is dropped]")
    if line:
        show(printable(line))
