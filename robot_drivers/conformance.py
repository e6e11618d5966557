"""The conformance kit: does this robot keep the rules that stations rely on? `enpire robot check FILE`.

Every check has a name and a sentence; a failed one says what was seen. The same kit runs on every driver of ENPIRE,
behind every wire.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from enpire import plugins
from enpire.errors import EnpireError, RobotProblem
from enpire.interfaces import Rig, Task
from enpire.station.robot_session import open_robot
from enpire.station.station_file import read_station
from enpire.types import Start, TaskSpec
from robot_drivers import conformance_motion, conformance_spec, conformance_stop
from robot_drivers.conformance_bench import Bench, DoesNotApply, Subject
from robot_drivers.driver_file import load_robot
from robot_drivers.guard_client import Control, GuardedClient, open_guarded
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.resume_code import make

Check = Callable[[Bench], None]
CHECKS: tuple[Check, ...] = (*conformance_spec.CHECKS, *conformance_motion.CHECKS, *conformance_stop.CHECKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found."""

    name: str
    rule: str
    result: Literal["passed", "failed", "does not apply"]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings on one robot."""

    findings: tuple[Finding, ...]
    timing: str

    @property
    def passed(self) -> int:
        """Checks that passed."""
        return sum(finding.result == "passed" for finding in self.findings)

    @property
    def applied(self) -> int:
        """Checks that concern this robot."""
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
        return f"Your robot passes {self.passed} of {self.applied} checks{rest}."

    def lines(self) -> list[str]:
        """The report for a terminal."""
        marks = {"passed": "ok  ", "failed": "FAIL", "does not apply": "  - "}
        listed = [
            f"{marks[item.result]} {item.name}: {item.rule}" + (f" {item.detail}" if item.detail else "")
            for item in self.findings
        ]
        return [*listed, f"Timing: {self.timing}.", self.summary]


def check(subject: Subject, say: Callable[[Finding], None] = lambda finding: None) -> Report:
    """Run every check on one robot; `say` gets each finding as it is made."""
    bench = Bench(subject)
    findings: list[Finding] = []
    try:
        for rule in CHECKS:
            finding = _run(rule, bench)
            findings.append(finding)
            say(finding)
        timing = _timing(bench)
    finally:
        bench.rig.close()
    return Report(findings=tuple(findings), timing=timing)


def check_file(
    path: Path,
    options: Mapping[str, object] | None = None,
    say: Callable[[Finding], None] = lambda finding: None,
    settings: GuardSettings | None = None,
) -> Report:
    """Check a laboratory's driver file, behind its guard, as a station would run it. THE ROBOT MOVES.

    Args:
        path: the driver file.
        options: what its `robot(**options)` takes, and `envelope`.
        say: gets each finding as it is made.
        settings: of the guard; a folder of its own, three periods of patience without.
    """
    with tempfile.TemporaryDirectory(prefix="enpire-check-") as folder:
        told = settings or GuardSettings(driver=str(path), folder=Path(folder), options=options or {})
        spec = load_robot(path, {key: value for key, value in told.options.items() if key != "envelope"}).spec
        return check(guarded_subject(told, spec), say)


def check_named(named: str, say: Callable[[Finding], None] = lambda finding: None) -> Report:
    """Check the robot of a driver file (`check_file`), or of a station file as the station opens it. IT MOVES."""
    if named.endswith(".py"):
        return check_file(Path(named), say=say)
    file = read_station(named)
    task = cast("Task", plugins.make("tasks", file.task))
    subject = Subject(
        open=lambda: open_robot(file, task), start=lambda index: task.start("train", index, b""),
        realtime=file.pace == "realtime",
    )  # fmt: skip
    return check(subject, say)


def guarded_subject(settings: GuardSettings, spec: TaskSpec) -> Subject:
    """A robot behind its guard; whoever runs the kit stands beside it and resumes it, with a code made for that."""
    code = make(settings.folder) if settings.person_to_resume else ""

    def resume(rig: Rig) -> None:
        with Control(settings.card) as hand:
            if hand.status()["latched"]:
                hand.resume("the person who runs the conformance kit", code)

    def opened() -> GuardedClient:
        rig = open_guarded(settings)
        resume(rig)
        return rig

    return Subject(open=opened, start=starts_of(spec), realtime=settings.pace == "realtime", resume=resume)


def starts_of(spec: TaskSpec) -> Callable[[int], Start]:
    """Starts for a robot without a task: every value zero."""
    return lambda index: Start(split="train", index=index, values=(0.0,) * len(spec.start_names), seed=index)


def _run(rule: Check, bench: Bench) -> Finding:
    name = rule.__name__.removeprefix("check_")
    sentence = " ".join((rule.__doc__ or "").split())
    try:
        rule(bench)
    except DoesNotApply as why:
        return Finding(name=name, rule=sentence, result="does not apply", detail=f"({why})")
    except EnpireError as problem:
        return Finding(name=name, rule=sentence, result="failed", detail=f"-> {problem}")
    except Exception as problem:  # noqa: BLE001 - a laboratory's driver may raise anything; that is a finding too.
        return Finding(name=name, rule=sentence, result="failed", detail=f"-> {type(problem).__name__}: {problem}")
    return Finding(name=name, rule=sentence, result="passed")


def _timing(bench: Bench) -> str:
    try:
        return conformance_motion.timing(bench)
    except RobotProblem as problem:
        return f"not measured ({problem})"


def main(arguments: list[str]) -> int:
    """`python -m robot_drivers.conformance FILE`: print the report; 0 when every check passes."""
    if len(arguments) != 1:
        print("Usage: python -m robot_drivers.conformance FILE.py   (the robot moves: stand beside it)")
        return 2
    try:
        report = check_file(Path(arguments[0]))
    except EnpireError as problem:
        print(problem, file=sys.stderr)
        return 1
    print("\n".join(report.lines()))
    return 0 if report.conforms else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
