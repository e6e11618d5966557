"""Runs every check on one task: `enpire task check NAME`. It needs no simulator other than the task's."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import cast

from enpire import plugins
from enpire.conformance import CheckResult, ConformanceReport, run_check
from enpire.interfaces import Task
from sim.task_check import rig_checks, skill_checks, spec_checks
from sim.task_check.bench import Bench

type Check = Callable[[Bench], None]
type OnResult = Callable[[CheckResult], None]
CHECKS: tuple[Check, ...] = (*spec_checks.CHECKS, *rig_checks.CHECKS, *skill_checks.CHECKS)


def count_checks() -> int:
    """How many checks there are."""
    return len(CHECKS)


def check_task(name: str, on_result: OnResult = lambda result: None) -> ConformanceReport:
    """Run every check on the task of that name; `on_result` gets each result when it is known.

    Raises:
        EnpireError: there is no such task. A listed task that cannot be made is a failed check.
    """
    if name not in plugins.names("tasks"):
        plugins.load("tasks", name)

    def make() -> Task:
        return cast("Callable[[], Task]", plugins.load("tasks", name))()

    return check_made(name, make, on_result)


def check_made(name: str, make: Callable[[], Task], on_result: OnResult = lambda result: None) -> ConformanceReport:
    """Run every check on the tasks that `make` makes; the first check, whether it is a task, must pass for the rest."""
    bench, began_s = Bench(make), time.process_time()
    results: list[CheckResult] = []
    for rule in CHECKS:
        results.append(run_check(rule, bench, lambda: _file_of(bench)))
        on_result(results[-1])
        if results[0].result == "failed":
            break
    took_s = time.process_time() - began_s
    return ConformanceReport(subject=name, results=tuple(results), notes=tuple(bench.notes), took_s=took_s)


def _file_of(bench: Bench) -> str | None:
    """The file of the task's class; None while no task could be made."""
    return getattr(sys.modules.get(type(vars(bench).get("task")).__module__), "__file__", None)
