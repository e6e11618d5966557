"""The bimanual station: `python -m benchmarks.bimanual [--lanes 16] [--repeats 8] [--resets 20]`.

It prints the speed of the rig relative to raw `mj_step`: both step the same lanes through an expert's commands and must
end in the same joints, bit for bit. Then it prints how many pairs of images a second the cameras give, how often the
reset by the robot reaches its start, and how long it takes. The success of experts is measured by
`python -m benchmarks.tasks --tasks gpu_insertion`. `--lying N`: N resets of a card that lies on either side, at any
angle, on the table before the board.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import cast

import mujoco
import numpy as np
import numpy.typing as npt

from benchmarks.intervals import mean_by_seed
from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from benchmarks.tasks import LONGEST_TICKS, STATIONS, ExpertTask, rate, reset_all, resets
from benchmarks.throughput import recorded
from enpire import plugins
from enpire.types import FloatArray, Start
from sim import cameras
from sim.bimanual.kinematics import READY, from_angles, quaternion_of
from sim.bimanual.rig import JOINTS, BimanualRig
from sim.bimanual.station_model import SUBSTEPS
from sim.tasks.gpu_insertion import GpuInsertion
from sim.tasks.gpu_rig import CARD_QPOS

Joints = npt.NDArray[np.float64]
_SCALE = np.tile([*[1.0] * JOINTS, 0.5e-3], 2)
"""Factor from commands to set-point speeds, as in the rig."""
CARD_LYING_M, SETTLE_TICKS = (0.03, 0.11, 0.02), 20
"""Mean place before the board from which cards are dropped, and periods until they rest."""
MIDDLE_M = 0.0375
"""Distance of the card's middle from its lower edge."""


def by_rig(rig: BimanualRig, starts: list[Start], commands: list[FloatArray]) -> tuple[float, Joints]:
    """(CPU seconds of all periods, the joints at the end) through `act` and `observe`."""
    for lane, start in enumerate(starts):
        rig.place(lane, start)
    moving = np.ones(rig.lanes, dtype=np.bool_)
    began = time.process_time()
    for command in commands:
        rig.act(command, moving)
        rig.observe()
    return time.process_time() - began, rig.scene.qpos.copy()


def by_mujoco(
    rig: BimanualRig, starts: list[Start], commands: list[FloatArray], setpoints: list[Joints]
) -> tuple[float, Joints]:
    """(CPU seconds, joints at the end) with `mj_step` on one model and data a lane."""
    for lane, start in enumerate(starts):
        rig.place(lane, start)
    pairs = [rig.scene.materialise(lane) for lane in range(rig.lanes)]
    whole = mujoco.mjtState.mjSTATE_INTEGRATION  # type: ignore[attr-defined]
    for lane, (model, data) in enumerate(pairs):
        mujoco.mj_setState(model, data, rig.scene.snapshot(lane).state, whole)  # type: ignore[attr-defined]
    late = rig.latency_substeps
    controls = [command * _SCALE for command in commands]
    began = time.process_time()
    for control, ahead in zip(controls, setpoints, strict=True):
        for lane, (model, data) in enumerate(pairs):
            if late:
                mujoco.mj_step(model, data, late)  # type: ignore[attr-defined]
            data.ctrl[:] = control[lane]
            data.act[:] = ahead[lane]
            mujoco.mj_step(model, data, SUBSTEPS - late)  # type: ignore[attr-defined]
    return time.process_time() - began, np.stack([data.qpos for _, data in pairs])


def leashed_setpoints(rig: BimanualRig, starts: list[Start], commands: list[FloatArray]) -> list[Joints]:
    """The set points (lanes, servos) of every period, which the rig keeps near their joints."""
    kept: list[Joints] = []
    for lane, start in enumerate(starts):
        rig.place(lane, start)
    late, moving = rig.latency_substeps, np.ones(rig.lanes, dtype=np.bool_)
    for command in commands:
        before = [rig.snapshot(lane) for lane in range(rig.lanes)]
        rig.scene.step(None, late)
        joints = rig.scene.qpos[:, rig.measured]
        kept.append(np.clip(rig.arm_setpoints, joints - rig.leash, joints + rig.leash))
        for lane, snapshot in enumerate(before):
            rig.restore(lane, snapshot)
        rig.act(command, moving)
    return kept


def stepping(task: ExpertTask, lanes: int, ticks: int, repeats: int) -> Measured:
    """Print the two speeds; their ratio."""
    rig = cast(BimanualRig, task.rig(lanes, 0))
    starts = [task.start("train", index, b"") for index in range(lanes)]
    commands = recorded(task, rig, task.clean_expert(), starts, ticks)
    steps = ticks * lanes * SUBSTEPS
    setpoints = leashed_setpoints(rig, starts, commands)
    ours, raw = [], []
    for _ in range(repeats + 1):
        ours_s, ours_end = by_rig(rig, starts, commands)
        raw_s, raw_end = by_mujoco(rig, starts, commands, setpoints)
        if not np.array_equal(ours_end, raw_end):
            raise SystemExit("The rig and plain mj_step ended in different states, so their speeds cannot be compared.")
        ours.append(steps / ours_s)
        raw.append(steps / raw_s)
    ratios = np.array(ours[1:]) / np.array(raw[1:])
    ratio = mean_by_seed(list(ratios[:, None]))
    print(f"stepping  {lanes} lanes, {ticks} periods of {SUBSTEPS} steps, {rig.scene.model.nv} degrees of freedom")
    print(f"raw       {np.median(raw[1:]) / 1e3:.1f} thousand mj_step/s of CPU time")
    print(f"rig       {np.median(ours[1:]) / 1e3:.1f} thousand steps/s of CPU time, act and observe included")
    return Measured(name="speed of the rig relative to mj_step", value=ratio.mean, low=ratio.low, high=ratio.high)


def pictures(task: ExpertTask, repeats: int) -> None:
    """Print how many pairs of images a second this process renders of a moving scene, and the time for all cameras."""
    rig = cast(BimanualRig, task.rig(2, 0))
    for lane in range(2):
        rig.place(lane, task.start("train", lane, b""))
    if why := cameras.why_no_images():
        print(f"pictures  {why}")
        return
    pairs = [rig.scene.materialise(lane) for lane in range(2)]
    names, took_s, looked_s = task.spec.cameras[:2], list[float](), list[float]()
    for repeat in range(repeats + 5):
        began_s = time.perf_counter()
        cameras.render(*pairs[repeat % 2], names)
        middle_s = time.perf_counter()
        rig.look(repeat % 2)
        took_s.append(middle_s - began_s)
        looked_s.append(time.perf_counter() - middle_s)
    pair_s, look_ms = np.array(took_s[5:]), 1e3 * np.array(looked_s[5:])
    print(
        f"pictures  {names[0]} and {names[1]}, {cameras.WIDTH} x {cameras.HEIGHT}, one process: "
        f"{1 / np.median(pair_s):.0f} pairs/s (median), {1 / np.percentile(pair_s, 95):.0f} in the slowest 5 %; "
        f"all {len(task.spec.cameras)} cameras of a moving lane: {np.median(look_ms):.1f} ms"
    )


def lying(count: int) -> None:
    """Print how many resets of a flat card end at their start, and how soon, on ten stations."""
    task, rng = GpuInsertion(), np.random.default_rng(0)
    reached, took_s, each = list[bool](), list[float](), -(-count // STATIONS)
    for station in range(STATIONS):
        lanes = len(range(station * each, min((station + 1) * each, count)))
        if not lanes:
            continue
        rig = task.rig(lanes, station)
        goals = [task.start("train", count + station + STATIONS * lane, b"") for lane in range(lanes)]
        for lane, goal in enumerate(goals):
            rig.place(lane, goal)
            rig.pose_arm(lane, "right", np.array(READY["right"]), CARD_LYING_M[2])
            turned = np.array([rng.choice([-1, 1]) * np.pi / 2, 0.0, rng.uniform(-np.pi, np.pi)])
            middle_m = np.array(CARD_LYING_M) + rng.uniform(-1.0, 1.0, 3) * (0.12, 0.05, 0.0)
            edge_m = middle_m - from_angles(turned[None])[0] @ np.array([0.0, 0.0, MIDDLE_M])
            rig.scene.qpos[lane, CARD_QPOS] = [*edge_m, *quaternion_of(turned)]
        rig.teleport = False
        for _ in range(SETTLE_TICKS):
            rig.act(np.zeros((lanes, task.spec.action_dim), np.float32), np.ones(lanes, np.bool_))
        for lane, ticks in enumerate(reset_all(task, rig, goals)):
            near = task.start_error(rig.observe().state[lane], goals[lane])[1]
            reached.append(bool(near and ticks < LONGEST_TICKS))
            took_s.append(float(ticks) * task.spec.period_s)
        rig.close()
    print(f"lying     {rate(reached)} cards end at their start; median {np.median(took_s):.1f} s of robot time")


def main() -> int:
    """Measure stepping, then resets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="gpu_insertion")
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--ticks", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--resets", type=int, default=20)
    parser.add_argument("--lying", type=int, default=0)
    asked = parser.parse_args()
    if asked.lying:
        print(describe(range(STATIONS)))
        lying(asked.lying)
        return 0
    task = cast(ExpertTask, cast(type, plugins.load("tasks", asked.task))())
    print(describe((0,)))
    code = report([stepping(task, asked.lanes, asked.ticks, asked.repeats)])
    pictures(task, 200)
    if asked.resets:
        resets(task, asked.resets)
    return code


if __name__ == "__main__":
    sys.exit(main())
