"""A training run on another machine: copies files between the job's folder here and a learner on the Ray cluster.

`python -m enpire.fleet.learner_on_ray JOB_FOLDER` fills the folder as processes/learner_process.py does: job.json in;
progress.jsonl, checkpoints, the version and result.json (or failure.txt) out. The learner's machine holds only copies:
if it is lost, the run resumes on another machine from the checkpoint in the folder here.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from enpire import __version__
from enpire.errors import EnpireError, LearningProblem
from enpire.fleet.on_ray import join, require_same, scratch
from enpire.ids import file_name, version_id
from enpire.interfaces import ImprovementJob
from enpire.processes.child_process import die_with_parent
from enpire.processes.learner_process import read_job
from enpire.processes.training_process import TrainingProcess
from enpire.store import durable, removal

POLL_S = 0.2
BATCH_BYTES = 64 * 2**20
"""Bytes of episodes in one message; a single episode with images may be larger."""
_LAST = ("result.json", "failure.txt")
"""Files that mark the end of a run; they are copied after all others."""
_OURS = ("job.json", "log.txt", "remote.txt")
"""Files that the learner's machine does not need."""

CRITIC_OUTPUTS = "figures.json"
"""The only file that a learner adds to an episode."""

Files = Mapping[str, bytes]


class LearnerActor:
    """Runs the ordinary learner process on a machine of the cluster, in folders on that machine's disk.

    Args:
        job: as the orchestrator wrote it.
        home: names the orchestrator's computer and home, so that two of them share no folder.
        version: of ENPIRE at the orchestrator.
    """

    def __init__(self, job: ImprovementJob, home: str, version: str) -> None:
        self._job, self._home, self._version = job, home, version
        self._begun_ns = time.time_ns()
        self._sent: dict[str, int] = {}
        self._run: TrainingProcess | None = None

    def prepare(self) -> set[str]:
        """Clear the folders on this machine; returns the ids of the episodes that it lacks.

        Raises:
            TransportProblem: this machine has another version of ENPIRE.
        """
        require_same(self._version)
        job, runs, kept = self._job, scratch("learning", self._home), scratch("episodes", self._home)
        _keep_only(runs, set())
        work = runs / file_name(job.work.name, "a training run")
        work.mkdir()
        self._job = replace(
            job, work=work, output=work / "version",
            parent=work / "parent" / version_id(job.parent.name) if job.parent is not None else None,
            episodes=tuple(kept / _place(folder) for folder in job.episodes),
        )  # fmt: skip
        wanted = set(self._job.episodes)
        campaigns = {folder.parent for folder in wanted}
        _keep_only(kept, campaigns)
        for campaign in campaigns:
            _keep_only(campaign, wanted)
        return {folder.name for folder in wanted if not folder.is_dir()}

    def keep(self, episodes: Mapping[str, Files]) -> None:
        """Write episodes to this machine's disk, each completely or not at all: id -> files."""
        targets = {folder.name: folder for folder in self._job.episodes}
        _write_folders({targets[order_id]: files for order_id, files in episodes.items()})

    def begin(self, checkpoints: Files, parent: Files) -> None:
        """Start the process; it resumes from the checkpoints if there are any."""
        for name, data in checkpoints.items():
            durable.write(self._job.work / file_name(name, "a file"), data)
        if self._job.parent is not None:
            _write_folders({self._job.parent: parent})
        self._run = TrainingProcess.begin(self._job)

    def poll(self) -> tuple[int | None, Files]:
        """(exit code, or None while it runs; files of its folder that changed since the last call)."""
        assert self._run is not None
        code = self._run.process.poll()
        changed: dict[str, bytes] = {}
        for path in sorted(self._job.work.iterdir()):
            if path.is_file() and path.name != "job.json" and not path.name.startswith("."):
                stamp = path.stat().st_mtime_ns
                if self._sent.get(path.name) != stamp:
                    changed[path.name] = path.read_bytes()
                    self._sent[path.name] = stamp
        return code, changed

    def result(self) -> tuple[Files, Mapping[str, bytes]]:
        """(files of the new version; episode -> the critics' outputs that the learner wrote for it)."""
        outputs = {folder.name: folder / CRITIC_OUTPUTS for folder in self._job.episodes}
        added = {
            order_id: path.read_bytes()
            for order_id, path in outputs.items()
            if path.is_file() and path.stat().st_mtime_ns >= self._begun_ns
        }
        return _read_all(self._job.output), added


def run_remotely(job: ImprovementJob, ray: Any) -> int:
    """Run the job on the cluster and copy its results here; returns the exit code of the learner's process."""
    home = f"{platform.node()}:{job.work.parent}"
    actor = ray.remote(LearnerActor).options(**_resources(ray)).remote(job, home, __version__)
    missing = ray.get(actor.prepare.remote())
    away = [folder for folder in job.episodes if folder.name in missing]
    for some in _batches(away):
        ray.get(actor.keep.remote({folder.name: _read_all(folder) for folder in some}))
    checkpoints = _read_all(job.work, but=(*_LAST, *_OURS))
    ray.get(actor.begin.remote(checkpoints, _read_all(job.parent) if job.parent is not None else {}))
    code: int | None = None
    last: dict[str, bytes] = {}
    while code is None:
        time.sleep(POLL_S)
        code, changed = ray.get(actor.poll.remote())
        _copy(job.work, changed.items(), but=_LAST)
        last |= {name: changed[name] for name in _LAST if name in changed}
    if "result.json" in last:
        made, added = ray.get(actor.result.remote())
        for folder in job.episodes:
            if folder.name in added:
                durable.write(folder / CRITIC_OUTPUTS, added[folder.name])
        _write_folders({job.output: made})
    _copy(job.work, last.items())
    return code


def _place(folder: Path) -> Path:
    """CAMPAIGN/EPISODE, as in the episode store: an episode is read only from a folder of its own names."""
    return Path(file_name(folder.parent.name, "a campaign")) / file_name(folder.name, "an episode")


def _keep_only(folder: Path, kept: set[Path]) -> None:
    """Remove what earlier runs left in a folder."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path not in kept:
            removal.remove(path, folder)


def _batches(folders: Iterable[Path]) -> Iterator[list[Path]]:
    batch: list[Path] = []
    size = 0
    for folder in folders:
        batch.append(folder)
        size += sum(path.stat().st_size for path in folder.iterdir())
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _resources(ray: Any) -> Mapping[str, float | str]:
    """A GPU if the cluster has one; a whole core if one is free, otherwise the stations' unused time."""
    has, free = ray.cluster_resources(), ray.available_resources()
    return {"num_gpus": min(1.0, has.get("GPU", 0.0)), "num_cpus": 1.0 if free.get("CPU", 0.0) >= 1.0 else 0.0}


def _copy(folder: Path, files: Iterable[tuple[str, bytes]], but: Sequence[str] = ()) -> None:
    for name, data in files:
        if name not in but:
            durable.write(folder / file_name("remote.txt" if name == "log.txt" else name, "a file"), data)


def _read_all(folder: Path, but: Sequence[str] = ()) -> Files:
    return {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file() and path.name not in but
    }


def _write_folders(folders: Mapping[Path, Files]) -> None:
    """Write new folders, each completely or not at all; one that exists stays."""
    staged = {durable.stage_folder(target): (target, files) for target, files in folders.items()}
    durable.fill_folders(
        {
            hidden: {file_name(name, "a file"): data for name, data in files.items()}
            for hidden, (_, files) in staged.items()
        }
    )
    durable.reveal((hidden, target) for hidden, (target, _) in staged.items())


def main(arguments: list[str]) -> int:
    """Run one job; returns 0, or 1 with a sentence in failure.txt. Ends by SIGKILL if the learner's machine is lost."""
    folder = Path(arguments[0])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "--die-with-parent" in arguments:
        die_with_parent()
    try:
        ray = join(os.environ["RAY_ADDRESS"])
        try:
            code = run_remotely(read_job(folder), ray)
        except ray.exceptions.RayTaskError as problem:
            cause = problem.cause
            raise (
                cause
                if isinstance(cause, EnpireError)
                else LearningProblem(f"The learner's machine failed: {cause!r}.")
            ) from problem
        except ray.exceptions.RayError as lost:
            print(f"The learner's machine was lost: {lost}", file=sys.stderr, flush=True)
            code = -signal.SIGKILL
    except EnpireError as problem:
        durable.write(folder / "failure.txt", str(problem).encode())
        print(problem, file=sys.stderr)
        return 1
    if code < 0:
        # This process ends as the learner's own process did.
        sys.stderr.flush()
        signal.raise_signal(signal.SIGKILL)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
