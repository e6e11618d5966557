"""The conformance checks of a robot: does it keep the rules that stations rely on? `enpire robot check FILE`.

Each check has a name and a rule. A failed check reports what was measured. The same checks run on every driver of
ENPIRE, in its own process, behind a guard, over ZeroMQ and over DDS.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from enpire.conformance import CheckResult, ConformanceReport, StationRobot, run_check
from enpire.errors import RobotProblem
from enpire.interfaces import Rig
from enpire.types import Start, TaskSpec
from robot_drivers import conformance_halt, conformance_motion, conformance_spec, conformance_stop
from robot_drivers.conformance_bench import Bench, Operator, RobotUnderTest
from robot_drivers.driver_file import load_robot
from robot_drivers.guard_client import open_guarded
from robot_drivers.guard_rules import NO_ACTION
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.resume_code import make

type Check = Callable[[Bench], None]
type OnResult = Callable[[CheckResult], None]
CHECKS: tuple[Check, ...] = (
    *conformance_spec.CHECKS, *conformance_motion.CHECKS, *conformance_stop.CHECKS, *conformance_halt.CHECKS,
)  # fmt: skip
SIGNS_OF_LATENESS = (NO_ACTION, "frame is too old")
"""What a late computer causes, as the guard and LeRobot's cameras report it: their threads wait for a processor."""


def count_checks() -> int:
    """How many checks there are."""
    return len(CHECKS)


def check(robot: RobotUnderTest, on_result: OnResult = lambda result: None) -> ConformanceReport:
    """Run every check on one robot; `on_result` gets each result when it is known."""
    began_s = time.monotonic()
    bench = Bench(robot)
    results: list[CheckResult] = []
    try:
        for rule in CHECKS:
            rule_began_s = time.monotonic()
            result = run_check(rule, bench, lambda: _file_of(bench.rig))
            results.append(_explained(result, bench, rule_began_s))
            on_result(results[-1])
        timing = _timing(bench)
    finally:
        bench.close()
    took_s = time.monotonic() - began_s
    return ConformanceReport(subject=robot.name, results=tuple(results), notes=(timing,), took_s=took_s)


def check_rig(robot: StationRobot, on_result: OnResult = lambda result: None) -> ConformanceReport:
    """Check a robot as its station opens it. THE ROBOT MOVES.

    The operator who runs the checks watches the robot, so the checks resume it after each of their stops: with the
    code, if it is behind a guard that asks for one.
    """
    resume = Operator(robot.ask_code, robot.say).resume
    return check(
        RobotUnderTest(name=robot.name, open=robot.open, start=robot.start, realtime=robot.realtime, resume=resume),
        on_result,
    )


def check_file(
    path: Path, on_result: OnResult = lambda result: None, settings: GuardSettings | None = None
) -> ConformanceReport:
    """Check the robot of a driver file behind its guard, as a station runs it. THE ROBOT MOVES.

    Args:
        path: the driver file.
        on_result: gets each result when it is known.
        settings: of the guard. Without them the guard has a folder of its own and a watchdog of three periods.
    """
    with tempfile.TemporaryDirectory(prefix="enpire-check-") as folder:
        used = settings or GuardSettings(driver=str(path), folder=Path(folder))
        spec = load_robot(path, {key: value for key, value in used.options.items() if key != "envelope"}).spec
        return check(guarded_robot(used, spec), on_result)


def guarded_robot(settings: GuardSettings, spec: TaskSpec) -> RobotUnderTest:
    """A robot behind its guard. The operator who runs the checks watches it, so the checks resume it.

    They resume it with a code that is made for this run.
    """
    code = make(settings.folder) if settings.person_to_resume else ""  # without one the guard does not start
    operator = Operator(lambda: code, print)
    return RobotUnderTest(
        name=settings.driver, open=lambda: open_guarded(settings), start=starts_of(spec),
        realtime=settings.pace == "realtime", resume=operator.resume,
    )  # fmt: skip


def starts_of(spec: TaskSpec) -> Callable[[int], Start]:
    """Starts for a robot without a task: every value zero."""
    return lambda index: Start(split="train", index=index, values=(0.0,) * len(spec.start_names), seed=index)


def _explained(result: CheckResult, bench: Bench, began_s: float) -> CheckResult:
    """A failed check, with the lateness of this computer where that may be the cause."""
    if result.result != "failed" or not any(sign in result.detail for sign in SIGNS_OF_LATENESS):
        return result
    machine = bench.meter.since(began_s)
    wakes_s = machine.worst_s + conformance_motion.WAKES * machine.median_s
    late = wakes_s > bench.spec.period_s or machine.slowness > 2
    cause = "the computer, not the driver, was late; check the robot when it is idle" if late else "it was on time"
    return replace(result, detail=f"{result.detail} Meanwhile {machine.text}: {cause}.")


def _file_of(rig: Rig) -> str | None:
    return getattr(sys.modules.get(type(rig).__module__), "__file__", None)


def _timing(bench: Bench) -> str:
    try:
        return conformance_motion.timing(bench)
    except RobotProblem as problem:
        return f"timing not measured ({problem})"
