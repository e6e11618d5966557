"""A laboratory's own task, policy and learner in one file, as users write them: a point moves to the origin."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from enpire.interfaces import Evidence, ImprovementJob, Progress
from enpire.types import Bounds, FloatArray, IntArray, MaskArray, Observation, Split, Start, TaskSpec, Verdict

FIRST_REACH_M, STEP_M, LAST_REACH_M = 0.016, 0.003, 0.031
"""What the base policy moves in a period, what each round adds, and the longest reach."""


class Reach:
    """The task: move a point to within 0.02 m of the origin in 40 periods."""

    spec = TaskSpec(
        name="reach",
        instruction="move the point to the origin",
        state=tuple(Bounds(name=f"at_{axis}", unit="m", low=-10.0, high=10.0) for axis in "xy"),
        action=tuple(Bounds(name=f"move_{axis}", unit="m", low=-0.1, high=0.1) for axis in "xy"),
        rate_hz=50.0,
        limit_ticks=40,
        start_names=("x_m", "y_m"),
    )

    def rig(self, lanes: int, seed: int) -> Points:
        return Points(self.spec, lanes)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        x, y = np.random.default_rng(index).uniform(-1.0, 1.0, 2)
        return Start(split=split, index=index, values=(float(x), float(y)), seed=1000 + index)

    def reset_skill(self) -> Return:
        return Return()

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        near = float(np.abs(state - np.asarray(start.values)).max()) < 0.05
        return (float(state[0]), float(state[1])), near

    def verifier(self) -> AtOrigin:
        return AtOrigin()

    def expert(self, seed: int) -> Steps:
        return Steps(0.1)


class Points:
    """One point per lane, with sensor noise."""

    def __init__(self, spec: TaskSpec, lanes: int) -> None:
        self.spec, self.lanes = spec, lanes
        self.at = np.zeros((lanes, 2))
        self.noise = [np.random.default_rng(0) for _ in range(lanes)]

    def place(self, lane: int, start: Start) -> None:
        self.noise[lane] = np.random.default_rng(start.seed)
        self.at[lane] = start.values

    def observe(self) -> Observation:
        time.sleep(0.01)
        noise = np.stack([one.normal(0.0, 0.001, 2) for one in self.noise])
        return Observation(stamp_ns=time.monotonic_ns(), state=(self.at + noise).astype(np.float32))

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        sent = np.clip(action, -0.1, 0.1)
        self.at[moving] += sent[moving]
        return sent

    def look(self, lane: int) -> Mapping[str, np.ndarray]:
        return {}

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


def open_rig(task: Reach, lanes: int, seed: int, options: Mapping[str, object]) -> Points:
    """The driver: there is no robot but the simulated one."""
    return task.rig(lanes, seed)


class Return:
    """The reset: drives each point to its start."""

    def __init__(self) -> None:
        self.goals: dict[int, tuple[float, ...]] = {}

    def begin(self, lane: int, start: Start) -> None:
        self.goals[lane] = start.values

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        away = np.array([self.goals[int(lane)] for lane in lanes]) - state
        return np.clip(away, -0.1, 0.1).astype(np.float32), np.abs(away).max(axis=1) < 0.01


class AtOrigin:
    """The verifier: the last measured position decides."""

    digest = "at-origin-1"
    needs_images = False

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        return (np.abs(state).max(axis=1) < 0.02) & (ticks > 0)

    def judge(self, evidence: Evidence) -> Verdict:
        there = float(np.abs(evidence.arrays.state[-1]).max()) < 0.02
        return Verdict(kind="success" if there else "failure", confidence=0.9, source="verifier")


class Steps:
    """A policy that steps towards the origin, at most `reach_m` a period, so that far starts run out of time."""

    horizon, execute = 4, 3

    def __init__(self, reach_m: float) -> None:
        self.reach_m = reach_m

    def begin(self, lane: int, seed: int) -> None:
        pass

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        step = np.clip(-observation.state / self.execute, -self.reach_m, self.reach_m)
        return np.repeat(step[:, None], self.horizon, axis=1).astype(np.float32)


def load(folder: Path) -> Steps:
    return Steps(json.loads((folder / "policy.json").read_text())["reach_m"])


class Farther:
    """The learner: each version reaches a little farther than its parent."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        reach_m = FIRST_REACH_M
        if job.parent is not None:
            reach_m = min(LAST_REACH_M, json.loads((job.parent / "policy.json").read_text())["reach_m"] + STEP_M)
        time.sleep(0.5)
        job.output.mkdir(parents=True, exist_ok=True)
        says = {"kind": "reach_task:load", "reach_m": reach_m, "round": job.round}
        (job.output / "policy.json").write_text(json.dumps(says))
        (job.output / "weights.safetensors").write_bytes(b"\0" * 64)
        return {"reach_m": reach_m}
