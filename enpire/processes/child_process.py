"""Child processes of the orchestrator: each ends with its parent and uses one core."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from enpire.processes.core_shares import share_cores
from enpire.processes.credentials import without_credentials
from enpire.store import durable

_PR_SET_PDEATHSIG = 1
PARENT = "ENPIRE_PARENT"
"""Variable with the process id of the parent, for `die_with_parent`."""
_LAST = -900
_SET_OOM_SCORE = '{ echo "$0" > /proc/self/oom_score_adj; } 2> /dev/null; exec "$@"'
"""Shell line that sets the out-of-memory score of the process, then becomes the command. Other systems ignore it."""


class ChildProcess(Protocol):
    """A started process, on this machine (`subprocess.Popen`) or on another."""

    pid: int

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None while it runs."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns the exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        ...


def die_with_parent(sent: int = signal.SIGTERM) -> None:
    """Ask the kernel to signal this process when its parent ends, even by kill -9. Linux only; no effect elsewhere."""
    if not sys.platform.startswith("linux"):
        return
    # The parent may have ended before this line, so its id comes from the environment.
    parent = int(os.environ.pop(PARENT, os.getppid()))
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, sent, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), sent)


def allow_open_files() -> None:
    """Raise the limit on open files of this process to the highest that it may have.

    libzmq 4.3.5 aborts its process when it cannot accept a connection to a Unix socket for want of a descriptor.
    """
    with suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def resist_oom_kill() -> int:
    """Ask Linux to end other processes first when memory runs out; returns the out-of-memory score that was set."""
    score = Path("/proc/self/oom_score_adj")
    for wanted in (_LAST, 0):
        try:
            score.write_text(str(wanted), encoding="ascii")
        except OSError:
            continue  # only root may lower the score; other systems have no such file
        return wanted
    return 0


def single_core_environment(*own: str, **more: str) -> Mapping[str, str]:
    """The environment of a child process that uses one core and gets no credentials but its `own`."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**without_credentials(os.environ, own), **threads, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Priority and out-of-memory score of a child process."""

    nice: int = 0
    """Added to the niceness of the process; the session that it leads gets this one."""
    oom_score: int = 0
    """Its `oom_score_adj`, 0 to 1000: when memory runs out, Linux kills the highest score first."""


def start_python(
    module: str,
    arguments: list[str],
    log: Path,
    limits: ProcessLimits = ProcessLimits(),
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `python -m module arguments` in the background, its output appended to `log`.

    It has a session of its own: Ctrl-C in the terminal does not reach it, and it cannot type into the terminal.
    """
    durable.make_folder(log.parent)
    command = [sys.executable, "-m", module, *arguments]
    variables = {**(environment or single_core_environment()), PARENT: str(os.getpid())}
    if limits.nice:
        command = ["nice", "-n", str(limits.nice), *command]
    if limits.oom_score:
        command = ["sh", "-c", _SET_OOM_SCORE, str(limits.oom_score), *command]
    try:
        output = log.open("ab")
    except OSError as error:
        raise durable.refusal(error, log) from error
    with output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=variables
        )
    if limits.nice:
        with suppress(RuntimeError):  # no thread can start: the child then has the share of a usual session
            threading.Thread(target=share_cores, args=(process.pid, limits.nice), daemon=True).start()
    return process


def end_process(process: ChildProcess, patience_s: float = 1.0) -> None:
    """Send SIGTERM, and SIGKILL after `patience_s`; returns when the process has ended."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
