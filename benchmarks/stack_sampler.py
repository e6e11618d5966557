"""Where the main thread of a process uses its CPU time: a sampler that costs under 1 % of a core.

A process whose environment has `FOLDER`, and `sitecustomize` from `prepare` on its path, samples itself. Each sample
counts with the CPU time of the main thread since the sample before, so that waiting counts nothing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

FOLDER = "ENPIRE_SAMPLES"
"""Environment variable with the folder that gets one file for each process: PID.json."""
ROOT = Path(__file__).resolve().parents[1]
EVERY_S, WRITE_S = 0.01, 2.0
PACKAGES = ("enpire/", "agent_loop/", "web_ui/")
TURN = "enpire/loop.py:turn"


def prepare(folder: Path) -> Mapping[str, str]:
    """Environment variables with which a Python process samples itself into `folder`."""
    (folder / "sitecustomize.py").write_text("from benchmarks.stack_sampler import begin\n\nbegin()\n")
    return {FOLDER: str(folder), "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def begin() -> None:
    """Sample this process until it ends, if its environment says so."""
    if folder := os.environ.get(FOLDER):
        threading.Thread(target=_sample, args=(Path(folder),), daemon=True).start()


def _sample(folder: Path) -> None:
    main = threading.main_thread().ident
    if main is None:
        return
    clock = time.pthread_getcpuclockid(main)
    before_s, written_s, spent = time.clock_gettime(clock), time.monotonic(), Counter[str]()
    while True:
        time.sleep(EVERY_S)
        now_s = time.clock_gettime(clock)
        for name in set(_functions(sys._current_frames().get(main))):
            spent[name] += now_s - before_s  # type: ignore[assignment]
        spent["all"] += now_s - before_s  # type: ignore[assignment]
        before_s = now_s
        if time.monotonic() - written_s > WRITE_S:
            written_s = time.monotonic()
            part = folder / f"{os.getpid()}.part"
            part.write_text(json.dumps(spent))
            part.replace(folder / f"{os.getpid()}.json")


def _functions(frame: FrameType | None) -> list[str]:
    """Functions of our packages on a stack, down to a turn of the orchestrator's loop."""
    found: list[str] = []
    while frame is not None:
        path = frame.f_code.co_filename.removeprefix(f"{ROOT}/")
        if path.startswith(PACKAGES):
            found.append(f"{path}:{frame.f_code.co_qualname}")
        if found and found[-1] == TURN:
            return found
        frame = frame.f_back
    return ["outside the loop"]


def shares(folder: Path, pid: int) -> list[tuple[str, float]]:
    """(function, share of the CPU time of the main thread with this function on its stack), largest first.

    Functions outside the loop (start and end of the process) are one entry.
    """
    file = folder / f"{pid}.json"
    if not file.exists():
        return []
    spent = Counter[str](json.loads(file.read_text()))
    whole = spent.pop("all", 0) or 1.0
    return [(name, seconds / whole) for name, seconds in spent.most_common()]
