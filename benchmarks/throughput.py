"""How much of raw `mj_step` a vectorised task keeps: `python -m benchmarks.throughput [--lanes 16] [--repeats 12]`.

Both sides step the same lanes through the same commands with the same per-lane models, and must end in the same state
bit for bit; only then are they compared. Time is the CPU time of the process, so that neighbours on the machine do not
count. The task's side is all of `act` and `observe`: limits, latency, sensors, noise, clocks.
"""

from __future__ import annotations

import argparse
import time
from typing import cast

import mujoco
import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.machine import describe
from enpire import plugins
from enpire.interfaces import Policy, Task
from enpire.types import FloatArray, Start
from sim.rig import SimRig

SUBSTEPS = 8
Joints = npt.NDArray[np.float64]


def recorded(task: Task, rig: SimRig, policy: Policy, starts: list[Start], ticks: int) -> list[FloatArray]:
    """The commands of an expert in every lane, (ticks) x (lanes, action_dim)."""
    for lane, start in enumerate(starts):
        rig.place(lane, start)
        policy.begin(lane, start.seed)
    moving = np.ones(rig.lanes, dtype=np.bool_)
    sent: list[FloatArray] = []
    chunk = policy.act(rig.observe(), np.arange(rig.lanes))
    for tick in range(ticks):
        if tick % policy.execute == 0:
            chunk = policy.act(rig.observe(), np.arange(rig.lanes))
        sent.append(rig.act(chunk[:, tick % policy.execute], moving))
    return sent


def by_task(rig: SimRig, starts: list[Start], commands: list[FloatArray]) -> tuple[float, Joints]:
    """(CPU seconds of all periods, the joints at the end) with the task's own stepping."""
    for lane, start in enumerate(starts):
        rig.place(lane, start)
    moving = np.ones(rig.lanes, dtype=np.bool_)
    began = time.process_time()
    for command in commands:
        rig.act(command, moving)
        rig.observe()
    return time.process_time() - began, rig.scene.qpos.copy()


def by_mujoco(rig: SimRig, starts: list[Start], commands: list[FloatArray], latency: int) -> tuple[float, Joints]:
    """(CPU seconds, joints at the end) with `mj_step` on one model and data a lane."""
    for lane, start in enumerate(starts):
        rig.place(lane, start)
    pairs = [rig.scene.materialise(lane) for lane in range(rig.lanes)]
    whole = mujoco.mjtState.mjSTATE_INTEGRATION  # type: ignore[attr-defined]
    for lane, (model, data) in enumerate(pairs):
        mujoco.mj_setState(model, data, rig.scene.snapshot(lane).state, whole)  # type: ignore[attr-defined]
    controls = [1e-3 * command for command in commands]
    began = time.process_time()
    for control in controls:
        for lane, (model, data) in enumerate(pairs):
            if latency:
                mujoco.mj_step(model, data, latency)  # type: ignore[attr-defined]
            data.ctrl[:] = control[lane]
            mujoco.mj_step(model, data, SUBSTEPS - latency)  # type: ignore[attr-defined]
    return time.process_time() - began, np.stack([data.qpos for _, data in pairs])


def main() -> None:
    """Measure, check that both sides did the same, print the ratio with its interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="pin_insertion")
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--ticks", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=12)
    asked = parser.parse_args()
    task = cast(Task, cast(type, plugins.load("tasks", asked.task))())
    seed = 0
    rig = cast(SimRig, task.rig(asked.lanes, seed))
    starts = [task.start("train", index, b"") for index in range(asked.lanes)]
    commands = recorded(task, rig, task.expert(0), starts, asked.ticks)
    steps = asked.ticks * asked.lanes * SUBSTEPS
    ours, raw = [], []
    for _ in range(asked.repeats + 1):
        task_s, task_end = by_task(rig, starts, commands)
        raw_s, raw_end = by_mujoco(rig, starts, commands, rig.latency_substeps)
        if not np.array_equal(task_end, raw_end):
            raise SystemExit("The task and plain mj_step ended in different states; the comparison would mean nothing.")
        ours.append(steps / task_s)
        raw.append(steps / raw_s)
    ratios = np.array(ours[1:]) / np.array(raw[1:])
    half = float(stats.t.ppf(0.975, len(ratios) - 1) * ratios.std(ddof=1) / np.sqrt(len(ratios)))
    print(describe((seed,)))
    print(f"task      {asked.task}: {asked.lanes} lanes, {asked.ticks} periods of {SUBSTEPS} steps")
    print(f"raw       {np.median(raw[1:]) / 1e3:.0f} thousand mj_step/s of CPU time")
    print(f"task      {np.median(ours[1:]) / 1e3:.0f} thousand steps/s of CPU time, act and observe included")
    low, high = ratios.mean() - half, ratios.mean() + half
    print(f"ratio     {ratios.mean():.2f} (95 % interval {low:.2f} to {high:.2f}, {asked.repeats} repeats)")


if __name__ == "__main__":
    main()
