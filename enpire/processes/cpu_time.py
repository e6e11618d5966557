"""CPU time of a training run, over all its processes: that of one that was killed counts, too."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from enpire.errors import EnpireError
from enpire.store import durable

FILE = "cpu_time.json"
PERIOD_S = 2.0
"""Period of the writes, in s: a process that is killed loses at most so much wall-clock time of the count."""


def read_cpu_s(folder: Path) -> float:
    """CPU seconds of the run in a folder so far; 0 where none are written."""
    path = folder / FILE
    return float(json.loads(path.read_text(encoding="utf-8"))["cpu_s"]) if path.is_file() else 0.0


@contextmanager
def counting_cpu_time(folder: Path) -> Generator[None]:
    """Count the CPU time of this process and its children, added to that of earlier processes, until the block ends."""
    before_s, began_s, ended = read_cpu_s(folder), _used_s(), threading.Event()

    def write() -> None:
        with suppress(OSError, EnpireError):  # a full disk: the next write has the whole time
            durable.write(folder / FILE, json.dumps({"cpu_s": round(before_s + _used_s() - began_s, 3)}).encode())

    def write_often() -> None:
        while not ended.wait(PERIOD_S):
            write()

    thread = threading.Thread(target=write_often, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        write()


def _used_s() -> float:
    return sum(os.times()[:4])
