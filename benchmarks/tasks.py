"""How good the shipped experts and verifiers are: `python -m benchmarks.tasks [--starts 200] [--graded 500]`.

Experts run from hidden starts, a tenth of them on each of ten stations with their own physics; the verifier is graded
against the simulator's truth on the demonstrations of the varied expert.
"""

from __future__ import annotations

import argparse
import time
from typing import Protocol, cast

import numpy as np

from benchmarks.machine import describe
from enpire import plugins
from enpire.interfaces import Evidence, Policy, Task
from enpire.intervals import wilson
from sim.rollouts import GradedRig, Rolled, roll_out

SECRET = b"the benchmark's own secret"
STATIONS = 10


class ExpertTask(Task, Protocol):
    """A task that also has an expert at its best."""

    def clean_expert(self) -> Policy:
        """Fast and careful."""
        ...


def tries(task: Task, policy: Policy, count: int) -> list[Rolled]:
    """`count` rollouts from hidden starts, spread over the stations."""
    done: list[Rolled] = []
    each = -(-count // STATIONS)
    for station in range(STATIONS):
        indices = range(station * each, min((station + 1) * each, count))
        if len(indices):
            rig = cast(GradedRig, task.rig(len(indices), station))
            done += roll_out(task, rig, policy, [task.start("holdout", index, SECRET) for index in indices])
            rig.close()
    return done


def rate(good: int, of: int) -> str:
    """A proportion with its Wilson interval, in per cent."""
    interval = wilson(good, of)
    return f"{good}/{of} = {100 * interval.rate:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def expert_line(name: str, done: list[Rolled]) -> str:
    """Success by the simulator's truth, and how long successes take."""
    good = [item.ticks for item in done if item.truth.success]
    return f"  {name:<9} {rate(len(good), len(done))}; successes take {np.mean(good):.0f} periods on average"


def verifier_lines(task: Task, done: list[Rolled]) -> list[str]:
    """Precision, recall and latency of the verifier."""
    truth = np.array([item.truth.success for item in done])
    said = np.array([item.verdict.kind == "success" for item in done])
    verifier, took = task.verifier(), []
    for item in done:
        began = time.perf_counter()
        verifier.judge(Evidence(arrays=item.arrays, images=item.images))
        took.append(1e3 * (time.perf_counter() - began))
    both = int((said & truth).sum())
    return [
        f"  verifier precision {rate(both, int(said.sum()))}",
        f"           recall    {rate(both, int(truth.sum()))}",
        f"           on {len(done)} episodes; {np.percentile(took, 50):.2f} ms p50, {np.percentile(took, 95):.2f} p95",
    ]


def main() -> None:
    """Measure every task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--graded", type=int, default=500)
    parser.add_argument("--tasks", nargs="*", default=["pin_insertion", "pin_insertion_blind", "push_t"])
    asked = parser.parse_args()
    print(describe(range(STATIONS)))
    for name in asked.tasks:
        task = cast(ExpertTask, cast(type, plugins.load("tasks", name))())
        print(f"{name}, limit {task.spec.limit_ticks} periods, success by the simulator's truth (95 % Wilson interval)")
        print(expert_line("clean", tries(task, task.clean_expert(), asked.starts)), flush=True)
        graded = tries(task, task.expert(0), asked.graded)
        print(expert_line("varied", graded))
        print("\n".join(verifier_lines(task, graded)), flush=True)


if __name__ == "__main__":
    main()
