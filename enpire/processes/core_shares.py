"""Shares of the processor cores. Linux with autogroups (sched(7)) divides the cores among sessions first.

The niceness of a process counts only within its session. Each child of the orchestrator leads a session, so without
this module robots in simulation, training and agents would each get as much of a core as the orchestrator.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from enpire.processes.room_limits import children

_OWN = Path("/proc/self/autogroup")
_TRIES, _AGAIN_S = 100, 0.11
"""Without CAP_SYS_ADMIN, Linux takes one change in a tenth of a second."""


def low_priority() -> str:
    """Why robots may wait for this process, as a sentence; empty while its session has the usual niceness."""
    try:
        nice = int(_OWN.read_text().rpartition(" nice ")[2])  # "/autogroup-7 nice 19"
    except (OSError, ValueError):
        return ""  # no autogroups, or this process is in a CPU group of its own
    if nice <= 0:
        return ""
    return (
        f"The session of this process has a niceness of {nice} ({_OWN}): robots in simulation and learners may get "
        "more of a core, and robots may wait for orders. Start it in another session (a new login), or as root: "
        f"echo 0 > /proc/{os.getpid()}/autogroup"
    )


def share_cores(pid: int, nice: int, tries: int = _TRIES) -> bool:
    """Give the session of a process a niceness, 0 to 19; returns whether the system took it.

    Each further try waits a tenth of a second. The open file remains that of this process when its id is used again.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/autogroup", os.O_WRONLY)
    except OSError:
        return False  # the process has ended, or the system has no autogroups
    try:
        for again in range(tries):
            if again:
                time.sleep(_AGAIN_S)
            with suppress(BlockingIOError):
                os.write(descriptor, str(nice).encode())
                return True
    except OSError:
        pass  # it has ended meanwhile
    finally:
        os.close(descriptor)
    return False


def share_with_sessions(pid: int, nice: int, known: Collection[int] = (), most: int = sys.maxsize) -> set[int]:
    """Give a niceness to the sessions of a process and of those below it; returns those that have it.

    It looks at no more than `most` processes and does not wait: a later call, which gets what this one returned as
    `known`, tries the others again.
    """
    sessions, tried, todo = set(known), set(known), [pid]
    while todo and most > 0:
        process, most = todo.pop(), most - 1
        with suppress(OSError):
            session = os.getsid(process)
            if session not in tried and share_cores(process, nice, tries=1):
                sessions.add(session)
            tried.add(session)
        todo += children(process)
    return sessions
