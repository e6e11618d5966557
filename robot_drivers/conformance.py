"""The conformance checks of a robot: does it keep the rules that stations rely on? `enpire robot check FILE`.

Each check has a name and a rule. A failed check reports what was measured. The same checks run on every driver of
ENPIRE, in its own process, behind a guard, over ZeroMQ and over DDS.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from enpire.conformance import CheckResult, ConformanceReport, run_check
from enpire.errors import RobotProblem
from enpire.interfaces import Rig
from enpire.types import Start, TaskSpec
from robot_drivers import conformance_motion, conformance_spec, conformance_stop
from robot_drivers.conformance_bench import Bench, RobotUnderTest
from robot_drivers.driver_file import load_robot
from robot_drivers.guard_client import GuardControl, GuardedClient, open_guarded
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.resume_code import make

type Check = Callable[[Bench], None]
type OnResult = Callable[[CheckResult], None]
CHECKS: tuple[Check, ...] = (*conformance_spec.CHECKS, *conformance_motion.CHECKS, *conformance_stop.CHECKS)


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
            results.append(run_check(rule, bench, lambda: _file_of(bench.rig)))
            on_result(results[-1])
        timing = _timing(bench)
    finally:
        bench.rig.close()
    took_s = time.monotonic() - began_s
    return ConformanceReport(subject=robot.name, results=tuple(results), notes=(timing,), took_s=took_s)


def check_rig(
    name: str,
    open_rig: Callable[[], Rig],
    start: Callable[[int], Start],
    realtime: bool,
    on_result: OnResult = lambda result: None,
) -> ConformanceReport:
    """Check a rig as a station opens it. THE ROBOT MOVES.

    Args:
        name: how the report names the robot.
        open_rig: opens the rig; it is called again after the rig was closed.
        start: gives the start of an index.
        realtime: whether time passes by itself (hardware), not with each action (simulation).
        on_result: gets each result when it is known.
    """
    return check(RobotUnderTest(name=name, open=open_rig, start=start, realtime=realtime), on_result)


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
    code = make(settings.folder) if settings.person_to_resume else ""

    def resume(rig: Rig) -> None:
        with GuardControl(settings.card) as control:
            if control.status()["latched"]:
                control.resume("the operator who runs the conformance checks", code)

    def opened() -> GuardedClient:
        rig = open_guarded(settings)
        resume(rig)
        return rig

    return RobotUnderTest(
        name=settings.driver, open=opened, start=starts_of(spec), realtime=settings.pace == "realtime", resume=resume
    )


def starts_of(spec: TaskSpec) -> Callable[[int], Start]:
    """Starts for a robot without a task: every value zero."""
    return lambda index: Start(split="train", index=index, values=(0.0,) * len(spec.start_names), seed=index)


def _file_of(rig: Rig) -> str | None:
    return getattr(sys.modules.get(type(rig).__module__), "__file__", None)


def _timing(bench: Bench) -> str:
    try:
        return conformance_motion.timing(bench)
    except RobotProblem as problem:
        return f"timing not measured ({problem})"
