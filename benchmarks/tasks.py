"""Success of the shipped experts, resets and verifiers: `python -m benchmarks.tasks [--starts 200] [--graded 500]`.

Experts run from hidden starts, a tenth of them on each of ten stations with their own physics. The verifier is graded
against the ground truth on the demonstrations of the varied expert. `--resets N`: N resets by the robot, each after a
rollout of the varied expert, or with `--clumsy` on every other station after an expert with action noise. `--disturbed
N`: N episodes of clean, varied, noisy and biased experts from other hidden starts, with the verifier's sensors as built
and disturbed, as in `enpire verifier report` (`--draw N`: another set of starts, on other stations).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from benchmarks.intervals import head, rate_by_seed
from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from enpire import plugins
from enpire.interfaces import Evidence, Policy, Rig, Task
from enpire.types import Start
from sim.rollouts import GradedRollout, roll_out
from sim.verifiers.examples import NoisyExpert
from sim.verifiers.grading import report as grade

SECRET = b"the benchmark's own secret"
STATIONS = 10
LONGEST_TICKS = 1800
"""A reset that takes longer (60 s at 30 Hz) has failed."""


class ExpertTask(Task, Protocol):
    """A task that also has a clean expert."""

    def clean_expert(self) -> Policy:
        """The fast and accurate expert."""
        ...


def tries(task: Task, policy: Policy, count: int) -> list[GradedRollout]:
    """`count` rollouts from hidden starts, spread over the stations."""
    done: list[GradedRollout] = []
    each = -(-count // STATIONS)
    for station in range(STATIONS):
        indices = range(station * each, min((station + 1) * each, count))
        if len(indices):
            rig = task.rig(len(indices), station)
            done += roll_out(task, rig, policy, [task.start("holdout", index, SECRET) for index in indices])
            rig.close()
    return done


def rate(good: Sequence[bool], counted: Sequence[bool] = ()) -> str:
    """A proportion in per cent with its 95 % interval, clustered by station.

    Args:
        good: for each episode, in the order of `tries`.
        counted: which of these episodes count; empty: all of them.
    """
    each, of = -(-len(good) // STATIONS), counted or [True] * len(good)
    won = [one and also for one, also in zip(good, of, strict=True)]
    stations = [slice(first, first + each) for first in range(0, len(good), each)]
    found = rate_by_seed([sum(won[one]) for one in stations], [sum(of[one]) for one in stations])
    return f"{sum(won)}/{sum(of)} = {100 * found.mean:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"


def success(name: str, good: list[bool]) -> Measured:
    """The share of good episodes in percent, clustered by station."""
    each = -(-len(good) // STATIONS)
    stations = [good[first : first + each] for first in range(0, len(good), each)]
    found = rate_by_seed([sum(one) for one in stations], [len(one) for one in stations])
    return Measured(name=name, value=100 * found.mean, low=100 * found.low, high=100 * found.high, unit="%")


def expert_line(name: str, done: list[GradedRollout]) -> str:
    """Success by ground truth, and the length of successes."""
    good = [item.ticks for item in done if item.truth.success]
    share = rate([item.truth.success for item in done])
    return f"  {name:<9} {share}; successes take {np.mean(good):.0f} periods on average"


def verifier_lines(task: Task, done: list[GradedRollout]) -> list[str]:
    """Precision, recall and latency of the verifier."""
    truth = [item.truth.success for item in done]
    called_success = [item.verdict.kind == "success" for item in done]
    verifier, took = task.verifier(), []
    for item in done:
        began = time.perf_counter()
        verifier.judge(Evidence(arrays=item.arrays, images=item.images))
        took.append(1e3 * (time.perf_counter() - began))
    return [
        f"  verifier precision {rate(truth, called_success)}",
        f"           recall    {rate(called_success, truth)}",
        f"           on {len(done)} episodes; {np.percentile(took, 50):.2f} ms p50, {np.percentile(took, 95):.2f} p95",
    ]


def resets(task: Task, count: int, clumsy: bool = False) -> None:
    """Print how many resets by the robot, each after a rollout, end at their start, how near, and how soon."""
    reached, took_s, off = list[bool](), list[float](), list[npt.NDArray[np.float64]]()
    each = -(-count // STATIONS)
    for station in range(STATIONS):
        tried = range(station * each, min((station + 1) * each, count))
        if not len(tried):
            continue
        rig = task.rig(len(tried), station)
        policy = NoisyExpert(task.expert(0), task.spec) if clumsy and station % 2 else task.expert(0)
        roll_out(task, rig, policy, [task.start("train", index, b"") for index in tried])
        rig.teleport = False  # pyright: ignore[reportAttributeAccessIssue]
        goals = [task.start("train", count + index, b"") for index in tried]
        for lane, ticks in enumerate(reset_all(task, rig, goals)):
            achieved, near = task.start_error(rig.observe().state[lane], goals[lane])
            reached.append(bool(near and ticks < LONGEST_TICKS))
            took_s.append(float(ticks) * task.spec.period_s)
            off.append(np.abs(np.array(achieved) - np.array(goals[lane].values)))
        rig.close()
    print(f"  resets    {rate(reached)} reach their start; median {np.median(took_s):.1f} s of robot time")
    errors = zip(task.spec.start_names, np.median(off, axis=0), np.percentile(off, 95, axis=0), strict=True)
    print("            off by (median, 95 %): " + ", ".join(f"{name} {a:.2g}, {b:.2g}" for name, a, b in errors))


def reset_all(task: Task, rig: Rig, goals: Sequence[Start]) -> npt.NDArray[np.int64]:
    """Reset all lanes to their starts; returns the periods that each took, (lanes,)."""
    skill = task.reset_skill()
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
    done, took = np.zeros(rig.lanes, np.bool_), np.zeros(rig.lanes, np.int64)
    while not done.all() and took.max() < LONGEST_TICKS:
        lanes = np.flatnonzero(~done)
        command = np.zeros((rig.lanes, task.spec.action_dim), np.float32)
        command[lanes], done[lanes] = skill.step(rig.observe().state[lanes], lanes)
        took[lanes] += 1
        rig.act(command, ~done)
    return took


def measure(name: str, asked: argparse.Namespace) -> list[Measured]:
    """Measure one task; success of its experts."""
    task = cast(ExpertTask, cast(type, plugins.load("tasks", name))())
    print(
        f"{name}, limit {task.spec.limit_ticks} periods, success by ground truth (95 % interval, clustered by station)"
    )
    numbers: list[Measured] = []
    if asked.starts:
        clean = tries(task, task.clean_expert(), asked.starts)
        print(expert_line("clean", clean), flush=True)
        numbers.append(success(f"{name}, clean expert", [item.truth.success for item in clean]))
    if asked.graded:
        graded = tries(task, task.expert(0), asked.graded)
        print(expert_line("varied", graded))
        print("\n".join(verifier_lines(task, graded)), flush=True)
        numbers.append(success(f"{name}, varied expert", [item.truth.success for item in graded]))
    if asked.resets:
        resets(task, asked.resets, asked.clumsy)
    if asked.disturbed:
        print(grade(name, asked.disturbed, draw=asked.draw).text, flush=True)
    return numbers


def main() -> int:
    """Measure every task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--graded", type=int, default=500)
    parser.add_argument("--resets", type=int, default=0)
    parser.add_argument("--clumsy", action="store_true")
    parser.add_argument("--disturbed", type=int, default=0)
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument(
        "--tasks", nargs="*", default=["pin_insertion", "pin_insertion_blind", "fragile_insertion", "push_t"]
    )
    asked = parser.parse_args()
    print(f"{describe(range(STATIONS))}\n{head(STATIONS, 'episodes', 'station')}")
    return report([number for name in asked.tasks for number in measure(name, asked)])


if __name__ == "__main__":
    sys.exit(main())
