"""How long a stop takes while the runner hangs: from the command to zero velocity, and the watchdog without a command.

`python benchmarks/stop.py [TRIALS]`: a fake arm in real time behind its guard, a runner process that drives it at 30 Hz
and is stopped with SIGSTOP in each trial. Times include the arm's own braking (100 rad/s2 from at most 3 rad/s).
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

from robot_drivers.guard_client import GuardControl, start_guard  # noqa: E402
from robot_drivers.guard_settings import GuardSettings  # noqa: E402
from robot_drivers.resume_code import keep  # noqa: E402

RUNNER = ROOT / "tests" / "robot_drivers" / "driving_runner.py"
PATIENT_S = 30.0
CODE = "the benchmark's"


def stamps(log: Path, word: str) -> list[int]:
    """Nanoseconds of every line of the arm's log that begins with a word."""
    if not log.exists():
        return []
    return [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith(word)]


def until(true: Callable[[], object]) -> None:
    """Wait until something is true."""
    deadline_s = time.monotonic() + PATIENT_S
    while not true():
        if time.monotonic() > deadline_s:
            raise TimeoutError("the arm, its guard or its runner does not go on")
        time.sleep(0.005)


def drive(control: GuardControl, log: Path) -> None:
    """Resume, and wait until the arm moves."""
    log.write_text("")
    control.resume("the benchmark", CODE)
    until(lambda: len(stamps(log, "act")) >= 4)


def one_stop(control: GuardControl, runner: int, log: Path) -> tuple[float, float, int]:
    """Hang the runner and stop at once: ms to zero velocity, ms to the answer, commands after it."""
    drive(control, log)
    os.kill(runner, signal.SIGSTOP)
    asked_ns = time.monotonic_ns()
    control.stop("the benchmark says stop")
    answered_ns = time.monotonic_ns()
    still_ns = min(stamp for stamp in stamps(log, "still") if stamp > asked_ns)
    late = sum(stamp > answered_ns for stamp in stamps(log, "act"))
    os.kill(runner, signal.SIGCONT)
    time.sleep(0.05)
    late += sum(stamp > answered_ns for stamp in stamps(log, "act"))
    return (still_ns - asked_ns) / 1e6, (answered_ns - asked_ns) / 1e6, late


def one_watchdog(control: GuardControl, runner: int, log: Path) -> float:
    """Hang the runner and say nothing: ms from its last command to zero velocity."""
    drive(control, log)
    os.kill(runner, signal.SIGSTOP)
    until(lambda: not control.status()["armed"])
    last_ns = stamps(log, "act")[-1]
    still_ns = min(stamp for stamp in stamps(log, "still") if stamp > last_ns)
    control.stop("end of the trial")
    os.kill(runner, signal.SIGCONT)
    return (still_ns - last_ns) / 1e6


def told(name: str, values: list[float]) -> str:
    """One line of statistics."""
    p50, p99 = np.percentile(values, [50, 99])
    return f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {max(values):.1f} ms over {len(values)} trials"


def measure(trials: int) -> None:
    """Run all trials and print the lines that docs/safety.md quotes."""
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
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, runner hung in every trial")
    print(told("stop asked -> zero velocity", [item[0] for item in stops]))
    print(told("stop asked -> answered, latch durable", [item[1] for item in stops]))
    print(f"commands that passed after an answered stop: {sum(item[2] for item in stops)} in {trials} trials")
    print(told("last command -> zero velocity by the watchdog (3 periods are 100 ms)", silent))


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
