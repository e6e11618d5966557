"""Processes that outlive the command that started them, found by a mark in their environment (Linux)."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

MARK = "ENPIRE_BENCHMARK_MARK"
"""Environment variable that a command and all its descendants inherit."""


def marked(mark: str, variable: str = MARK) -> Mapping[int, str]:
    """Process id -> command line of the living processes with this mark, this one left out."""
    wanted, found = f"{variable}={mark}".encode(), dict[int, str]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            if (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it ended meanwhile, or belongs to another user
            continue
        if int(folder.name) != os.getpid():
            found[int(folder.name)] = line
    return found


def wait_for_end(mark: str, seconds: float, variable: str = MARK) -> Mapping[int, str]:
    """The marked processes that still live after `seconds`; returns at once when there is none."""
    end_s = time.monotonic() + seconds
    while (living := marked(mark, variable)) and time.monotonic() < end_s:
        time.sleep(0.1)
    return living


def end(mark: str, grace_s: float) -> None:
    """End all marked processes: SIGTERM, and SIGKILL for those that still live after `grace_s`."""
    for sign, seconds in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sign)
        if not wait_for_end(mark, seconds):
            return
