"""1,000 pretend stations at one orchestrator, and what limits it: `python -m benchmarks.scale [--stations 1000]`.

The stations are those of `benchmarks.fleet`: the real protocol over real sockets, without robots. Each sends a
heartbeat twice a second; every tenth always sends episodes with images. The orchestrator samples its own main thread;
the last table says which functions used its CPU time (a function counts the ones that it calls).
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path

from benchmarks import stack_sampler
from benchmarks.fake_stations import Load
from benchmarks.fleet import HEAD, Row, measure
from benchmarks.machine import describe
from benchmarks.measured import Measured, report

MOST_CORE, MOST_P99_MS, MOST_GROWTH = 100.0, 250.0, 5.0
"""Promised: percent of one core, 99th percentile of a message in ms, growth of memory from half to end in percent."""
SHOWN = 20


def numbers(row: Row) -> list[Measured]:
    """The promises of one row."""
    _, half_mb, end_mb = row.memory_mb
    name = f"{row.load.stations} stations"
    growth = 100 * (end_mb / half_mb - 1)
    per_hour = (end_mb - half_mb) * 7200 / row.load.seconds
    return [
        Measured(name=f"{name}: orchestrator", value=100 * row.core, unit="% of a core", most=MOST_CORE),
        Measured(name=f"{name}: message p99", value=row.message_p99_ms, unit="ms", most=MOST_P99_MS),
        Measured(name=f"{name}: memory, half to end", value=growth, unit="% more", most=MOST_GROWTH),
        *(
            [Measured(name=f"{name}: memory growth", value=per_hour, unit="MB an hour")]
            if row.load.seconds >= 600
            else []
        ),
        Measured(name=f"{name}: robot utilisation", value=100 * row.mru, unit="%"),
        Measured(name=f"{name}: episodes", value=row.episodes_per_s, unit="a second"),
    ]


def main() -> int:
    """Measure and print; 1 when a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stations", type=int, nargs="+", default=[1000])
    parser.add_argument("--seconds", type=float, default=120.0, help="3600 shows whether memory stays flat")
    parser.add_argument("--episode-s", type=float, default=60.0)
    parser.add_argument("--pictures-mb", type=int, default=4, help="images of an episode of every tenth station")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(f"{describe()}\n{HEAD}", flush=True)
    found: list[Measured] = []
    for stations in given.stations:
        load = Load(
            stations=stations, seconds=given.seconds, episode_s=given.episode_s, heartbeat_hz=2.0,
            pictures_bytes=given.pictures_mb * 2**20, pictured=0.1,
        )  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="enpire-samples-") as folder:
            row = measure(load, **stack_sampler.prepare(Path(folder)))
            shares = stack_sampler.shares(Path(folder), row.pid)
        print(f"{row.line()}\n\nCPU time of the main thread", flush=True)
        print("\n".join(f"{share:6.1%}  {name}" for name, share in shares[:SHOWN]) + "\n", flush=True)
        found += numbers(row)
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
