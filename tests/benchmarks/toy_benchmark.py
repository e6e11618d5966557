"""A benchmark of the tests of `benchmarks.overview`: `python -m tests.benchmarks.toy_benchmark HOW`."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.measured import Measured, report

SLOW = [sys.executable, "-c", "import time; time.sleep(600)"]


def main(how: str) -> int:
    """Pass, miss a promise, hide it, raise, run for ever, or leave a process behind."""
    print("seeds     3, 4")
    value = {"pass": 0.5, "miss": 1.5}.get(how, 0.5)
    code = report([Measured(name="toy ratio", value=value, low=0.25, high=0.75, most=1.0), Measured(name="n", value=3)])
    if how == "hide":
        print("FAIL  the tower stands")
    if how == "raise":
        raise OSError("the toy is broken")
    if how == "slow":
        subprocess.Popen(SLOW, start_new_session=True)
        time.sleep(600)
    if how == "leave":
        subprocess.Popen(SLOW, start_new_session=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
