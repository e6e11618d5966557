"""Parts of a simulated process that can be killed: ledger, store, learner, helper thread."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, override

from enpire.campaign.events import Event, LedgerEntry
from enpire.errors import StorageFull
from enpire.fleet.uploads import _File
from enpire.interfaces import ImprovementJob, Progress
from enpire.processes.learner_process import run_job
from enpire.store import durable
from enpire.store.episodes import FolderStore, Recording
from enpire.store.ledger import SqliteLedger
from enpire.wire.host_services import HostServices
from tests.fakes.point_task import MODULE as POINT
from tests.faults.virtual_sockets import Process, World

MODULE = "tests.faults.crashing_parts"
FULL = StorageFull("The disk refused to write: the simulation says that it is full.")


class Disk(Protocol):
    """The disk they write to, and the wall clock."""

    disk_is_full: bool
    resumed: int

    def wall_ns(self) -> int: ...


class Quick:
    """A learner that takes no time: each version has less noise than its parent."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        noise = 0.02
        if job.parent is not None:
            noise = 0.6 * float(json.loads((job.parent / "policy.json").read_text())["noise"])
        report(Progress(stage="guessing", done=1, total=1, metrics={}))
        if not job.output.is_dir():
            staged = durable.stage_folder(job.output)
            says = {"kind": f"{POINT}:load", "noise": noise, "round": job.round, "job": job.work.name}
            durable.fill_folders(
                {staged: {"policy.json": json.dumps(says).encode(), "weights.safetensors": b"\0" * 64}}
            )
            durable.reveal([(staged, job.output)])
        return {"noise": noise}


class AtOnce(Executor):
    """The helper executor, without a thread."""

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as problem:  # noqa: BLE001 - as an executor does
            done.set_exception(problem)
        return done


def at_once(clock: Callable[[], float] = time.monotonic) -> HostServices:
    """This machine with a clock, and with helpers that have no threads."""
    return HostServices(clock=clock, helper=AtOnce, loaders=AtOnce)


class MortalHelper(AtOnce):
    """The helper executor of a process that may be killed before and after each of its writes, on the same disk."""

    def __init__(self, process: Process, laboratory: Disk) -> None:
        self._process, self._laboratory = process, laboratory

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._process.act()
        if self._laboratory.disk_is_full:
            refused: Future[Any] = Future()
            refused.set_exception(FULL)
            return refused
        done = super().submit(fn, *args, **kwargs)
        if fn.__name__ == _File.open.__name__:
            self._laboratory.resumed += done.result() > 0
        self._process.act()
        return done


class MortalLedger(SqliteLedger):
    """The ledger of a process that may be killed before and after every transaction, and of a disk that may be full."""

    def __init__(self, path: Path, process: Process, laboratory: Disk) -> None:
        self._process, self._laboratory = process, laboratory
        super().__init__(path, wall_ns=laboratory.wall_ns)

    @override
    def append(self, events: Iterable[Event], campaign_id: str = "") -> Sequence[LedgerEntry]:
        self._process.act()
        if self._laboratory.disk_is_full:
            raise FULL
        appended = super().append(events, campaign_id)
        self._process.act()
        return appended


class MortalStore(FolderStore):
    """The episode store of the same process and the same disk."""

    def __init__(self, root: Path, process: Process, laboratory: Disk) -> None:
        self._process, self._laboratory = process, laboratory
        super().__init__(root)

    @override
    def put_many(self, recordings: Iterable[Recording]) -> list[Path]:
        self._process.act()
        listed = list(recordings)
        if self._laboratory.disk_is_full and listed:
            raise FULL
        folders = super().put_many(listed)
        self._process.act()
        return folders


@dataclass
class VirtualLearner:
    """Replaces the learner's process: it ends after a while, unless it is killed before."""

    folder: Path
    world: World
    due_s: float
    killed: bool = False
    pid: int = 0
    code: int | None = None

    def poll(self) -> int | None:
        if self.code is None and self.killed:
            self.code = -9
        elif self.code is None and self.world.now_s >= self.due_s:
            run_job(self.folder)
            self.code = 0
        return self.code

    def kill(self) -> None:
        self.killed = True

    def terminate(self) -> None:
        self.killed = True

    def wait(self, timeout: float | None = None) -> int:
        return self.poll() or 0
