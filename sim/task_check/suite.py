"""Runs every check on one task: `enpire task check NAME`. Needs neither MuJoCo nor any other simulator itself."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from enpire import plugins
from enpire.errors import EnpireError
from enpire.interfaces import Task
from sim.task_check import rig_checks, skill_checks, spec_checks
from sim.task_check.bench import Bench, DoesNotApply

Check = Callable[[Bench], None]
CHECKS: tuple[Check, ...] = (*spec_checks.CHECKS, *rig_checks.CHECKS, *skill_checks.CHECKS)


def count_checks() -> int:
    """How many checks the suite has."""
    return len(CHECKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found."""

    name: str
    rule: str
    result: Literal["passed", "failed", "does not apply"]
    detail: str = ""

    @property
    def line(self) -> str:
        """The finding for a terminal."""
        mark = {"passed": "ok  ", "failed": "FAIL", "does not apply": "  - "}[self.result]
        return f"{mark} {self.name}: {self.rule}" + (f" {self.detail}" if self.detail else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """All findings on one task."""

    task: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    """Figures that were found on the way."""
    took_s: float
    """Processor time: a busy machine takes no longer."""

    @property
    def passed(self) -> int:
        """Checks that passed."""
        return sum(finding.result == "passed" for finding in self.findings)

    @property
    def applied(self) -> int:
        """Checks that concern this task."""
        return sum(finding.result != "does not apply" for finding in self.findings)

    @property
    def conforms(self) -> bool:
        """Whether no check failed."""
        return self.passed == self.applied

    @property
    def summary(self) -> str:
        """One sentence."""
        without = len(self.findings) - self.applied
        rest = f" ({without} do not apply to it)" if without else ""
        noted = f" On the way: {'; '.join(self.notes)}." if self.notes else ""
        return f"{self.task} passes {self.passed} of {self.applied} checks{rest} in {self.took_s:.1f} s.{noted}"


def check_task(name: str, say: Callable[[Finding], None] = lambda finding: None) -> TaskReport:
    """Run every check on the task of that name; `say` gets each finding as it is made.

    Raises:
        EnpireError: there is no such task. That one of those listed cannot be made is a finding.
    """
    if name not in plugins.names("tasks"):
        plugins.load("tasks", name)

    def make() -> Task:
        return cast("Callable[[], Task]", plugins.load("tasks", name))()

    return check_made(name, make, say)


def check_made(
    name: str, make: Callable[[], Task], say: Callable[[Finding], None] = lambda finding: None
) -> TaskReport:
    """Run every check on the tasks that `make` makes."""
    bench, began_s = Bench(make), time.process_time()
    findings: list[Finding] = []
    for rule in CHECKS:
        findings.append(_run(rule, bench))
        say(findings[-1])
        if findings[0].result == "failed":
            break  # What is no task has nothing to check.
    took_s = time.process_time() - began_s
    return TaskReport(task=name, findings=tuple(findings), notes=tuple(bench.notes), took_s=took_s)


def _run(rule: Check, bench: Bench) -> Finding:
    name = rule.__name__.removeprefix("check_")
    sentence = " ".join((rule.__doc__ or "").split())
    try:
        rule(bench)
    except DoesNotApply as why:
        return Finding(name=name, rule=sentence, result="does not apply", detail=f"({why})")
    except EnpireError as problem:
        return Finding(name=name, rule=sentence, result="failed", detail=f"-> {problem}")
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a third party's task may raise anything, a finding too.
        return Finding(name=name, rule=sentence, result="failed", detail=f"-> {_said(problem, bench)}")
    return Finding(name=name, rule=sentence, result="passed")


def _said(problem: BaseException, bench: Bench) -> str:
    """What an exception says, and which line of the task's own file led to it; where none did, which raised it."""
    module = sys.modules.get(type(vars(bench).get("task")).__module__)
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if frame.filename == getattr(module, "__file__", None)]
    place = (own or frames)[-1]
    return f"{type(problem).__name__}: {problem} ({place.filename}, line {place.lineno})"
