"""A LeRobot policy that stays as it is, with a small network beside it: asked once for each decision, then copied.

A large policy is too slow to ask at each gradient step. So it is asked once for every recorded decision, and learners
use the table of its answers. A version is the parent's folder with one more file.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from enpire.interfaces import ImprovementJob, Progress
from enpire.store import durable
from enpire.types import FloatArray, Observation
from policies.clone import job_digest
from policies.flow_training import REPORT_STEPS
from policies.image_windows import ImageWindows
from policies.lerobot_files import REFINING_FILE, STEERING_FILE, LerobotManifest, write_manifest
from policies.optimizer import TensorTable, read_checkpoint, write_checkpoint
from policies.replay import Replay
from policies.training_data import RecordedEpisode

ASKED = "asked.safetensors"
"""In the job's work folder: what the frozen policy answered, so that a resumed run does not ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The decisions of a job's episodes."""

    job: ImprovementJob
    replay: Replay
    episodes: list[RecordedEpisode]


def ask_once(
    recorded: Recorded, cameras: tuple[str, ...], answer: Callable[[int, Observation], Mapping[str, FloatArray]],
    report: Callable[[Progress], None],
) -> TensorTable:  # fmt: skip
    """The answers to all N recorded decisions: name -> (N, ...). Those of an earlier run of the job are read.

    Args:
        recorded: the decisions.
        cameras: whose images the policy needs.
        answer: from the index of a decision and its observation (state (1, state_dim)) to name -> array.
        report: gets the stage `asking`.

    Raises:
        LearningProblem: an episode has no images of a camera and cannot be replayed.
    """
    job, replay = recorded.job, recorded.replay
    path, digest = job.work / ASKED, job_digest(job)
    if (found := read_checkpoint(path, digest)) is not None:
        return found[0]
    images = ImageWindows(job, replay, recorded.episodes)
    images.collect(cameras, report)
    rows: list[Mapping[str, FloatArray]] = []
    for row in range(len(replay)):
        seen = {camera: images.at(camera, np.array([row])) for camera in cameras}
        rows.append(answer(row, Observation(stamp_ns=0, state=replay.state[row : row + 1], images=seen)))
        if (done := row + 1) % REPORT_STEPS == 0 or done == len(replay):
            report(Progress(stage="asking", done=done, total=len(replay), metrics={}))
    images.close()
    table = {name: np.stack([item[name] for item in rows]) for name in rows[0]}
    write_checkpoint(path, table, digest, len(replay))
    return table


def write_beside(
    parent: Path, about: LerobotManifest, added: tuple[str, Mapping[str, FloatArray]], output: Path
) -> None:
    """Write the parent's files as they are, without its own network, and (file, weights (out, in)) of a new one."""
    file, tensors = added
    staged = durable.stage_folder(output)
    for path in sorted(parent.iterdir()):
        if path.name not in (STEERING_FILE, REFINING_FILE, "policy.json"):
            shutil.copyfile(path, staged / path.name)
    write_manifest(about, staged)
    save_file({key: np.ascontiguousarray(value, np.float32) for key, value in tensors.items()}, staged / file)
    durable.sync_many([*staged.iterdir(), staged])
    durable.reveal([(staged, output)])
