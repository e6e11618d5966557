"""The learner `code`: runs a candidate's learner.py in a room, and makes a version of the files that it sends back."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from enpire.code_candidates.frames import RoomSilent
from enpire.code_candidates.inside import CODE
from enpire.code_candidates.rooms import CodeRoom, OpenRoom, require_sandbox
from enpire.errors import LearningProblem, ProcessKilled, TransportProblem, UnknownName
from enpire.field_reader import Fields
from enpire.files import plain
from enpire.ids import file_name
from enpire.interfaces import CodeSource, ImprovementJob, Progress
from enpire.log_lines import print_line
from enpire.parts import TASKS
from enpire.store import durable, removal, versions
from enpire.store.episodes import FolderStore
from enpire.wire.rpc import Message

MOST_FILES, MOST_BYTES = 64, 256 * 2**20
"""Files of one version, and bytes of all of them."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}\.(npz|json|safetensors)")
_RESERVED = (versions.MANIFEST, CODE)
_REPORTED_EVERY_S = 0.1
_npy: Any = np.lib.format


@dataclass(slots=True)
class _Received:
    """The files that a room sends, in a folder of the harness."""

    folder: Path
    sizes: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, message: Fields) -> None:
        """Append one part of a file.

        Raises:
            LearningProblem: its name or size is not allowed.
        """
        name, data = message.text("file"), message.data("data")
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise LearningProblem(
                f"learner.py wrote the file {name[:80]!r}; allowed are names of small letters, digits, - and _ that "
                f"end in .npz, .json or .safetensors, except {' and '.join(_RESERVED)}."
            )
        self.sizes[name] = self.sizes.get(name, 0) + len(data)
        if len(self.sizes) > MOST_FILES or sum(self.sizes.values()) > MOST_BYTES:
            raise LearningProblem(
                f"learner.py wrote more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB, which is the limit."
            )
        with (self.folder / file_name(name, "a file")).open("ab") as file:
            file.write(data)

    def check(self) -> None:
        """Refuse an .npz file with Python objects in it, which only pickle could read."""
        for name in self.sizes:
            if name.endswith(".npz") and (why := _why_no_arrays(self.folder / file_name(name, "a file"))):
                raise LearningProblem(f"learner.py wrote {name}, which {why}.")


class CodeLearner:
    """Trains with the code of a candidate (`ImprovementJob.code`)."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Write `job.output` and return the metrics that the candidate reported.

        Raises:
            LearningProblem: the code failed, exceeded a limit, or wrote what no version may hold.
            ProcessKilled: kill -9 ended it; the run can begin again.
        """
        if job.code is None:
            raise LearningProblem("The learner `code` trains only code candidates: `enpire agent submit-code`.")
        require_sandbox(unsandboxed=job.code.unsandboxed)
        inputs, staged = job.work / "input", job.work / "staged"
        for folder in (inputs, staged, job.output):
            removal.remove(folder, job.work)
        inputs.mkdir(parents=True)
        staged.mkdir()
        listed = _link_episodes(job.episodes, inputs)
        received = _Received(staged)
        metrics = _run(_room(job, job.code, listed), received, report, job.code.limit_s)
        received.check()
        _write_version(staged, job.code, job.output)
        removal.remove(inputs, job.work)
        return metrics


def _room(job: ImprovementJob, code: CodeSource, listed: Sequence[Message]) -> OpenRoom:
    folders = {"episodes": (job.work / "input", Path("/episodes"))}
    if job.parent is not None:
        folders["parent"] = (job.parent.resolve(), Path("/parent"))
    settings = job.recipe.get("settings")
    first = {
        "files": dict(code.files), "episodes": listed, "settings": plain(settings), "task": _task(job.task),
        "round": job.round, "seed": job.seed,
    }  # fmt: skip
    wanted = CodeRoom(
        module="learner_room", folders=folders, first=first,
        show=lambda line: print_line(f"learner.py: {line}"),
    )  # fmt: skip
    return OpenRoom(wanted)


def _run(
    room: OpenRoom, received: _Received, report: Callable[[Progress], None], limit_s: float
) -> Mapping[str, float]:
    """Follow the run until it is done; returns its metrics."""
    try:
        metrics = _followed(room, received, report, time.monotonic() + limit_s)
        if metrics is not None:
            return metrics
        if room.was_killed():
            raise ProcessKilled("The process of learner.py was killed.")
        raise LearningProblem(room.excess or f"The process of learner.py ended with code {room.ended()}.")
    except RoomSilent as problem:
        raise LearningProblem(f"learner.py was not done within {limit_s:.0f} s, the limit of one run.") from problem
    except TransportProblem as problem:
        raise LearningProblem(f"learner.py sent what is no message: {problem}") from problem
    finally:
        room.close()


def _followed(
    room: OpenRoom, received: _Received, report: Callable[[Progress], None], until_s: float
) -> Mapping[str, float] | None:
    """The metrics at the end of the run; None if its process ended before."""
    reported_s = float("-inf")
    while (message := room.frames.receive(until_s)) is not None:
        if "progress" in message:
            if time.monotonic() - reported_s > _REPORTED_EVERY_S:
                reported_s = time.monotonic()
                report(_progress(Fields(message.get("progress"), "The progress")))
        elif "file" in message:
            received.take(message)
        elif "done" in message:
            return _metrics(message, "done")
        else:
            raise LearningProblem(f"learner.py failed: {message.text('failed', 2000)}")
    return None


def _progress(message: Fields) -> Progress:
    return Progress(
        stage=message.text("stage", 100), done=message.whole("done"), total=message.whole("total"),
        metrics=_metrics(message, "metrics"),
    )  # fmt: skip


def _metrics(message: Fields, key: str) -> Mapping[str, float]:
    numbers = Fields(message.get(key), "The metrics")
    return {name[:100]: numbers.number(name) for name in list(message.mapping(key))[:64]}


def _link_episodes(episodes: Sequence[Path], folder: Path) -> list[Message]:
    """Put the arrays of episodes into one folder, without a copy where the disk allows; what each one is."""
    listed: list[Message] = []
    for number, episode in enumerate(episodes):
        facts = FolderStore(episode.parent.parent).facts(episode)
        if facts.stopped_early:
            continue  # its outcome is not known
        numbered = f"{number:06d}.npz"
        try:
            os.link(episode / "arrays.npz", folder / numbered)
        except OSError:
            shutil.copyfile(episode / "arrays.npz", folder / numbered)
        listed.append({
            "file": numbered, "outcome": facts.outcome, "purpose": facts.order.purpose, "ticks": facts.ticks,
            "version": facts.order.policy_id,
        })  # fmt: skip
    return listed


def _task(name: str) -> Message:
    """What a learner may know of the task; nothing where the task is not installed."""
    try:
        spec = TASKS.make(name).spec
    except UnknownName:
        return {}
    axes = {kind: [asdict(axis) for axis in getattr(spec, kind)] for kind in ("state", "action")}
    return {
        "name": spec.name, "instruction": spec.instruction, "rate_hz": spec.rate_hz, "limit_ticks": spec.limit_ticks,
        "cameras": list(spec.cameras), **axes,
    }  # fmt: skip


def _why_no_arrays(path: Path) -> str:
    """Why an .npz file is not allowed, as the end of a sentence; empty if it is."""
    try:
        with zipfile.ZipFile(path) as members:
            for member in members.infolist():
                with members.open(member) as stream:
                    version = _npy.read_magic(stream)
                    reader = _npy.read_array_header_1_0 if version == (1, 0) else _npy.read_array_header_2_0
                    if reader(stream)[2].hasobject:
                        return f"holds Python objects in {member.filename[:80]!r}; only numbers are allowed"
    except Exception as problem:  # noqa: BLE001 - the readers of zip and npy raise many kinds on hostile bytes
        return f"is no .npz file of numbers ({type(problem).__name__})"
    return ""


def _write_version(staged: Path, code: CodeSource, output: Path) -> None:
    """Complete the staged files to a version, and give them their name at once."""
    manifest = {"kind": "code", "schema": 1, "commit": code.commit, "tree": code.tree}
    (staged / CODE).write_text(json.dumps(dict(code.files), indent=1, sort_keys=True), encoding="utf-8")
    (staged / versions.MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")
    durable.sync(staged)
    durable.reveal([(staged, output)])
