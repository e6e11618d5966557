"""Measures how long a stop takes while the runner hangs, from the request or by the watchdog to zero velocity.

`python benchmarks/stop.py [TRIALS]`: a fake arm in real time behind its guard, and a runner process that moves it at
30 Hz and is suspended (SIGSTOP) in each trial. Times include the braking of the arm (100 rad/s2 from at most 3 rad/s).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import Measured, report  # noqa: E402
from robot_drivers.guard_client import GuardControl, start_guard  # noqa: E402
from robot_drivers.guard_settings import GuardSettings  # noqa: E402
from robot_drivers.resume_code import keep  # noqa: E402

RUNNER = ROOT / "tests" / "robot_drivers" / "driving_runner.py"
MOST_MS = 300.0
"""Promised 99th percentile from the request of a stop to zero velocity [ms]."""
PATIENT_S = 30.0
"""Longest wait for the arm, its guard or its runner [s]."""
CODE = "the benchmark's"


def stamps(log: Path, word: str) -> list[int]:
    """Times of the lines of the arm's log that begin with a word [ns]."""
    if not log.exists():
        return []
    return [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith(word)]


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds; TimeoutError after `PATIENT_S`."""
    deadline_s = time.monotonic() + PATIENT_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"The arm, its guard or its runner did nothing for {PATIENT_S:.0f} s.")
        time.sleep(0.005)


def drive(control: GuardControl, log: Path) -> None:
    """Resume the robot, and wait until the arm moves."""
    log.write_text("")
    control.resume("the benchmark", CODE)
    until(lambda: len(stamps(log, "act")) >= 4)


def one_stop(control: GuardControl, runner: int, log: Path) -> tuple[float, float, int]:
    """Suspend the runner, then stop: time to zero velocity [ms], time to the answer [ms], actions after the answer."""
    drive(control, log)
    os.kill(runner, signal.SIGSTOP)
    requested_ns = time.monotonic_ns()
    control.stop("the benchmark")
    answered_ns = time.monotonic_ns()
    still_ns = min(stamp for stamp in stamps(log, "still") if stamp > requested_ns)
    late = sum(stamp > answered_ns for stamp in stamps(log, "act"))
    os.kill(runner, signal.SIGCONT)
    time.sleep(0.05)
    late += sum(stamp > answered_ns for stamp in stamps(log, "act"))
    return (still_ns - requested_ns) / 1e6, (answered_ns - requested_ns) / 1e6, late


def one_watchdog(control: GuardControl, runner: int, log: Path) -> float:
    """Suspend the runner, without a stop: time from its last action to zero velocity [ms]."""
    drive(control, log)
    os.kill(runner, signal.SIGSTOP)
    until(lambda: not control.status()["armed"])
    last_ns = stamps(log, "act")[-1]
    still_ns = min(stamp for stamp in stamps(log, "still") if stamp > last_ns)
    control.stop("end of the trial")
    os.kill(runner, signal.SIGCONT)
    return (still_ns - last_ns) / 1e6


def statistics(name: str, values: list[float]) -> str:
    """One line of statistics."""
    p50, p99 = np.percentile(values, [50, 99])
    return f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {max(values):.1f} ms over {len(values)} trials"


def measure(trials: int) -> int:
    """Run all trials and print the lines that docs/safety.md quotes; 1 when a promise is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        log, driver = Path(folder) / "log", Path(folder) / "arm.py"
        driver.write_text("from robot_drivers.fake_robot import robot\n")
        settings = GuardSettings(driver=str(driver), folder=Path(folder) / "arm", options={"log": str(log)})
        keep(settings.folder, CODE)
        guard = start_guard(settings)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        runner = subprocess.Popen([sys.executable, str(RUNNER), str(settings.folder)], env=environment)
        try:
            with GuardControl(settings.card) as control:
                until(lambda: control.status()["runner"])
                stops = [one_stop(control, runner.pid, log) for _ in range(trials)]
                silent = [one_watchdog(control, runner.pid, log) for _ in range(trials)]
        finally:
            os.kill(runner.pid, signal.SIGCONT)
            runner.kill()
            runner.wait()
            guard.kill()
            guard.communicate()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, runner suspended in every trial")
    print(statistics("stop requested -> zero velocity", [item[0] for item in stops]))
    print(statistics("stop requested -> answered, latch on disk", [item[1] for item in stops]))
    print(f"actions that passed after an answered stop: {sum(item[2] for item in stops)} in {trials} trials")
    print(statistics("last action -> zero velocity by the watchdog (3 periods are 100 ms)", silent))
    stopped_ms, silent_ms = (float(np.percentile(one, 99)) for one in ([item[0] for item in stops], silent))
    return report(
        [
            Measured(name="stop requested to zero velocity, p99", value=stopped_ms, unit="ms", most=MOST_MS),
            Measured(name="watchdog, last action to zero velocity, p99", value=silent_ms, unit="ms"),
            Measured(name="actions that passed after an answered stop", value=sum(item[2] for item in stops), most=0),
        ]
    )


if __name__ == "__main__":
    sys.exit(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
