"""A training run on another machine: copies files between the job's folder here and a learner on the Ray cluster.

`python -m enpire.fleet.learner_on_ray JOB_FOLDER` fills the folder as processes/learner_process.py does: job.json in;
progress.jsonl, checkpoints, the version and result.json (or failure.txt) out. The learner's machine holds only copies:
if it is lost, the run resumes on another machine from the checkpoint in the folder here.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from enpire import __version__
from enpire.errors import EnpireError
from enpire.fleet.on_ray import join, require_same, scratch
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

Files = Mapping[str, bytes]


class LearnerActor:
    """Runs the ordinary learner process on a machine of the cluster, in a folder on that machine's disk."""

    def __init__(self, job: ImprovementJob, version: str) -> None:
        require_same(version)
        own, self._kept = scratch("learning", str(job.work)), scratch("episodes", str(job.work.parent))
        wanted = {folder.name for folder in job.episodes}
        for left in self._kept.iterdir():
            if left.name not in wanted:
                removal.remove(left, self._kept)
        removal.remove(own / "version", own)
        self._job = replace(
            job, work=own, output=own / "version", parent=own / "parent" if job.parent else None,
            episodes=tuple(self._kept / folder.name for folder in job.episodes),
        )  # fmt: skip
        self._begun_ns = time.time_ns()
        self._sent: dict[str, int] = {}
        self._run: TrainingProcess | None = None

    def missing(self) -> set[str]:
        """Names of the episodes that this machine lacks."""
        return {folder.name for folder in self._job.episodes if not (folder / "episode.json").is_file()}

    def keep(self, folders: Mapping[str, Files]) -> None:
        """Write episodes to this machine's disk: name -> files."""
        for name, files in folders.items():
            _write_all(self._kept / name, files)

    def begin(self, checkpoints: Files, parent: Files) -> None:
        """Start the process; it resumes from the checkpoints if there are any."""
        _write_all(self._job.work, checkpoints)
        if self._job.parent is not None:
            _write_all(self._job.parent, parent)
        for name in _LAST:
            removal.remove(self._job.work / name, self._job.work)
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

    def result(self) -> tuple[Files, Mapping[str, Files]]:
        """(files of the new version; episode -> files that the learner added to it)."""
        added = {
            folder.name: {"figures.json": (folder / "figures.json").read_bytes()}
            for folder in self._job.episodes
            if (folder / "figures.json").is_file() and (folder / "figures.json").stat().st_mtime_ns >= self._begun_ns
        }
        return _read_all(self._job.output), added


def run_remotely(job: ImprovementJob, ray: Any) -> int:
    """Run the job on the cluster and copy its results here; returns the exit code of the learner's process."""
    actor = ray.remote(LearnerActor).options(**_resources(ray)).remote(job, __version__)
    missing = ray.get(actor.missing.remote())
    away = [folder for folder in job.episodes if folder.name in missing]
    for some in _batches(away):
        ray.get(actor.keep.remote({folder.name: _read_all(folder) for folder in some}))
    checkpoints = _read_all(job.work, but=("job.json", "log.txt"))
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
            _copy(folder, added.get(folder.name, {}).items())
        staged = durable.stage_folder(job.output)
        durable.fill_folders({staged: made})
        durable.reveal([(staged, job.output)])
    _copy(job.work, last.items())
    return code


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
            durable.write(folder / ("remote.txt" if name == "log.txt" else name), data)


def _read_all(folder: Path, but: Sequence[str] = ()) -> Files:
    return {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file() and path.name not in but
    }


def _write_all(folder: Path, files: Files) -> None:
    """Write the files of a folder. episode.json and policy.json come last, so that a partial copy does not count."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files, key=lambda name: name in {"episode.json", "policy.json"}):
        (folder / name).write_bytes(files[name])


def main(arguments: list[str]) -> int:
    """Run one job; returns 0, or 1 with a sentence in failure.txt. Ends by SIGKILL if the learner's machine is lost."""
    folder = Path(arguments[0])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "--die-with-parent" in arguments:
        die_with_parent()
    try:
        ray = join(os.environ["RAY_ADDRESS"])
        # Ray catches SIGTERM to clean up; the cluster also cleans up after a driver that has ended, and sooner.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            code = run_remotely(read_job(folder), ray)
        except ray.exceptions.RayActorError as lost:
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
