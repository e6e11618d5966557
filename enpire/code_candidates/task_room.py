"""Inside the room of a task that an agent wrote: `python -m enpire.code_candidates.task_room CHANNEL RELAY`.

It runs the conformance checks and the verifier's report on the task, and sends what they measured.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

from enpire.code_candidates.inside import described, enter, write_code
from enpire.conformance import ConformanceReport
from enpire.gate.intervals import Interval
from enpire.parts import PartGroup

ADDRESS = "task:Task"
MOST_FAILED = 20


class Grade(Protocol):
    """What is read of a verifier's grade."""

    precision: Interval
    recall: Interval


class VerifierReport(Protocol):
    """What is read of a verifier's report."""

    text: str
    grades: tuple[Grade, ...]


def main(arguments: list[str]) -> int:
    """Measure the task once; returns the exit code."""
    frames, first = enter(arguments)
    files = {path: str(text) for path, text in first.mapping("files").items()}
    folder = write_code(files, Path(first.text("work")))
    checks: PartGroup[[str], ConformanceReport] = PartGroup("inspections")
    grading: PartGroup[[str, int], VerifierReport] = PartGroup("inspections")
    score: dict[str, object] = {"passed": 0, "applied": 0, "failed": [], "precision": None, "recall": None}
    try:
        found = checks.load("task")(ADDRESS)
        failed = [failure.line for failure in found.failures][:MOST_FAILED]
        score |= {"passed": found.passed, "applied": found.applied, "failed": failed}
    except BaseException as problem:  # noqa: BLE001 - the code of an agent may raise anything, also SystemExit
        score["failed"] = [described(problem, folder)]
    try:
        report = grading.load("verifier")(ADDRESS, first.whole("episodes"))
        grade = report.grades[0]
        score |= {"verifier": report.text, "precision": grade.precision.rate, "recall": grade.recall.rate}
    except BaseException as problem:  # noqa: BLE001
        score["verifier"] = f"There is no report: {described(problem, folder)}"
    frames.send({"score": score})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
