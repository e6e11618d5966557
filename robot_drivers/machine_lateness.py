"""How late this computer itself is, measured beside a driver by a process that only sleeps and counts.

A busy computer wakes processes late and computes slowly. Without this measure a check of a driver blames the driver.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_SAMPLE = struct.Struct("ddd")
_CHILD = """
import struct, sys, time
SLEEP_S, WORK_S = 0.004, 0.0005
while True:
    began_s = time.monotonic()
    time.sleep(SLEEP_S)
    late_s = time.monotonic() - began_s - SLEEP_S
    work_s, own_s = time.monotonic(), time.thread_time()
    while time.thread_time() - own_s < WORK_S:
        pass
    took_s = time.monotonic() - work_s
    sys.stdout.buffer.write(struct.pack("ddd", time.monotonic(), late_s, took_s / WORK_S))
    sys.stdout.buffer.flush()
"""
"""Writes the end, the lateness of a sleep and the slowness of a computation, 200 times a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How late a computer was in one interval."""

    median_s: float
    """By how much a process woke too late, median [s]."""
    worst_s: float
    """The same, largest value [s]."""
    slowness: float
    """Elapsed time over processor time of a short computation, median; 1 on an idle computer."""

    @property
    def text(self) -> str:
        """The measure as a phrase."""
        return (
            f"this computer itself woke processes up to {1e3 * self.worst_s:.1f} ms late"
            f" (median {1e3 * self.median_s:.1f} ms) and took {self.slowness:.1f} times the time to compute"
        )

    def without_it(self, took_s: float, wakes: int) -> float:
        """What a call of `took_s` [s] that wakes processes `wakes` times takes on an idle computer, estimated [s]."""
        return max(0.0, took_s - wakes * self.median_s) / max(self.slowness, 1.0)


def waited_s(processes: Iterable[int]) -> float:
    """How long the threads of these processes have been ready and waited for a processor [s]; 0 where it is unknown."""
    waited_ns = 0
    for process in processes:
        for file in Path(f"/proc/{process}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError, IndexError):  # a thread may end meanwhile
                waited_ns += int(file.read_text().split()[1])
    return waited_ns / 1e9


class LatenessMeter:
    """Measures until it is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CHILD], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        self._samples: deque[tuple[float, float, float]] = deque(maxlen=20_000)
        self._reader = threading.Thread(target=self._read, name="lateness", daemon=True)
        self._reader.start()

    def since(self, began_s: float) -> Lateness:
        """The lateness from a monotonic time until now; all zero when the interval is too short for a sample."""
        rows = [row for row in list(self._samples) if row[0] >= began_s]
        if not rows:
            return Lateness(median_s=0.0, worst_s=0.0, slowness=1.0)
        late = np.array([row[1] for row in rows])
        # The process itself may be late now: the sample that it could not take yet counts, too.
        worst_s = max(float(late.max()), time.monotonic() - rows[-1][0] - 0.01)
        return Lateness(
            median_s=max(0.0, float(np.median(late))),
            worst_s=max(0.0, worst_s),
            slowness=float(np.median([row[2] for row in rows])),
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while len(sample := self._process.stdout.read(_SAMPLE.size)) == _SAMPLE.size:
            self._samples.append(_SAMPLE.unpack(sample))
