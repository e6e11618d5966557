"""Limits of the room of an agent: memory and processes, by a cgroup where one may be made, and by measuring everywhere.

The limits of single processes (`limit_this_process`) hold everywhere. They do not limit the sum over processes, nor the
number of processes of root, so a room is measured several times a second and ended when it uses too much.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from enpire.store import removal

CGROUPS = Path("/sys/fs/cgroup")
MEASURED_EVERY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomLimits:
    """What one agent session may use."""

    memory_bytes: int = 3 * 2**30
    """Memory of all its processes together."""
    address_bytes: int = 0
    """Addresses of one process; 0: as `memory_bytes`; -1: not limited, for programs that reserve more than they use."""
    processes: int = 64
    """Processes and threads; -1: not limited by the kernel for single processes."""
    scratch_bytes: int = 256 * 2**20
    """Each of its folders; they lie in memory."""
    file_bytes: int = 64 * 2**20
    """One file."""
    files: int = 256
    """Open files of one process."""
    output_bytes: int = 16 * 2**20
    """What it prints; the rest is dropped."""


def limit_this_process(limits: RoomLimits) -> None:
    """Limit this process and its children, for good. Called inside the room before the agent's code is loaded."""
    wanted = {
        resource.RLIMIT_AS: limits.address_bytes or limits.memory_bytes, resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.files, resource.RLIMIT_CORE: 0, resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_MEMLOCK: 0,
    }  # fmt: skip
    for kind, most in wanted.items():
        _, hard = resource.getrlimit(kind)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if most >= 0:
            resource.setrlimit(kind, (value, value))


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A control group (version 2) for one room."""

    folder: Path

    @classmethod
    def make(cls, name: str, limits: RoomLimits, root: Path = CGROUPS) -> Cgroup | None:
        """A cgroup next to that of this process; None where there is none or this user may not make one."""
        own = _own_cgroup()
        if own is None:
            return None
        parent = root if own == "/" else (root / own.lstrip("/")).parent
        try:
            enabled = (parent / "cgroup.subtree_control").read_text(encoding="ascii").split()
            if not {"memory", "pids"} <= set(enabled) or not os.access(parent / "cgroup.procs", os.W_OK):
                return None
            made = cls(parent / name)
            made.folder.mkdir()
        except OSError:
            return None
        try:
            made.set("memory.max", limits.memory_bytes)
            made.set("pids.max", limits.processes)
            made.set("memory.swap.max", 0, needed=False)
            made.set("memory.oom.group", 1, needed=False)
        except OSError:
            made.remove()
            return None
        return made

    def set(self, name: str, value: int, *, needed: bool = True) -> None:
        """Set one limit; one that is not needed may be missing in this kernel."""
        with contextlib.nullcontext() if needed else contextlib.suppress(OSError):
            (self.folder / name).write_text(str(value), encoding="ascii")

    def remove(self) -> None:
        """End its processes and remove it."""
        with contextlib.suppress(OSError):
            (self.folder / "cgroup.kill").write_text("1", encoding="ascii")
        for _ in range(50):
            with contextlib.suppress(OSError):
                removal.remove_empty(self.folder, self.folder.parent)
                return
            time.sleep(0.02)


def _own_cgroup() -> str | None:
    """Path of the cgroup of this process; None where the system has no cgroups of version 2."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)


def excess(pid: int, limits: RoomLimits) -> str:
    """Which limit the processes below `pid` exceed, as a sentence; empty if none."""
    most = limits.processes + 4  # bubblewrap and its first process are not the agent's
    threads, memory = used_below(pid, most)
    if threads > most:
        return f"The agent ran more than {limits.processes} processes and threads, which are allowed at most."
    if memory > limits.memory_bytes:
        return f"The agent used {memory >> 20} MiB of memory; at most {limits.memory_bytes >> 20} MiB are allowed."
    return ""


def used_below(pid: int, most: int = sys.maxsize) -> tuple[int, int]:
    """(threads, bytes of memory) of the processes that descend from a process. Memory of files is not counted.

    It stops at more than `most` threads: processes that multiply may do so faster than they are read.
    """
    threads, total, todo = 0, 0, children(pid)
    while todo and threads <= most:
        process = Path(f"/proc/{todo.pop()}")
        with contextlib.suppress(OSError, ValueError):
            status = _status(process / "status")
            threads += status["Threads"]
            total += 1024 * (status.get("RssAnon", 0) + status.get("RssShmem", 0))
            todo += children(int(process.name))
    return threads, total


def children(pid: int) -> list[int]:
    """Processes that a process has started and that still run; none where the system does not tell."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - called often
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    return found


def _status(path: Path) -> dict[str, int]:
    """The numbers of /proc/PID/status; sizes in KiB."""
    found: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name in ("Threads", "RssAnon", "RssShmem"):
            found[name] = int(value.split()[0])
    return found
