"""Speed of the simulation: `python -m benchmarks.throughput [--lanes 16] [--repeats 12] [--seconds 30]`.

Three numbers: the speed of a vectorised task relative to raw `mj_step`, the cost of a batched decision of the flow
policy relative to the stepping that it decides, and the orders that a whole campaign (four stations, ledger, learner)
ends in a second.

Task and raw `mj_step` step the same lanes through the same commands with the same per-lane models, and must end in the
same state bit for bit before their speeds are compared. Time is the CPU time of the process, so that other processes do
not count. The task's time is all of `act` and `observe`: limits, latency, sensors, noise, clocks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

import mujoco
import numpy as np
import numpy.typing as npt
import yaml

from benchmarks.intervals import mean_by_seed
from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from enpire import plugins
from enpire.files import find
from enpire.interfaces import Policy, Task
from enpire.types import FloatArray, Observation, Start
from policies.flow_network import FlowNetwork
from policies.flow_policy import FlowPolicy, FlowVersion
from policies.flow_shape import FlowShape
from policies.normalise import Scale
from sim.rig import SimRig

SUBSTEPS = 8
LEAST = 0.6
"""Least speed of a task relative to raw `mj_step`."""
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


def decision_s(task: Task, lanes: int, repeats: int) -> tuple[float, int]:
    """(CPU seconds of one decision for all lanes, commands that it gives): the shipped size, random weights."""
    shape = FlowShape(state_dim=task.spec.state_dim, action_dim=task.spec.action_dim)
    state, action = (Scale(mean=np.zeros(n, np.float32), spread=np.ones(n, np.float32)) for n in _widths(shape))
    weights = FlowNetwork(shape, 0).weights()
    policy = FlowPolicy(FlowVersion(shape=shape, state=state, action=action, temperature=1.0, weights=weights))
    seen = Observation(stamp_ns=0, state=np.zeros((lanes, shape.state_dim), np.float32))
    rows = np.arange(lanes)
    for lane in range(lanes):
        policy.begin(lane, lane)
    policy.act(seen, rows)
    began = time.process_time()
    for _ in range(repeats):
        policy.act(seen, rows)
    return (time.process_time() - began) / repeats, shape.execute


def orders_per_s(seconds: float) -> tuple[float, int]:
    """(orders ended in a second of wall clock, how many in all) by the shipped campaign in a fresh home."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = yaml.safe_load(find("campaigns", "pin_insertion").read_text(encoding="utf-8"))
        campaign["budget"] |= {"wall_s": seconds}
        path, home = Path(folder) / "timed.yaml", Path(folder) / "home"
        path.write_text(yaml.safe_dump(campaign), encoding="utf-8")
        subcommands = ("run", str(path), "--headless"), ("campaign", "show", "--json")
        outputs = [
            subprocess.run(
                [sys.executable, "-m", "enpire.cli", *words, "--home", str(home)], capture_output=True, text=True,
                check=False,
            ).stdout
            for words in subcommands
        ]  # fmt: skip
    view = json.loads(outputs[-1])
    ended = view["episodes"]["total"] - view["episodes"].get("open", 0)
    return ended / view["wall_s"], ended


def _widths(shape: FlowShape) -> tuple[int, int]:
    return shape.state_dim, shape.action_dim


def main() -> int:
    """Measure and print the results; returns 1 when the whole interval of the ratio is below its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="pin_insertion")
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--ticks", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=30.0, help="of the campaign that counts orders; 0: none")
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
            raise SystemExit(
                "The task and plain mj_step ended in different states, so their speeds cannot be compared."
            )
        ours.append(steps / task_s)
        raw.append(steps / raw_s)
    ratios = np.array(ours[1:]) / np.array(raw[1:])
    ratio = mean_by_seed(list(ratios[:, None]))
    print(describe((seed,)))
    print(f"task      {asked.task}: {asked.lanes} lanes, {asked.ticks} periods of {SUBSTEPS} steps")
    print(f"raw       {np.median(raw[1:]) / 1e3:.0f} thousand mj_step/s of CPU time")
    print(f"task      {np.median(ours[1:]) / 1e3:.0f} thousand steps/s of CPU time, act and observe included")
    speed = Measured(name="speed of the task relative to mj_step", value=ratio.mean, low=ratio.low, high=ratio.high)
    in_words = f"{asked.repeats} repeats: the 95 % interval reaches {ratio.high:.2f}, at least {LEAST}"
    code = report([speed], [(in_words, ratio.high >= LEAST)])
    cost_s, execute = decision_s(task, asked.lanes, 200)
    stepping_s = execute * asked.lanes * SUBSTEPS / float(np.median(ours[1:]))
    print(
        f"policy    {1e3 * cost_s:.2f} ms of CPU time for a decision of {asked.lanes} lanes, "
        f"{cost_s / stepping_s:.2f} of the stepping of its {execute} periods"
    )
    if asked.seconds:
        rate, ended = orders_per_s(asked.seconds)
        print(f"orders    {rate:.0f} ended in a second of wall clock ({ended} in all), with learner and gates")
    return code


if __name__ == "__main__":
    sys.exit(main())
