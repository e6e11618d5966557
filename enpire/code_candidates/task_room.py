"""Inside the first room of a task that an agent wrote: `python -m enpire.code_candidates.task_room CHANNEL RELAY`.

It runs the conformance checks on the task, and sends what they found. Then the task's scene makes episodes with known
outcomes, and it sends those.
"""

from __future__ import annotations

import json
import sys

from enpire.code_candidates.inside import described, enter, write_sent
from enpire.code_candidates.task_scoring import MOST_FAILED, Labelled, evidence_out
from enpire.conformance import ConformanceReport
from enpire.files import document
from enpire.parts import PartGroup
from enpire.types import TaskSpec
from enpire.wire.rpc import Message

ADDRESS = "task:Task"


def main(arguments: list[str]) -> int:
    """Check the task and make its episodes; returns the exit code."""
    frames, first = enter(arguments)
    folder = write_sent(first)
    try:
        found = checked()
    except BaseException as problem:  # noqa: BLE001 - the code of an agent may raise anything, also SystemExit
        found = {"passed": 0, "applied": 0, "failed": [described(problem, folder)]}
    frames.send({"checks": found})
    making: PartGroup[[str, int], tuple[TaskSpec, list[Labelled]]] = PartGroup("inspections")
    try:
        spec, episodes = making.load("labelled_episodes")(ADDRESS, first.whole("episodes"))
        frames.send({"spec": json.loads(json.dumps(document(spec), default=float))})
        for evidence, success in episodes:
            frames.send({**evidence_out(evidence), "success": bool(success)})
    except BaseException as problem:  # noqa: BLE001 - as above
        frames.send({"problem": described(problem, folder)})
    return 0


def checked() -> Message:
    """What the conformance checks found."""
    checks: PartGroup[[str], ConformanceReport] = PartGroup("inspections")
    report = checks.load("task")(ADDRESS)
    failed = [failure.line for failure in report.failures][:MOST_FAILED]
    return {"passed": report.passed, "applied": report.applied, "failed": failed}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
