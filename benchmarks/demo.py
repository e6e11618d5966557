"""The shipped campaign from nothing to a confirmed champion, over several seeds: `python -m benchmarks.demo`.

    python -m benchmarks.demo                           seeds 440 to 444
    python -m benchmarks.demo --count 20 --first 420    seeds 420 to 439: the published numbers

Each seed runs `enpire demo --headless` in a fresh home, as a user would, and reads what `enpire campaign show` says.
The lines at the end hold the results against what the product promises; the exit code is 1 when one promise is missed.
The times are promised for two cores without other work. The interval of a row is that of its starts; the lines over
seeds have intervals that are clustered by seed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import left_behind
from benchmarks.campaign_rows import ROBOTS, confirmed, of_all, robots
from benchmarks.intervals import LEAST_SEEDS, head, rate_by_seed
from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from benchmarks.tuning_seeds import CAMPAIGNS, verdict

BASE = (0.20, 0.50)
"""Where the base policy shall start."""
MEASURED, BOUND = 0.99, 0.975
"""Least measured success of every confirmed champion, and its least exact 95 % bound."""
MEDIAN_S, WORST_S = 100.0, 200.0
"""Longest wall clock of the median and of the slowest seed, in seconds, report included."""
UTILISATION = 0.90
ENDED_S = 20.0
"""Seconds after which a process that still lives counts as left behind."""
MARK = "ENPIRE_DEMO_MARK"
CONFIRM_STARTS = 400
FRESH = list(range(440, 440 + LEAST_SEEDS))
"""Seeds on which no setting was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One seed."""

    seed: int
    view: Mapping[str, Any]
    seconds: float
    """Wall clock of the command, from its start to the report."""
    recomputed: bool
    """Whether the chain holds and every decision came out the same from the records."""
    left: Sequence[str] = ()
    """Command lines of the processes that outlived the command."""

    @property
    def confirmed(self) -> bool:
        """Whether the champion was confirmed as promised."""
        found = self.view["confirm"]
        if found is None or found["n"] < CONFIRM_STARTS:
            return False
        return found["success"] >= MEASURED and found["bound"] >= BOUND

    @property
    def improved(self) -> bool:
        """Whether a gate promoted the candidate of a round."""
        gates = [one["gate"] for one in self.view["rounds"]]
        return any(gate is not None and gate["decision"] == "promote" for gate in gates)

    def before(self) -> Mapping[str, Any]:
        """Success of the champion before the last one, in the gate that promoted the last one."""
        none = {"success": 0.0, "low": 0.0, "high": 0.0, "n": 0}
        promoted = [gate["champion_success"] for gate in self.view["gates"] if gate["decision"] == "promote"]
        return promoted[-1] if promoted else none

    def line(self) -> str:
        """One row of the table."""
        view = self.view
        return (
            f"{self.seed:>4}  {_rate(view['base'])}  {_rate(self.before())}  {confirmed(view):<26}  "
            f"{len(view['rounds']) - 1:>6}  {self.seconds:>7.0f}  {robots(view)}  {view['episodes']['total']:>8}  "
            f"{'equal' if self.recomputed else 'DIFFER':>9}"
        )


def run_seed(seed: int, folder: Path) -> Result:
    """Run one seed in a fresh home below `folder`."""
    home = folder / f"seed-{seed}"
    began, mark = time.monotonic(), uuid.uuid4().hex
    code = _enpire(home, "demo", "--seed", str(seed), "--headless", **{MARK: mark}).returncode
    seconds = time.monotonic() - began
    left = tuple(left_behind.wait_for_end(mark, ENDED_S, MARK).values())
    view = json.loads(_enpire(home, "campaign", "show", "--json").stdout)
    sound = [_enpire(home, "ledger", verb).returncode == 0 for verb in ("verify", "recompute")]
    print(f"seed {seed}: exit code {code}, {view['state']}: {view['reason']}", file=sys.stderr, flush=True)
    return Result(seed=seed, view=view, seconds=seconds, recomputed=all(sound), left=left)


def promises(results: list[Result]) -> list[tuple[str, bool]]:
    """What every seed must show."""
    return [
        ("base policy at 20 to 50 %", all(BASE[0] <= item.view["base"]["success"] <= BASE[1] for item in results)),
        (
            f"champion confirmed on {CONFIRM_STARTS} fresh starts: at least {MEASURED:.0%} measured, and {BOUND:.1%} "
            "by the exact 95 % bound",
            all(item.confirmed for item in results),
        ),
        ("policy improved by its rounds", all(item.improved for item in results)),
        (f"robots at least {UTILISATION:.0%} busy", all(item.view["mru"] >= UTILISATION for item in results)),
        ("chain whole, every decision the same again", all(item.recomputed for item in results)),
        ("no process outlives the command", not any(item.left for item in results)),
    ]


def numbers(results: list[Result]) -> list[Measured]:
    """The wall clock, and the success of each confirmed champion with its exact lower bound."""
    seconds = [item.seconds for item in results]
    return [
        Measured(name="wall clock, median", value=statistics.median(seconds), unit="s", most=MEDIAN_S),
        Measured(name="wall clock, slowest seed", value=max(seconds), unit="s", most=WORST_S),
        *(number for item in results for number in _success(item)),
    ]


def over_seeds(results: list[Result]) -> list[str]:
    """Success and what robots did over all seeds."""
    bases = [item.view["base"] for item in results]
    found = rate_by_seed([one["successes"] for one in bases], [one["n"] for one in bases])
    interval = f" [{found.low:.1%}, {found.high:.1%}]" if len(results) > 1 else ""
    return [f"base over seeds: {found.mean:.1%}{interval}", *of_all([item.view for item in results])]


def _success(item: Result) -> list[Measured]:
    found, name = item.view["confirm"], f"seed {item.seed}: success of the confirmed champion"
    if found is None:
        return [Measured(name=f"{name} (none)", value=0.0, unit="%")]
    low, high = 100 * found["low"], 100 * found["high"]
    return [
        Measured(name=name, value=100 * found["success"], low=low, high=high, unit="%"),
        Measured(name=f"{name}, exact 95 % lower bound", value=100 * found["bound"], unit="%"),
    ]


def main() -> int:
    """Run the seeds, print the table and the promises; 1 when one is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, nargs="+", default=FRESH)
    parser.add_argument("--count", type=int, help="so many seeds from --first, in place of --seeds")
    parser.add_argument("--first", type=int, default=FRESH[0], help="the first seed of --count")
    parser.add_argument("--keep", type=Path, help="folder for the homes; a temporary one when left out")
    given = parser.parse_args()
    if given.count is not None and given.count < 1:
        parser.error("--count must be at least 1")
    seeds = given.seeds if given.count is None else list(range(given.first, given.first + given.count))
    print(f"{describe(seeds)}\n{head(len(seeds))}\n{CAMPAIGNS['pin_insertion'].line(seeds)}", flush=True)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="enpire-demo-"))
    results = [run_seed(seed, folder) for seed in seeds]
    print("success: within 160 commands")
    rates = "  ".join(f"{name:<28}" for name in ("base", "champion before the last"))
    print(f"seed  {rates}  {'confirmed':<26}  rounds  seconds  {ROBOTS}  episodes  decisions")
    for line in (*(result.line() for result in results), *over_seeds(results)):
        print(line)
    for result in results:
        for line in result.left:
            print(f"seed {result.seed}: outlived the command: {line}")
    code = report(numbers(results), promises(results))
    print(verdict(code == 0, len(seeds)))
    return code


def _rate(figure: Mapping[str, Any]) -> str:
    text = f"{figure['success']:.1%} [{figure['low']:.1%}, {figure['high']:.1%}] of {figure['n']}"
    return f"{text:<28}"


def _enpire(home: Path, *arguments: str, **around: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enpire.cli", *arguments, "--home", str(home)]
    return subprocess.run(command, env=os.environ | around, stdout=subprocess.PIPE, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
