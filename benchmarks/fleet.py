"""Measures the orchestrator's load and delays: `python -m benchmarks.fleet [--stations 1 4 8 32 100] [--seconds 30]`.

With `--pictures-mb 200` every station always sends an episode with an image file of that size; the other columns then
show the delays of messages and small episodes meanwhile.

It runs the real `enpire run` in its own process with real ledger and store. Fake stations (fake_stations.py) use the
real protocol, move nothing, and send heartbeats at 10 Hz. The learner takes 20 s, after an agent that takes 20 s. The
utilisation column shows whether the robots keep moving meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.fake_stations import Host
from benchmarks.machine import describe
from enpire.interfaces import ImprovementJob, Progress
from enpire.queries.metrics import PhaseSeconds, robot_time
from enpire.store import durable
from enpire.types import PHASES
from enpire.wire.private_socket import private_address
from tests.chaos.harness import Orchestrator, until
from tests.chaos.point_lab import write_campaign

AGENT_S, LEARNING_S = 20.0, 20.0
TICK = os.sysconf("SC_CLK_TCK")


class Slow:
    """A slow agent and a slow learner; its versions are never better."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        for stage, seconds in (("agent", AGENT_S), ("learning", LEARNING_S)):
            for step in range(10):
                time.sleep(seconds / 10 if job.parent else 0.05)
                report(Progress(stage=stage, done=step + 1, total=10, metrics={}))
        staged = durable.stage_folder(job.output)
        policy = {"kind": "tests.chaos.point_lab:load", "reach_m": 0.02, "round": job.round}
        durable.fill_folders({staged: {"policy.json": json.dumps(policy).encode(), "weights.safetensors": b"\0" * 64}})
        durable.reveal([(staged, job.output)])
        return {}


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def memory_mb(pid: int) -> float:
    """Resident memory of a process in MB."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def measure(number: int, seconds: float, episode_s: float, pictures_bytes: int) -> str:
    """One row of the table."""
    with tempfile.TemporaryDirectory(prefix="enpire-fleet-") as folder:
        root = Path(folder)
        address = private_address(root, "lab")
        campaign = write_campaign(
            root / "files", stations=0, bind=address,
            base={"recipe": str(root / "files" / "reach.yaml"), "demonstrations": number, "evaluate_starts": number},
            rounds={"episodes": 4 * number, "train_starts": 200},
        )  # fmt: skip
        recipe = root / "files" / "reach.yaml"
        recipe.write_text("name: slow\nlearner: benchmarks.fleet:Slow\n")
        lab = Orchestrator(campaign, root / "home")
        lab.start()
        host = Host(address, number, episode_s, 10.0, pictures_bytes)
        try:
            until(lambda: "Stations connect" in lab.said(), "the orchestrator")
            _run_until_all_work(host)
            return _row(host, lab, seconds)
        finally:
            host.close()
            lab.kill_all()


def _run_until_all_work(host: Host) -> None:
    deadline = time.monotonic() + 120.0
    while not all(station.ended for station in host.stations):
        if time.monotonic() > deadline:
            raise RuntimeError("Not every fake station ended an episode within 120 s.")
        host.run_until(time.monotonic() + 0.5)
    host.forget_delays()


def _row(host: Host, lab: Orchestrator, seconds: float) -> str:
    began, spent, before = time.monotonic(), cpu_s(lab.pid), memory_mb(lab.pid)
    ended = sum(station.ended for station in host.stations)
    stacks = {station.name: station.time.seconds() for station in host.stations}
    host.run_until(began + seconds / 2)
    halfway = memory_mb(lab.pid)
    host.run_until(began + seconds)
    wall = time.monotonic() - began
    moved: dict[str, PhaseSeconds] = {
        station.name: {
            phase: station.time.seconds().get(phase, 0.0) - stacks[station.name].get(phase, 0.0) for phase in PHASES
        }
        for station in host.stations
    }
    mru = robot_time(moved, wall).mru
    load = (cpu_s(lab.pid) - spent) / wall
    delays = [station.delays for station in host.stations]
    rate = (sum(station.ended for station in host.stations) - ended) / wall
    arrived_mb = sum(len(item.pictures) for item in delays) * len(host.pictures.content) / 2**20 / wall
    return (
        f"{len(host.stations):8d}  {mru:6.1%}  {load:6.1%}  {rate:8.1f}  "
        f"{_p99([value for item in delays for value in item.heartbeat])}  "
        f"{_p99([value for item in delays for value in item.keep])}  "
        f"{_p99([value for item in delays for value in item.refill])}  "
        f"{before:6.0f} {halfway:5.0f} {memory_mb(lab.pid):5.0f}    "
        f"{arrived_mb:6.1f}  {_p99([value for item in delays for value in item.pictures])}"
    )


def _p99(values: Sequence[float]) -> str:
    """Median and 99th percentile in milliseconds."""
    if not values:
        return "      -      "
    median, high = np.percentile(values, [50, 99])
    return f"{1e3 * median:5.0f} /{1e3 * high:6.0f}"


def main() -> None:
    """Print one row for each size of the fleet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stations", type=int, nargs="+", default=[1, 4, 8, 32, 100])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--episode-s", type=float, default=6.0)
    parser.add_argument("--pictures-mb", type=int, default=0, help="size of the image file of an episode")
    arguments = parser.parse_args()
    print(describe())
    print("          utili-  of a                message       durable       next orders   orchestrator       images")
    print("stations  sation  core    episode/s " + 3 * " p50 / p99 ms " + " MB at 0, half, end   MB/s   p50 / p99 ms")
    for number in arguments.stations:
        print(measure(number, arguments.seconds, arguments.episode_s, arguments.pictures_mb * 2**20), flush=True)


if __name__ == "__main__":
    main()
