"""Checks of a task or a robot: one result per check, and the report of all of them.

A check is a function that takes the thing under test and returns nothing. Its docstring is the rule that it tests. It
raises `CheckFailed` where the rule is broken and `DoesNotApply` where the rule does not concern this task or robot.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from enpire.errors import EnpireError

if TYPE_CHECKING:
    from enpire.interfaces import Rig
    from enpire.types import Start

type Result = Literal["passed", "failed", "does not apply"]
MARKS: dict[Result, str] = {"passed": "ok  ", "failed": "FAIL", "does not apply": "  - "}


class CheckFailed(EnpireError):
    """A rule is broken; the text says which rule, and what was measured."""


class DoesNotApply(EnpireError):
    """A rule does not concern this task or robot, or cannot be tested here; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationRobot:
    """The robot of a station, for the checks of robots."""

    name: str
    """How the report names it."""
    open: Callable[[], Rig]
    """Opens it as the station does; it is called again after the rig was closed."""
    start: Callable[[int], Start]
    """Gives the start of an index."""
    realtime: bool
    """Whether time passes by itself (hardware), not with each action (simulation)."""
    ask_code: Callable[[], str]
    """Asks the operator for the code with which a latched robot is resumed; called at most once."""
    say: Callable[[str], None]
    """Prints a line for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check."""

    name: str
    rule: str
    """The rule as one sentence."""
    result: Result
    detail: str = ""
    """What was measured, or why the rule does not apply; empty where it passed."""

    @property
    def line(self) -> str:
        """The result as one line for a terminal."""
        return f"{MARKS[self.result]} {self.name}: {self.rule}" + (f" {self.detail}" if self.detail else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceReport:
    """All check results of one task or one robot."""

    subject: str
    """Name of the task, or of the robot's file."""
    results: tuple[CheckResult, ...]
    notes: tuple[str, ...]
    """What the checks measured besides, one phrase each."""
    took_s: float
    """How long the checks took: processor time for a task, so that a busy machine adds nothing; else elapsed time."""

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(item for item in self.results if item.result == "failed")

    @property
    def passed(self) -> int:
        """How many checks passed."""
        return sum(item.result == "passed" for item in self.results)

    @property
    def applied(self) -> int:
        """How many checks apply to this task or robot."""
        return sum(item.result != "does not apply" for item in self.results)

    @property
    def conforms(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    @property
    def summary(self) -> str:
        """The report as one or two sentences."""
        without = len(self.results) - self.applied
        rest = f" ({without} do not apply)" if without else ""
        measured = f" Measured: {'; '.join(self.notes)}." if self.notes else ""
        return f"{self.subject} passes {self.passed} of {self.applied} checks{rest} in {self.took_s:.1f} s.{measured}"

    def lines(self) -> list[str]:
        """The report for a terminal: one line per check, then the summary."""
        return [*(item.line for item in self.results), self.summary]


def require(condition: object, sentence: str) -> None:
    """Check a condition.

    Raises:
        CheckFailed: the condition is false; its text is `sentence`.
    """
    if not bool(condition):
        raise CheckFailed(sentence)


def require_refusal(call: Callable[[], object], kind: type[EnpireError], what: str) -> None:
    """Check that a call raises an error of the right kind.

    Raises:
        CheckFailed: the call returned, or raised another EnpireError; `what` begins its text.
    """
    try:
        call()
    except kind:
        return
    except EnpireError as other:
        raise CheckFailed(f"{what} must raise {kind.__name__}, not {type(other).__name__}: {other}") from other
    raise CheckFailed(f"{what} must raise {kind.__name__}; it was accepted.")


def run_check[Bench](check: Callable[[Bench], None], bench: Bench, own_file: Callable[[], str | None]) -> CheckResult:
    """Run one check.

    Args:
        check: the check; its name without `check_` is the name of the result, its docstring the rule.
        bench: holds the task or robot under test.
        own_file: gives the path of the file that is checked, if known; the line in it that raised is reported.
    """
    name, rule = check.__name__.removeprefix("check_"), " ".join((check.__doc__ or "").split())
    try:
        check(bench)
    except DoesNotApply as why:
        return CheckResult(name=name, rule=rule, result="does not apply", detail=f"({why})")
    except EnpireError as problem:
        return CheckResult(name=name, rule=rule, result="failed", detail=f"-> {problem}")
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - the code under test may raise anything: a failed check
        return CheckResult(name=name, rule=rule, result="failed", detail=f"-> {_located(problem, own_file())}")
    return CheckResult(name=name, rule=rule, result="passed")


def _located(problem: BaseException, own_file: str | None) -> str:
    """Text of an exception, with the last line of `own_file` that led to it, or else the line that raised it."""
    frames = traceback.extract_tb(problem.__traceback__)
    place = ([frame for frame in frames if frame.filename == own_file] or frames)[-1]
    return f"{type(problem).__name__}: {problem} ({place.filename}, line {place.lineno})"
