"""What every child process of the orchestrator has in common: it ends with its parent and keeps to one core."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from enpire.processes.credentials import without_credentials
from enpire.processes.sandbox import Sandbox, bubblewrap, inside
from enpire.store import durable

_PR_SET_PDEATHSIG = 1
_PARENT = "ENPIRE_PARENT"
_LAST = -900
_EXPENDABLE = '{ echo "$0" > /proc/self/oom_score_adj; } 2> /dev/null; exec "$@"'
"""Says so before it becomes the command; nothing where the system has no such file."""


class ChildProcess(Protocol):
    """A process that was started, here (`subprocess.Popen`) or on another machine."""

    pid: int

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None while it runs."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code. subprocess.TimeoutExpired when that takes longer than `timeout` seconds."""
        ...


def die_with_parent(sent: int = signal.SIGTERM) -> None:
    """Ask the kernel to signal this process when its parent ends, even by kill -9. Linux only; elsewhere nothing."""
    if not sys.platform.startswith("linux"):
        return
    # The parent may have died before this line; only who started this process knows who it was.
    parent = int(os.environ.pop(_PARENT, os.getppid()))
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, sent, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), sent)


def resist_oom_kill() -> int:
    """Ask Linux to end every other process first when memory runs out, as far as this user may ask; the score then."""
    score = Path("/proc/self/oom_score_adj")
    for wanted in (_LAST, 0):
        try:
            score.write_text(str(wanted), encoding="ascii")
        except OSError:
            continue  # only root may ask for less than it was born with; elsewhere there is no such file
        return wanted
    return 0


def single_core_environment(*own: str, **more: str) -> Mapping[str, str]:
    """The environment of a child that must not spread over cores that others use, with no credentials but its `own`."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**without_credentials(os.environ, own), **threads, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """How much a child process may, beside others."""

    nice: int = 0
    """Added to its niceness."""
    oom_score: int = 0
    """Its `oom_score_adj`, 0 to 1000: when memory runs out, Linux kills the highest first."""
    room: Sandbox | None = None
    """Where bubblewrap can make rooms, it runs in this one."""


def start_python(
    module: str,
    arguments: list[str],
    log: Path,
    standing: ProcessLimits = ProcessLimits(),
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `python -m module arguments` in the background, its output appended to `log`.

    Ctrl-C in the terminal does not reach it: the parent decides how it ends.
    """
    durable.make_folder(log.parent)
    command = [sys.executable, "-m", module, *arguments]
    around = {**(environment or single_core_environment()), _PARENT: str(os.getpid())}
    if standing.room is not None and bubblewrap():
        command = inside(standing.room, command)
        del around[_PARENT]  # which is another one inside
    if standing.nice:
        command = ["nice", "-n", str(standing.nice), *command]
    if standing.oom_score:
        command = ["sh", "-c", _EXPENDABLE, str(standing.oom_score), *command]
    try:
        output = log.open("ab")
    except OSError as error:
        raise durable.refusal(error, log) from error
    with output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0, env=around
        )


def end_process(process: ChildProcess, patience_s: float = 1.0) -> None:
    """SIGTERM, and SIGKILL after `patience_s`; returns when it has ended."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
