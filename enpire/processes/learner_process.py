"""The learner's process: one job in, one policy version out. `python -m enpire.processes.learner_process JOB_FOLDER`.

The folder holds job.json; the process adds progress.jsonl (one line per report) and, when the version's folder is
complete, result.json. It can be killed at any moment: run again, it resumes from the checkpoints in the folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

from enpire.errors import EnpireError, LearningProblem, ProcessKilled
from enpire.files import parse, plain, read_json
from enpire.interfaces import ImprovementJob, Progress
from enpire.log_lines import one_line
from enpire.parts import LEARNERS
from enpire.processes.child_process import die_with_parent
from enpire.processes.cpu_time import counting_cpu_time
from enpire.processes.smoke_run import smoke_run
from enpire.processes.training_process import KILLED
from enpire.processes.version_check import LIMIT_S, ending_after, require_acting
from enpire.store import durable


def run_job(folder: Path) -> None:
    """Run the job of a folder.

    Raises:
        LearningProblem: the learner cannot go further, or left no version that acts on recorded observations.
        EnpireError: any other problem of the job.
    """
    job = read_job(folder)
    learner = LEARNERS.make(str(job.recipe["learner"]))
    with (folder / "progress.jsonl").open("a", encoding="utf-8", buffering=1) as lines:

        def report(progress: Progress) -> None:
            lines.write(json.dumps(plain(progress)) + "\n")

        if job.smoke:
            smoke_run(job, learner, report)
        metrics = learner.improve(job, report)
    if not (job.output / "policy.json").is_file():
        raise LearningProblem(f"The learner {job.recipe['learner']!r} returned, but {job.output} holds no policy.json.")
    with ending_after(LIMIT_S, folder / "failure.txt"):
        print(require_acting(job).sentence)
    durable.write(folder / "result.json", json.dumps({"metrics": dict(metrics)}).encode())


def read_job(folder: Path) -> ImprovementJob:
    """Read the job of a folder.

    Raises:
        FileProblem: job.json holds a wrong key or value.
    """
    return parse(ImprovementJob, read_json(folder / "job.json"), f"The job {folder}")


def main(arguments: list[str]) -> int:
    """Run one job; returns 0, or 1 with one sentence in failure.txt."""
    folder = Path(arguments[0])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "--die-with-parent" in arguments:
        die_with_parent()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        with counting_cpu_time(folder) if (folder / "job.json").is_file() else nullcontext():
            run_job(folder)
    except ProcessKilled as problem:
        print(one_line(str(problem)), file=sys.stderr)
        return KILLED
    except EnpireError as problem:
        if (folder / "job.json").is_file():  # else the folder belongs to no training run
            durable.write(folder / "failure.txt", str(problem).encode())
        print(one_line(str(problem)), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
