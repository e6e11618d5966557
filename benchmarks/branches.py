"""Branches find the best regime by themselves: `python -m benchmarks.branches`.

Each run is `enpire run` of a shipped campaign in a fresh home, with a seed of its own. `--compare` also runs the
campaign with 1, 2 and 4 agent sessions, with 4 isolated ones, and with 1 and 8 stations of 4 robots. The table shows
time and robot-hours to the goal; the lines at the end hold the campaigns against what the product promises. The share
of a core that the orchestrator used is that from the base's deployment, where branches begin, to the end of the
campaign; in brackets that of the whole command, with its imports and its report. Beside it stand the episodes of a
second and the processor time of each, because a fast machine simulates more of them.
Intervals are clustered by seed. `--seeds 100 --wall 60` is the smallest form: it shows that each row is printed, and
proves nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.campaign_rows import ROBOTS, confirmed, of_all, robots
from benchmarks.intervals import LEAST_SEEDS, head, mean_of
from benchmarks.machine import describe
from benchmarks.tuning_seeds import CAMPAIGNS, verdict
from enpire.campaign.campaign import Campaign, read_campaign
from enpire.files import document

PROMISED_S: Mapping[str, float] = {"best_regime": 900.0, "blind_insertion": 600.0, "fragile_insertion": 900.0}
"""Campaign -> longest time to its goal, in seconds."""
UTILISED, ORCHESTRATOR = 0.95, 0.10
"""Least robot utilisation, and largest share of one core that the orchestrator may use."""
FRESH = list(range(235, 235 + LEAST_SEEDS))
"""Seeds on which no setting was chosen."""
MORE_STATIONS = 1.2
"""Largest ratio of the robot-hours to the goal of eight stations to those of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One campaign with one seed."""

    variant: str
    seed: int
    view: Mapping[str, Any]
    """`enpire campaign show --json`."""
    core: float
    """Share of one core that the orchestrator's process used while branches were at work."""
    whole_core: float
    """The same of the whole command, with its start and its report."""
    per_s: float
    """Episodes that ended in a second while branches were at work."""
    equal: bool
    """Whether the chain holds and every decision is the same again."""

    @property
    def reached(self) -> bool:
        """Whether a champion was confirmed at the goal."""
        return self.view["state"] == "reached"

    @property
    def robot_h(self) -> float:
        """Robot-hours to the goal; all that were used where it was not reached."""
        if self.reached:
            return float(self.view["robot_h_to_goal"])
        return float(self.view["robot_h"])

    @property
    def utilised(self) -> float:
        """Robot utilisation, in [0, 1]; 0 where no station reported its time."""
        return self.view["mru"] or 0.0

    def line(self) -> str:
        """One row of the table."""
        confirm, reached = self.view["confirm"], self.reached
        done = confirmed(self.view) if reached else "-"
        median = confirm["median"] if reached and confirm["median"] is not None else "-"
        to_goal = f"{self.view['time_to_goal_s']:.0f} s" if reached else "not reached"
        hours = f"{self.view['robot_h_to_goal']:.2f}" if reached else "-"
        of_one_ms = 1000 * self.core / self.per_s if self.per_s else float("nan")
        return (
            f"{self.variant:<28} {self.seed:>4}  {to_goal:>11}  {hours:>11}  {done:<26}  {median:>6}  "
            f"{robots(self.view)}  {self.core:>6.1%} ({self.whole_core:.1%})  "
            f"{self.per_s:>3.0f}/s of {of_one_ms:.2f} ms  {'equal' if self.equal else 'DIFFER'}"
        )


@dataclass(frozen=True, slots=True)
class Look:
    """What a process had used by a time, both in seconds since its start."""

    at_s: float
    cpu_s: float


def share(first: Look, last: Look) -> float:
    """Share of a core that a process used between two looks; not a number where no time passed."""
    return (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s) if last.at_s > first.at_s else float("nan")


def run(variant: str, campaign: Campaign, folder: Path) -> Run:
    """Run a campaign to its end in a fresh home below `folder`; its output goes to a log beside the home."""
    home, file = folder / f"{variant}-{campaign.seed}", folder / f"{variant}-{campaign.seed}.yaml"
    file.write_text(yaml.safe_dump(document(campaign)))
    log = file.with_suffix(".log")
    looks = [Look(0.0, 0.0)]
    first = last = before = 0
    began = time.monotonic()
    with log.open("wb") as output:
        command = _enpire("run", str(file), "--headless", "--home", str(home))
        process = subprocess.Popen(command, stdout=output, stderr=output)
        while process.poll() is None:
            looks.append(Look(time.monotonic() - began, _cpu_s(process.pid) or looks[-1].cpu_s))
            said = log.read_text(errors="replace")
            if not first and "deployed" in said:
                first, before = len(looks) - 1, _episodes(home)
            if "campaign ended" not in said:
                last = len(looks) - 1
            time.sleep(0.5)
    show = _enpire("campaign", "show", "--json", "--home", str(home))
    shown = subprocess.run(show, stdout=subprocess.PIPE, check=True)
    equal = all(
        subprocess.run(_enpire("ledger", verb, "--home", str(home)), capture_output=True, check=False).returncode == 0
        for verb in ("verify", "recompute")
    )
    made = Run(
        variant=variant, seed=campaign.seed, view=json.loads(shown.stdout), core=share(looks[first], looks[last]),
        whole_core=share(looks[0], looks[-1]), equal=equal,
        per_s=(_episodes(home) - before) / max(looks[last].at_s - looks[first].at_s, 1e-9),
    )  # fmt: skip
    print(made.line(), flush=True)
    return made


def variants(name: str, compare: bool) -> Mapping[str, Campaign]:
    """Variant -> campaign file: the shipped one, and with `compare` others with other agent sessions or stations."""
    campaign = read_campaign(name)
    found = {name: campaign}
    if compare:
        [plan] = campaign.agents
        for lanes in (1, 2):
            found[f"{name}, {lanes} session{'s' * (lanes > 1)}"] = replace(
                campaign, agents=(replace(plan, lanes=lanes),)
            )
        isolated = replace(campaign.branches, sharing="isolated")
        found[f"{name}, isolated"] = replace(campaign, branches=isolated)
        for count in (1, 8):
            found[_of_stations(name, count)] = replace(
                campaign, stations=replace(campaign.stations, count=count, lanes=4)
            )
    return found


def promises(name: str, runs: Sequence[Run]) -> list[tuple[str, bool]]:
    """What every seed of a shipped campaign must show."""
    limit = PROMISED_S[name]
    in_time = [one.reached and one.view["time_to_goal_s"] <= limit for one in runs]
    return [
        (f"{name}: goal within {limit / 60:.0f} minutes", all(in_time)),
        (f"{name}: robots at least {UTILISED:.0%} utilised", all(one.utilised >= UTILISED for one in runs)),
        (f"{name}: orchestrator at most {ORCHESTRATOR:.0%} of a core", all(one.core <= ORCHESTRATOR for one in runs)),
        (f"{name}: chain whole, every decision the same again", all(one.equal for one in runs)),
    ]


def _of_stations(name: str, count: int) -> str:
    return f"{name}, {count} x 4 robots"


def more_stations(name: str, made: Mapping[str, Sequence[Run]]) -> list[tuple[str, bool]]:
    """What eight stations must show against one; nothing where they were not compared.

    A run of eight that missed the goal is a miss. One of a single station counts with the robot-hours that it used,
    which are fewer than it needs: that is never in favour of the eight.
    """
    one, eight = (made.get(_of_stations(name, count), ()) for count in (1, 8))
    if not (one and eight):
        return []
    missed = sum(not run.reached for run in eight)
    if missed:
        return [(f"{name}: 8 stations reached the goal in {len(eight) - missed} of {len(eight)} runs", False)]
    ratio = float(np.mean([run.robot_h for run in eight]) / np.mean([run.robot_h for run in one]))
    return [(f"{name}: 8 stations need {ratio:.2f} times the robot-hours of 1", ratio <= MORE_STATIONS)]


def goals_of_all(name: str, made: Mapping[str, Sequence[Run]]) -> list[str]:
    """One line for each variant: runs that reached the goal, and the robot-hours of all runs, by seed."""
    lines: list[str] = []
    for variant, runs in made.items():
        reached = sum(run.reached for run in runs)
        hours = mean_of([run.robot_h for run in runs])
        least = "" if reached == len(runs) else "at least "
        interval = f" [{hours.low:.2f}, {hours.high:.2f}] by seed" if len(runs) > 1 else ""
        lines.append(
            f"{variant}: goal reached in {reached} of {len(runs)} runs; {least}{hours.mean:.2f} robot-hours{interval}"
        )
        lines += [f"{variant}: {line}" for line in of_all([run.view for run in runs])]
    return lines


def curve(made: Mapping[str, Sequence[Run]], hours: Sequence[float]) -> str:
    """Share of the runs whose champion was confirmed by so many robot-hours, for each variant: a table."""
    head = f"{'goal reached by robot-hours':<28} " + " ".join(f"{hour:6.2f}" for hour in hours)
    rows = [
        f"{variant:<28} "
        + " ".join(f"{np.mean([run.reached and run.robot_h <= hour for run in runs]):6.0%}" for hour in hours)
        for variant, runs in made.items()
    ]
    return "\n".join([head, *rows])


def main() -> int:
    """Run all variants and seeds, print the table and the promises; 1 when one is not kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", nargs="+", choices=list(PROMISED_S), default=list(PROMISED_S))
    parser.add_argument("--seeds", type=int, nargs="+", default=FRESH)
    parser.add_argument("--compare", action="store_true", help="also other agent sessions and numbers of stations")
    parser.add_argument("--wall", type=float, help="longest time of each run in s; that of the campaign when left out")
    parser.add_argument("--ahead", type=int, help="orders queued at a station; as the campaign says when left out")
    parser.add_argument("--keep", type=Path, help="folder for the homes; a temporary one when left out")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="enpire-branches-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{describe(given.seeds)}\n{head(len(given.seeds))}")
    for name in given.campaigns:
        print(f"{CAMPAIGNS[name].line(given.seeds)} ({name})")
    columns = (
        f"to goal  robot-hours  {'confirmed':<26}  median  {ROBOTS}  {'orchestrator':<14}  {'episodes':<15}  decisions"
    )
    print(f"{'campaign':<28} seed      {columns}")
    kept: list[tuple[str, bool]] = []
    for name in given.campaigns:
        made: dict[str, Sequence[Run]] = {}
        for variant, campaign in variants(name, given.compare).items():
            budget = replace(campaign.budget, wall_s=given.wall or campaign.budget.wall_s)
            ahead = campaign.stations.ahead if given.ahead is None else given.ahead
            limited = replace(campaign, budget=budget, stations=replace(campaign.stations, ahead=ahead))
            runs = [run(variant, replace(limited, seed=seed), folder) for seed in given.seeds]
            made[variant] = runs
            kept += promises(name, runs) if variant == name else []
        most = max(one.robot_h for runs in made.values() for one in runs)
        print("\n".join(["", *goals_of_all(name, made), "", curve(made, np.linspace(most / 8, most, 8).tolist())]))
        kept += more_stations(name, made)
    for what, holds in kept:
        print(f"{'PASS' if holds else 'FAIL'}  {what}")
    code = 0 if all(holds for _, holds in kept) else 1
    print(verdict(code == 0, len(given.seeds)))
    return code


def _cpu_s(pid: int) -> float:
    """Seconds of processor time of a process, without its children; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _episodes(home: Path) -> int:
    """Number of stored episodes."""
    return sum(1 for _ in (home / "episodes").glob("*/*/"))


def _enpire(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "enpire.cli", *arguments]


if __name__ == "__main__":
    sys.exit(main())
