"""The orchestrator's view of a training run: a child process and the folder of its job."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from enpire.files import plain
from enpire.interfaces import ImprovementJob, Progress
from enpire.processes.child_process import ProcessLimits, end_process, single_core_environment, start_python
from enpire.processes.cpu_time import read_cpu_s
from enpire.store import durable, removal

OOM_SCORE = 800
"""When memory runs out, Linux ends the learner before stations and orchestrator: its run resumes from a checkpoint."""
NICE = 10
"""Niceness of a training run, as of robots in simulation: the orchestrator and real robots come first."""
KILLED = 137
"""Exit code of a learner's process whose own child, with a candidate's code, was killed; a shell reports kill -9 so."""
_OLD_KEY = "figures"
"""What progress.jsonl and result.json called `metrics` before; a run that began then is still followed."""


@dataclass(slots=True)
class TrainingProcess:
    """One training run."""

    folder: Path
    process: subprocess.Popen[bytes]
    began_s: float = field(default_factory=time.monotonic)
    read: int = 0
    """Bytes of progress.jsonl read so far."""
    restarts: int = 0
    """How often the run was restarted because its process was killed."""

    @classmethod
    def begin(
        cls,
        job: ImprovementJob,
        module: str = "enpire.processes.learner_process",
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> TrainingProcess:
        """Start a job, or restart it: it resumes from its checkpoints.

        Args:
            job: its `work` is the folder of the run.
            module: module of the process; it gets the folder as its argument.
            environment: variables for the process, in addition to those of this process.
        """
        folder = job.work
        folder.mkdir(parents=True, exist_ok=True)
        removal.remove(folder / "failure.txt", folder)
        durable.write(folder / "job.json", json.dumps(plain(job)).encode())
        threads = {name: str(job.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        arguments = [str(folder), "--die-with-parent"]
        variables = single_core_environment(**threads, **environment)
        limits = ProcessLimits(nice=NICE, oom_score=OOM_SCORE)
        process = start_python(module, arguments, folder / "log.txt", limits, variables)
        return cls(folder=folder, process=process)

    def progress(self) -> Progress | None:
        """The latest report since the last call; None without one."""
        path = self.folder / "progress.jsonl"
        try:
            if path.stat().st_size <= self.read:
                return None
        except FileNotFoundError:
            return None
        with path.open("rb") as lines:
            lines.seek(self.read)
            new = lines.read()
        whole = new[: new.rfind(b"\n") + 1]
        self.read += len(whole)
        last = whole.splitlines()[-1:]
        return _progress(last[0]) if last else None

    def metrics(self) -> Mapping[str, float] | None:
        """The metrics of a run that ended well; None while it runs or when it failed."""
        if self.process.poll() is None or not (result := self.folder / "result.json").exists():
            return None
        written = json.loads(result.read_text(encoding="utf-8"))
        return written["metrics"] if "metrics" in written else written[_OLD_KEY]

    def failure(self) -> str:
        """Why the run ended without a version; empty while it runs and after a success."""
        code = self.process.poll()
        if code is None or (self.folder / "result.json").exists():
            return ""
        failure = self.folder / "failure.txt"
        if failure.exists():
            return failure.read_text(encoding="utf-8")
        return f"The learner's process ended with code {code}; its log is {self.folder / 'log.txt'}."

    def cpu_s(self) -> float:
        """CPU seconds of all processes of the run so far."""
        return read_cpu_s(self.folder)

    def was_killed(self) -> bool:
        """Whether a signal ended the process (out of memory, kill -9); the run can then resume from its checkpoints."""
        code = self.process.poll()
        return code is not None and (code < 0 or code == KILLED) and bool(self.failure())

    def again(self, train: Callable[[ImprovementJob], TrainingProcess], job: ImprovementJob) -> TrainingProcess:
        """Restart the job with `train` after its process was killed."""
        begun = train(job)
        begun.began_s, begun.restarts = self.began_s, self.restarts + 1
        return begun

    def end(self) -> None:
        """Stop the run; its checkpoints stay."""
        end_process(self.process)


def _progress(line: bytes) -> Progress:
    """One line of progress.jsonl."""
    written = json.loads(line)
    metrics = written["metrics"] if "metrics" in written else written[_OLD_KEY]
    return Progress(stage=written["stage"], done=written["done"], total=written["total"], metrics=metrics)
