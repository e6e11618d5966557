"""Idle time of robots during inference: waiting for chunks against running inference while the robot moves.

    python -m benchmarks.chunks [--delay-ms 60] [--episodes 96] [--lanes 16] [--seed 0]

A policy (cloned and improved for two rounds here, or --version FOLDER) gets an inference of a given length, and does
pin_insertion at the task's real rate in three ways: the robots wait for it; it runs while they move; the same, and it
gets the rest of the old chunk. Success has its Wilson interval, on the same starts for all three.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.improvement import Bench
from benchmarks.improvement_plans import Plan
from benchmarks.machine import commit, describe
from benchmarks.measured import Measured, report
from enpire.gate.intervals import wilson
from enpire.ids import mint
from enpire.policy_calls import LoadedPolicy
from enpire.station.chunks import Chunks
from enpire.station.lanes import Lanes
from enpire.station.overlap import OverlappedChunks
from enpire.station.pace import Pace
from enpire.store.arrays import unpack
from enpire.types import SOURCE_POLICY, Episode, FloatArray, IntArray, Observation, Order
from policies.flow_policy import FlowPolicy, load
from sim.tasks.pin_insertion import PinInsertion

LIMIT = 0.25
"""Share of the idle time that may remain. Before its first chunk a robot has no action to execute."""


class DelayedPolicy:
    """A flow policy with an inference time of `delay_s`, like a large model's; without `act_along`."""

    def __init__(self, policy: FlowPolicy, delay_s: float) -> None:
        self.policy, self.delay_s = policy, delay_s
        self.horizon, self.execute = policy.horizon, policy.execute

    def begin(self, lane: int, seed: int) -> None:
        self.policy.begin(lane, seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        time.sleep(self.delay_s)
        return self.policy.act(observation, lanes)


class DelayedContinuingPolicy(DelayedPolicy):
    """The same, with chunks that continue the one that is being executed."""

    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        time.sleep(self.delay_s)
        return self.policy.act_along(observation, lanes, left, delay)


@dataclass(frozen=True, slots=True)
class ArmResult:
    episodes: list[Episode]
    wall_s: float
    late: int
    jump: float
    """Mean change of the command from the last action of a chunk to the first of the next, over that inside chunks."""

    def line(self, name: str, period_s: float) -> str:
        done = [episode for episode in self.episodes if episode.outcome in ("success", "failure", "unsafe")]
        good = wilson(sum(episode.outcome == "success" for episode in done), len(done))
        moved = sum(episode.ticks for episode in done) * period_s
        took = sum(episode.ended_s - episode.began_s for episode in done)
        ticks = np.median([episode.ticks for episode in done])
        return (
            f"{name:<28}{good.rate:>7.1%} [{good.low:.1%}, {good.high:.1%}] of {len(done)}   {ticks:>4.0f} commands   "
            f"{took / len(done):>5.2f} s an episode   still {1 - moved / took:>5.1%}   jump {self.jump:.2f}"
        )

    def idle_share(self, period_s: float) -> float:
        took = sum(episode.ended_s - episode.began_s for episode in self.episodes)
        return 1 - sum(episode.ticks for episode in self.episodes) * period_s / took


def measure(policy: DelayedPolicy, chunks: Callable[[int, int], Chunks], args: argparse.Namespace) -> ArmResult:
    """Run the episodes at the task's real rate."""
    task = PinInsertion()
    lanes = Lanes(task, task.rig(args.lanes, 900 + args.seed), 0, None, chunks)
    loaded = LoadedPolicy(policy_id="p", policy=policy, source=SOURCE_POLICY)
    waiting = [
        Order(
            order_id=mint(), campaign_id="benchmark", station="benchmark", task=task.spec.name, policy_id="p",
            start=task.start("train", 200_000 + 1000 * args.seed + index, b"benchmark of chunks"), purpose="collect",
            round=0,
        )
        for index in range(args.episodes)
    ]  # fmt: skip
    pace, episodes, jumps = Pace(task.spec.period_s), list[Episode](), list[tuple[float, float]]()
    began_s = time.monotonic()
    while len(episodes) < args.episodes:
        for lane in lanes.free():
            if waiting:
                lanes.begin(lane, waiting.pop(), loaded)
        pace.keep(resting=not lanes.busy)
        lanes.sense()
        lanes.reset()
        lanes.verify()
        lanes.decide()
        lanes.act()
        for parcel in lanes.take_ended():
            episodes.append(parcel.episode)
            if parcel.arrays_file:
                recorded = unpack(parcel.arrays_file)
                change = np.abs(np.diff(recorded.action, axis=0)).mean(axis=1)
                between = np.diff(recorded.chunk) > 0
                jumps.append((float(change[between].mean()), float(change[~between].mean())))
    seam, inside = np.mean(jumps, axis=0)
    return ArmResult(episodes, time.monotonic() - began_s, pace.late, float(seam / inside))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=60.0, help="how long each inference takes")
    parser.add_argument("--episodes", type=int, default=96)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--version", default="", help="folder of a flow policy for pin_insertion")
    args = parser.parse_args()
    print(describe([args.seed]))
    with tempfile.TemporaryDirectory() as scratch:
        version = Path(args.version)
        if not args.version:
            bench = Bench(Plan(rounds=2, starts=50), args.seed, Path(scratch), commit())
            version = Path(bench.arm("habc_plus")[-1].version)
        policy, delay_s, period_s = load(version), args.delay_ms / 1000, PinInsertion.spec.period_s
        overlapped = partial(OverlappedChunks, period_s=period_s)
        sent = f"{policy.execute} of {policy.horizon} actions of a chunk are sent"
        print(f"inference {args.delay_ms:.0f} ms, period {1000 * period_s:.0f} ms, {sent}")
        arms: dict[str, tuple[DelayedPolicy, Callable[[int, int], Chunks]]] = {
            "no delay": (DelayedPolicy(policy, 0.0), Chunks),
            "robots wait": (DelayedPolicy(policy, delay_s), Chunks),
            "overlapped": (DelayedPolicy(policy, delay_s), overlapped),
            "overlapped, goes along": (DelayedContinuingPolicy(policy, delay_s), overlapped),
        }
        found = {name: measure(policy_under_test, chunks, args) for name, (policy_under_test, chunks) in arms.items()}
    for name, measured in found.items():
        print(measured.line(name, period_s))
    before = found["robots wait"].idle_share(period_s)
    after = max(found[name].idle_share(period_s) for name in ("overlapped", "overlapped, goes along"))
    print(f"robots idle {after:.1%} of their time instead of {before:.1%}")
    return report([Measured(name="idle time, overlapped against waiting", value=after / before, most=LIMIT)])


if __name__ == "__main__":
    sys.exit(main())
