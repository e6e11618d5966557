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
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.fake_stations import Delays, Host, Load
from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from enpire.interfaces import ImprovementJob, Progress
from enpire.queries.metrics import PhaseSeconds, robot_time
from enpire.store import durable
from enpire.types import PHASES
from enpire.wire.private_socket import private_address
from tests.chaos.harness import Orchestrator, until
from tests.chaos.point_lab import write_campaign

AGENT_S, LEARNING_S = 20.0, 20.0
LEAST_MRU, MOST_P99_MS = 95.0, 250.0
"""Promised robot utilisation in percent, and 99th percentile of a message in milliseconds."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one load cost."""

    load: Load
    mru: float
    """Robot utilisation, in [0, 1]."""
    core: float
    """Share of one core that the orchestrator used."""
    episodes_per_s: float
    delays: Delays
    """Delays of all stations."""
    memory_mb: tuple[float, float, float]
    """Resident memory of the orchestrator at the beginning, half and end."""
    images_mb_per_s: float
    pid: int
    """Of the orchestrator."""

    @property
    def message_p99_ms(self) -> float:
        """99th percentile of the time from a message to its reply; infinite where no reply came."""
        return 1e3 * float(np.percentile(self.delays.heartbeat, 99)) if self.delays.heartbeat else math.inf

    def line(self) -> str:
        """One row of the table."""
        before, halfway, after = self.memory_mb
        return (
            f"{self.load.stations:8d}  {self.mru:6.1%}  {self.core:6.1%}  {self.episodes_per_s:8.1f}  "
            f"{_p99(self.delays.heartbeat)}  {_p99(self.delays.keep)}  {_p99(self.delays.refill)}  "
            f"{before:6.0f} {halfway:5.0f} {after:5.0f}    {self.images_mb_per_s:6.1f}  {_p99(self.delays.pictures)}"
        )


def measure(load: Load, **around: str) -> Row:
    """Run `enpire run` under this load; `around` are environment variables for it."""
    number = load.stations
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
        lab = Orchestrator(campaign, root / "home", **around)
        lab.start()
        host = Host(address, load)
        try:
            until(lambda: "Stations connect" in lab.said(), "the orchestrator")
            _run_until_all_work(host, 120.0 + 3 * load.episode_s)
            return _row(host, lab, load)
        finally:
            host.close()
            lab.kill_all()


def _run_until_all_work(host: Host, longest_s: float) -> None:
    deadline = time.monotonic() + longest_s
    while not all(station.ended for station in host.stations):
        if time.monotonic() > deadline:
            idle = sum(not station.ended for station in host.stations)
            raise RuntimeError(f"{idle} of {len(host.stations)} fake stations ended no episode in {longest_s:.0f} s.")
        host.run_until(time.monotonic() + 0.5)
    host.forget_delays()


def _row(host: Host, lab: Orchestrator, load: Load) -> Row:
    began, spent, before = time.monotonic(), cpu_s(lab.pid), memory_mb(lab.pid)
    ended = sum(station.ended for station in host.stations)
    stacks = {station.name: station.time.seconds() for station in host.stations}
    host.run_until(began + load.seconds / 2)
    halfway = memory_mb(lab.pid)
    host.run_until(began + load.seconds)
    wall = time.monotonic() - began
    moved: dict[str, PhaseSeconds] = {
        station.name: {
            phase: station.time.seconds().get(phase, 0.0) - stacks[station.name].get(phase, 0.0) for phase in PHASES
        }
        for station in host.stations
    }
    delays = Delays()
    for station in host.stations:
        delays.add(station.delays)
    return Row(
        load=load, mru=robot_time(moved, wall).mru, core=(cpu_s(lab.pid) - spent) / wall,
        episodes_per_s=(sum(station.ended for station in host.stations) - ended) / wall, delays=delays,
        memory_mb=(before, halfway, memory_mb(lab.pid)),
        images_mb_per_s=len(delays.pictures) * len(host.pictures.content) / 2**20 / wall, pid=lab.pid,
    )  # fmt: skip


def _p99(values: Sequence[float]) -> str:
    """Median and 99th percentile in milliseconds."""
    if not values:
        return "      -      "
    median, high = np.percentile(values, [50, 99])
    return f"{1e3 * median:5.0f} /{1e3 * high:6.0f}"


HEAD = (
    "          utili-  of a                message       durable       next orders   orchestrator       images\n"
    "stations  sation  core    episode/s " + 3 * " p50 / p99 ms " + " MB at 0, half, end   MB/s   p50 / p99 ms"
)


def main() -> int:
    """Print one row for each size of the fleet; 1 when robots wait or messages are slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stations", type=int, nargs="+", default=[1, 4, 8, 32, 100])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--episode-s", type=float, default=6.0)
    parser.add_argument("--pictures-mb", type=int, default=0, help="size of the image file of an episode")
    arguments = parser.parse_args()
    print(describe())
    print(HEAD)
    numbers: list[Measured] = []
    for number in arguments.stations:
        row = measure(
            Load(
                stations=number, seconds=arguments.seconds, episode_s=arguments.episode_s,
                pictures_bytes=arguments.pictures_mb * 2**20,
            )
        )  # fmt: skip
        print(row.line(), flush=True)
        numbers += [
            Measured(name=f"{number} stations: robot utilisation", value=100 * row.mru, unit="%", least=LEAST_MRU),
            Measured(name=f"{number} stations: message p99", value=row.message_p99_ms, unit="ms", most=MOST_P99_MS),
            Measured(name=f"{number} stations: orchestrator", value=100 * row.core, unit="% of a core"),
        ]
    return report(numbers)


if __name__ == "__main__":
    sys.exit(main())
