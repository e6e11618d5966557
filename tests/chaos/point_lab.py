"""A small lab that can be killed many times: the point task, a slow first policy, a fast learner."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import yaml

from enpire.interfaces import ImprovementJob, Progress, Task
from enpire.store import arrays, durable
from enpire.types import FloatArray, IntArray, MaskArray, Observation, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope, Limits
from tests.fakes import point_task
from tests.fakes.point_task import PointPolicy, PointRig

MODULE = "tests.chaos.point_lab"
FIRST_REACH_M, STEP_M, LAST_REACH_M = 0.016, 0.003, 0.031
"""Motion of the base policy per period, increase per round, and upper limit, which leaves some starts out of reach."""


class ReachPolicy(PointPolicy):
    """Moves at most `reach_m` a period, so that far starts run out of time."""

    def __init__(self, reach_m: float) -> None:
        super().__init__(noise=0.002)
        self.reach_m = reach_m

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return np.clip(super().act(observation, lanes), -self.reach_m, self.reach_m)


def load(folder: Path) -> ReachPolicy:
    about = json.loads((folder / "policy.json").read_text())
    at_station = sys.modules["__main__"].__spec__ is None or "station" in str(sys.modules["__main__"].__spec__.name)
    return ReachPolicy(float("nan") if about.get("nan_at_stations") and at_station else about["reach_m"])


class Reach:
    """A learner that takes a second: it reads every episode, and its versions move faster than their parents."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        frames = sum(len(arrays.unpack((folder / "arrays.npz").read_bytes()).action) for folder in job.episodes[-50:])
        reach = FIRST_REACH_M
        if job.parent is not None:
            reach = min(LAST_REACH_M, json.loads((job.parent / "policy.json").read_text())["reach_m"] + STEP_M)
        for step in range(10):
            time.sleep(0.1)
            report(Progress(stage="reaching", done=step + 1, total=10, metrics={"frames": float(frames)}))
        if not job.output.is_dir():
            staged = durable.stage_folder(job.output)
            says = {"kind": f"{MODULE}:load", "reach_m": reach, "round": job.round, "job": job.work.name}
            durable.fill_folders(
                {staged: {"policy.json": json.dumps(says).encode(), "weights.safetensors": b"\0" * 64}}
            )
            durable.reveal([(staged, job.output)])
        return {"reach_m": reach, "frames": float(frames)}


def write_campaign(
    folder: Path, *, stations: int = 2, bind: str = "tcp://127.0.0.1:*", log: Path | None = None, pace: str = "fast",
    **more: object,
) -> Path:  # fmt: skip
    """A campaign that runs until a command ends it: its goal is out of reach. Its robots write a `log` if given."""
    driver = f"{point_task.MODULE}:open_rig" if log is None else f"{MODULE}:open_logged"
    options: dict[str, object] = {"period_s": 0.01, **({} if log is None else {"log": str(log)})}
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "reach.yaml"
    recipe.write_text(yaml.safe_dump({"name": "reach", "learner": f"{MODULE}:Reach"}))
    content: dict[str, object] = {
        "name": "chaos", "task": f"{point_task.MODULE}:PointTask", "recipe": str(recipe),
        "goal": {"success": 1.0, "confirm_starts": 100000, "attempt_chance": 0.9},
        "stations": {
            "count": stations, "lanes": 4, "driver": driver, "options": options, "bind": bind, "ahead": 6, "pace": pace,
        },
        "base": {"recipe": str(recipe), "demonstrations": 10, "evaluate_starts": 20},
        "rounds": {"episodes": 20, "train_starts": 200},
        "gate": {"pairs": 40},
        "budget": {"wall_s": 0, "rounds": 100000},
        **more,
    }  # fmt: skip
    path = folder / "chaos.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


class NotANumber:
    """A learner whose policy returns nan at stations: before it is published, where it is checked, it acts well."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        staged = durable.stage_folder(job.output)
        says = {"kind": f"{MODULE}:load", "reach_m": FIRST_REACH_M, "nan_at_stations": True, "round": job.round}
        durable.fill_folders({staged: {"policy.json": json.dumps(says).encode(), "weights.safetensors": b"\0" * 64}})
        durable.reveal([(staged, job.output)])
        return {}


class LoggedRig(PointRig):
    """Writes each action and each stop with its time to a file: what the robot really did.

    The option `log` names the file. A line is `act` or `stop`, and the time in ns since 1970.
    """

    def __init__(self, spec: TaskSpec, lanes: int, options: Mapping[str, object]) -> None:
        super().__init__(spec, lanes, options)
        self._log = os.open(str(options["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        os.write(self._log, b"act %d\n" % time.time_ns())
        return super().act(action, moving)

    def stop(self) -> None:
        super().stop()
        os.write(self._log, b"stop %d\n" % time.time_ns())

    def close(self) -> None:
        if self._log >= 0:
            os.close(self._log)
            self._log = -1


def open_logged(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> LoggedRig:
    """A driver: the point, with a log of its own for each process."""
    return LoggedRig(task.spec, lanes, {**options, "log": f"{options['log']}.{os.getpid()}"})


def open_limited(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    """A driver for a guard: the logged point inside its envelope."""
    return GuardedRig(open_logged(task, lanes, seed, options), Envelope(task.spec, Limits()))
