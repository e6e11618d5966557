"""A small task for tests of the fleet: a point in the plane moves to the origin. It needs numpy only.

Stations load its parts through plug-ins by their full names, as a laboratory's own parts would be.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from enpire.errors import RobotProblem
from enpire.ids import mint
from enpire.interfaces import Evidence, Rig, Task
from enpire.station.station_file import StationFile
from enpire.types import (
    Bounds,
    FloatArray,
    IntArray,
    MaskArray,
    Observation,
    Order,
    Purpose,
    Split,
    Start,
    TaskSpec,
    Verdict,
)

MODULE = "tests.fakes.point_task"
KINDS = (f"{MODULE}:load", "tests.chaos.point_lab:load")
"""Kinds of versions that stations of tests may load."""
LIMIT = 40


def bounds(prefix: str, reach: float) -> tuple[Bounds, ...]:
    return tuple(Bounds(name=f"{prefix}_{axis}", unit="m", low=-reach, high=reach) for axis in "xy")


class PointTask:
    spec = TaskSpec(
        name="point", instruction="move the point to the origin", state=bounds("at", 10.0),
        action=bounds("move", 0.1), rate_hz=50.0, limit_ticks=LIMIT, start_names=("x_m", "y_m"),
    )  # fmt: skip

    def rig(self, lanes: int, seed: int) -> Rig:
        return PointRig(self.spec, lanes)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        values = np.random.default_rng(index).uniform(-1.0, 1.0, 2)
        return Start(split=split, index=index, values=(float(values[0]), float(values[1])), seed=1000 + index)

    def reset_skill(self) -> PointReset:
        return PointReset()

    def home_skill(self) -> PointHome:
        return PointHome()

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        achieved = (float(state[0]), float(state[1]))
        return achieved, bool(np.abs(np.asarray(achieved) - np.asarray(start.values)).max() < 0.05)

    def verifier(self) -> PointVerifier:
        return PointVerifier()

    def expert(self, seed: int) -> PointPolicy:
        return PointPolicy(noise=0.0)


class PointRig:
    """Each lane is a point with its own sensor noise; `options` of the station file can make it fail.

    With the option `picture_px` a camera sees noise, which nothing makes smaller.
    """

    def __init__(self, spec: TaskSpec, lanes: int, options: Mapping[str, object] | None = None) -> None:
        self.options = dict(options or {})
        self.spec = replace(spec, cameras=("top",)) if "picture_px" in self.options else spec
        self.lanes = lanes
        self.eye = np.random.default_rng(0)
        self.at = np.zeros((lanes, 2))
        self.generators = [np.random.default_rng(0) for _ in range(lanes)]
        self.stops = 0

    def place(self, lane: int, start: Start) -> None:
        self.generators[lane] = np.random.default_rng(start.seed)
        if not self.options.get("reset_by_robot"):
            self.at[lane] = start.values

    def observe(self) -> Observation:
        if pause := float(str(self.options.get("period_s", 0.0))):
            time.sleep(pause)
        noise = np.stack([generator.normal(0.0, 0.001, 2) for generator in self.generators])
        return Observation(stamp_ns=time.monotonic_ns(), state=(self.at + noise).astype(np.float32))

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        sent = np.clip(action, -0.1, 0.1)
        self.at[moving] += sent[moving]
        broken = Path(str(self.options.get("breaks_with", "/nonexistent")))
        if moving.all() and broken.exists():  # so that it ends the rollouts of all lanes, not of some by chance
            broken.unlink()
            raise RobotProblem("the point's wire is loose")
        return sent

    def look(self, lane: int) -> Mapping[str, np.ndarray]:
        side = int(str(self.options.get("picture_px", 0)))
        return {"top": self.eye.integers(0, 256, (side, side, 3), np.uint8)} if side else {}

    def stop(self) -> None:
        self.stops += 1
        if Path(str(self.options.get("deaf", "/nonexistent"))).exists():
            raise RobotProblem("the point does not listen")

    def close(self) -> None:
        pass


class LatchedRig(PointRig):
    """A rig with its own stop button, which is pressed while the file `button` exists."""

    @property
    def stopped(self) -> bool:
        return Path(str(self.options["button"])).exists()

    def resume(self) -> None:
        raise RobotProblem("only a person at the robot can resume it")


def open_rig(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> PointRig:
    return (LatchedRig if "button" in options else PointRig)(task.spec, lanes, options)


class PointReset:
    """Drives the point to its start; a start beyond 5 m is never reached."""

    def __init__(self) -> None:
        self.goals: dict[int, np.ndarray] = {}

    def begin(self, lane: int, start: Start) -> None:
        self.goals[lane] = np.asarray(start.values)

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        goals = np.stack([self.goals[int(lane)] for lane in lanes])
        away = goals - state
        return np.clip(away, -0.1, 0.1).astype(np.float32), np.abs(away).max(axis=1) < 0.01


class PointHome(PointReset):
    """Drives the point to (2, 2)."""

    def begin(self, lane: int, start: Start) -> None:
        self.goals[lane] = np.array([2.0, 2.0])


class PointVerifier:
    digest = "point-1"
    needs_images = False

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        return (np.abs(state).max(axis=1) < 0.02) & (ticks > 0)

    def judge(self, evidence: Evidence) -> Verdict:
        there = float(np.abs(evidence.arrays.state[-1]).max()) < 0.02
        return Verdict(kind="success" if there else "failure", confidence=0.9, source="verifier")


class PointPolicy:
    """Steps towards the origin with its own noise; `fault` makes it fail."""

    horizon, execute = 4, 3

    def __init__(self, noise: float = 0.005, fault: str = "") -> None:
        self.noise, self.fault = noise, fault
        self.generators: dict[int, np.random.Generator] = {}

    def begin(self, lane: int, seed: int) -> None:
        self.generators[lane] = np.random.default_rng(seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        if self.fault == "raise":
            raise KeyError("nothing of that name")
        if self.fault == "shape":
            return np.zeros((len(lanes), 1), np.float32)
        chunks = np.empty((len(lanes), self.horizon, 2), np.float32)
        for row, lane in enumerate(lanes):
            noise = self.generators[int(lane)].normal(0.0, self.noise, (self.horizon, 2))
            chunks[row] = np.clip(-observation.state[row] / self.execute, -0.2, 0.2) + noise
            if self.fault == "nan" and observation.state[row, 0] > 0.0:
                chunks[row, 1, 1] = np.nan
        return chunks


def load(folder: Path) -> PointPolicy:
    says = json.loads((folder / "policy.json").read_text())
    return PointPolicy(noise=says.get("noise", 0.005), fault=says.get("fault", ""))


def write_policy(folder: Path, **says: object) -> Path:
    """Write the files of a policy version; they are not published yet."""
    folder.mkdir(parents=True)
    (folder / "policy.json").write_text(json.dumps({"kind": f"{MODULE}:load", **says}))
    (folder / "weights.safetensors").write_bytes(b"\0" * 64)
    return folder


def point_station(home: Path, name: str = "alpha", lanes: int = 3, **more: object) -> StationFile:
    """A fast station of the point task."""
    given = {"pace": "fast", "reset": "teleport", "policy_kinds": KINDS, **more}
    return StationFile(
        name=name, task=f"{MODULE}:PointTask", driver=f"{MODULE}:open_rig", lanes=lanes, home=home / name, **given
    )  # pyright: ignore[reportArgumentType]


def point_order(
    policy_id: str, index: int, station: str = "alpha", lease: int = 0, purpose: Purpose = "collect"
) -> Order:
    """An order for the start with this index."""
    return Order(
        order_id=mint(), campaign_id="point-campaign", station=station, task=f"{MODULE}:PointTask", policy_id=policy_id,
        start=PointTask().start("train", index, b""), purpose=purpose, round=1, lease=lease,
    )  # fmt: skip


def environment() -> dict[str, str]:
    """The environment of station processes: tests are importable, one thread each."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "OMP_NUM_THREADS": "1"}
