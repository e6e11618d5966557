"""Idle time of robots during inference: waiting for chunks against running inference while the robot moves.

    python -m benchmarks.chunks [--delay-ms 60] [--episodes 96] [--lanes 16] [--seeds 200 201 202 203 204]

A policy (cloned and improved for two rounds here for each seed, or --version FOLDER) gets an inference of a given
length, and does pin_insertion at the task's real rate in three ways: the robots wait for it; it runs while they move;
the same, and it gets the rest of the old chunk. Each seed has the same starts for all three. Intervals are clustered by
seed. With --version, a seed draws the starts alone, so they say nothing about other policies.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.improvement import Bench
from benchmarks.improvement_plans import FIRST_FRESH_SEED, Plan, tuning
from benchmarks.intervals import LEAST_SEEDS, Estimate, head, mean_of, rate_by_seed
from benchmarks.machine import commit, describe
from benchmarks.measured import Measured, report
from enpire.ids import mint
from enpire.policy_calls import LoadedPolicy
from enpire.station.chunks import Chunks
from enpire.station.lanes import Lanes
from enpire.station.overlap import OverlappedChunks
from enpire.station.pace import Pace
from enpire.store.arrays import unpack
from enpire.types import JUDGED, SOURCE_POLICY, Episode, FloatArray, IntArray, Observation, Order
from policies.flow_policy import FlowPolicy, load
from sim.tasks.pin_insertion import PinInsertion

FRESH = list(range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + LEAST_SEEDS))
OVERLAPPED = ("overlapped", "overlapped, goes along")
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

    @property
    def done(self) -> list[Episode]:
        """The episodes with a verdict."""
        return [episode for episode in self.episodes if episode.outcome in JUDGED]

    @property
    def successes(self) -> int:
        return sum(episode.outcome == "success" for episode in self.done)

    def idle_share(self, period_s: float) -> float:
        took = sum(episode.ended_s - episode.began_s for episode in self.episodes)
        return 1 - sum(episode.ticks for episode in self.episodes) * period_s / took


def line(name: str, arms: Sequence[ArmResult], period_s: float) -> str:
    """One row: an arm over all seeds."""
    episodes = [episode for arm in arms for episode in arm.done]
    good = rate_by_seed([arm.successes for arm in arms], [len(arm.done) for arm in arms])
    idle = mean_of([arm.idle_share(period_s) for arm in arms])
    took = sum(episode.ended_s - episode.began_s for episode in episodes) / len(episodes)
    interval = f" [{idle.low:.1%}, {idle.high:.1%}]" if len(arms) > 1 else ""
    return (
        f"{name:<28}{good.mean:>7.1%} [{good.low:.1%}, {good.high:.1%}] of {len(episodes)}   "
        f"{np.median([episode.ticks for episode in episodes]):>4.0f} commands   {took:>5.2f} s an episode   "
        f"still {idle.mean:>5.1%}{interval}   jump {np.mean([arm.jump for arm in arms]):.2f}"
    )


def left_idle(seeds: Sequence[Mapping[str, ArmResult]], period_s: float) -> Estimate:
    """Idle time of overlapped inference, the worse of its two ways, over that of robots that wait: mean over seeds."""
    ratios = [
        max(arms[name].idle_share(period_s) for name in OVERLAPPED) / arms["robots wait"].idle_share(period_s)
        for arms in seeds
    ]
    return mean_of(ratios)


def verdict(left: Estimate, seeds: int) -> int:
    """Print the idle time that remains; the exit code. With fewer than `LEAST_SEEDS` seeds it claims nothing."""
    name, several = "idle time, overlapped against waiting, mean over seeds", seeds > 1
    low, high = (left.low, left.high) if several else (None, None)
    if seeds >= LEAST_SEEDS:
        return report([Measured(name=name, value=left.mean, low=low, high=high, most=LIMIT)])
    print(f"too few seeds for a claim ({seeds} of at least {LEAST_SEEDS}): at most {LIMIT:g} is promised")
    return report([Measured(name=name, value=left.mean, low=low, high=high)])


def measure(
    policy: DelayedPolicy, chunks: Callable[[int, int], Chunks], args: argparse.Namespace, seed: int
) -> ArmResult:
    """Run the episodes of one seed at the task's real rate."""
    task = PinInsertion()
    lanes = Lanes(task, task.rig(args.lanes, 900 + seed), 0, None, chunks)
    loaded = LoadedPolicy(policy_id="p", policy=policy, source=SOURCE_POLICY)
    waiting = [
        Order(
            order_id=mint(), campaign_id="benchmark", station="benchmark", task=task.spec.name, policy_id="p",
            start=task.start("train", 200_000 + 1000 * seed + index, b"benchmark of chunks"), purpose="collect",
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


def run_seed(seed: int, version: str, args: argparse.Namespace) -> Mapping[str, ArmResult]:
    """All arms of one seed; without a version, a policy is trained for it first."""
    with tempfile.TemporaryDirectory() as scratch:
        if not version:
            bench = Bench(Plan(rounds=2, starts=50), seed, Path(scratch), commit())
            version = bench.arm("habc_plus")[-1].version
        policy, delay_s, period_s = load(Path(version)), args.delay_ms / 1000, PinInsertion.spec.period_s
        overlapped = partial(OverlappedChunks, period_s=period_s)
        sent = f"{policy.execute} of {policy.horizon} actions of a chunk are sent"
        print(f"seed {seed}: inference {args.delay_ms:.0f} ms, period {1000 * period_s:.0f} ms, {sent}", flush=True)
        arms: dict[str, tuple[DelayedPolicy, Callable[[int, int], Chunks]]] = {
            "no delay": (DelayedPolicy(policy, 0.0), Chunks),
            "robots wait": (DelayedPolicy(policy, delay_s), Chunks),
            "overlapped": (DelayedPolicy(policy, delay_s), overlapped),
            "overlapped, goes along": (DelayedContinuingPolicy(policy, delay_s), overlapped),
        }
        return {name: measure(delayed, chunks, args, seed) for name, (delayed, chunks) in arms.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=60.0, help="how long each inference takes")
    parser.add_argument("--episodes", type=int, default=96, help="of each seed")
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=FRESH)
    parser.add_argument("--version", default="", help="folder of a flow policy for pin_insertion")
    args = parser.parse_args()
    print(f"{describe(args.seeds)}\n{head(len(args.seeds))}\n{tuning('pin_insertion', args.seeds)}", flush=True)
    print("limits    the delay and the limit of idle time were set by hand")
    found, period_s = [run_seed(seed, args.version, args) for seed in args.seeds], PinInsertion.spec.period_s
    for name in found[0]:
        print(line(name, [arms[name] for arms in found], period_s))
    return verdict(left_idle(found, period_s), len(found))


if __name__ == "__main__":
    sys.exit(main())
