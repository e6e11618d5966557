"""Branches find the best regime by themselves: `python -m benchmarks.branches`.

Each run is `enpire run` of a shipped campaign in a fresh home, with a seed of its own. `--compare` also runs the
campaign with 1, 2 and 4 agent sessions, and with 4 isolated ones. The table shows time and robot-hours to the goal; the
lines at the end hold the shipped campaigns against what the product promises.
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

from benchmarks.intervals import mean_by_seed
from benchmarks.machine import describe
from enpire.campaign.campaign import Campaign, read_campaign
from enpire.files import document

PROMISED_S: Mapping[str, float] = {"best_regime": 900.0, "blind_insertion": 600.0}
"""Campaign -> longest time to its goal, in seconds."""
UTILISED, ORCHESTRATOR = 0.95, 0.10
"""Least robot utilisation, and largest share of one core that the orchestrator may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One campaign with one seed."""

    variant: str
    seed: int
    view: Mapping[str, Any]
    """`enpire campaign show --json`."""
    core: float
    """Share of one core that the orchestrator's process used."""
    equal: bool
    """Whether the chain holds and every decision is the same again."""

    @property
    def reached(self) -> bool:
        """Whether a champion was confirmed at the goal."""
        return self.view["state"] == "reached"

    def line(self) -> str:
        """One row of the table."""
        confirm, reached = self.view["confirm"], self.reached
        done = f"{confirm['successes']} of {confirm['n']}" if reached else "-"
        median = confirm["median"] if reached and confirm["median"] is not None else "-"
        to_goal = f"{self.view['time_to_goal_s']:.0f} s" if reached else "not reached"
        hours = f"{self.view['robot_h_to_goal']:.2f}" if reached else "-"
        return (
            f"{self.variant:<24} {self.seed:>4}  {to_goal:>11}  {hours:>11}  {done:>10}  {median:>6}  "
            f"{self.view['mru']:>8.1%}  {self.core:>12.1%}  {'equal' if self.equal else 'DIFFER'}"
        )


def run(variant: str, campaign: Campaign, folder: Path) -> Run:
    """Run a campaign to its end in a fresh home below `folder`."""
    home, file = folder / f"{variant}-{campaign.seed}", folder / f"{variant}-{campaign.seed}.yaml"
    file.write_text(yaml.safe_dump(document(campaign)))
    began = time.monotonic()
    process = subprocess.Popen(_enpire("run", str(file), "--headless", "--home", str(home)), stdout=subprocess.DEVNULL)
    used = 0.0
    while process.poll() is None:
        used = _cpu_s(process.pid) or used
        time.sleep(0.5)
    core = used / (time.monotonic() - began)
    show = _enpire("campaign", "show", "--json", "--home", str(home))
    shown = subprocess.run(show, stdout=subprocess.PIPE, check=True)
    equal = all(
        subprocess.run(_enpire("ledger", verb, "--home", str(home)), capture_output=True, check=False).returncode == 0
        for verb in ("verify", "recompute")
    )
    made = Run(variant=variant, seed=campaign.seed, view=json.loads(shown.stdout), core=core, equal=equal)
    print(made.line(), flush=True)
    return made


def variants(name: str, compare: bool) -> Mapping[str, Campaign]:
    """Variant -> campaign file: the shipped one, and with `compare` others with fewer or isolated agent sessions."""
    campaign = read_campaign(name)
    found = {name: campaign}
    if compare:
        [plan] = campaign.agents
        for lanes in (1, 2):
            found[f"{name}, {lanes} sessions"] = replace(campaign, agents=(replace(plan, lanes=lanes),))
        isolated = replace(campaign.branches, sharing="isolated")
        found[f"{name}, isolated"] = replace(campaign, branches=isolated)
    return found


def promises(name: str, runs: Sequence[Run]) -> list[tuple[str, bool]]:
    """What every seed of a shipped campaign must show."""
    limit = PROMISED_S[name]
    in_time = [one.reached and one.view["time_to_goal_s"] <= limit for one in runs]
    return [
        (f"{name}: goal within {limit / 60:.0f} minutes", all(in_time)),
        (f"{name}: robots at least {UTILISED:.0%} utilised", all(one.view["mru"] >= UTILISED for one in runs)),
        (f"{name}: orchestrator at most {ORCHESTRATOR:.0%} of a core", all(one.core <= ORCHESTRATOR for one in runs)),
        (f"{name}: chain whole, every decision the same again", all(one.equal for one in runs)),
    ]


def main() -> int:
    """Run all variants and seeds, print the table and the promises; 1 when one is not kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--campaigns", nargs="+", choices=list(PROMISED_S), default=list(PROMISED_S))
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102])
    parser.add_argument("--compare", action="store_true", help="also fewer and isolated agent sessions")
    parser.add_argument("--keep", type=Path, help="folder for the homes; a temporary one when left out")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="enpire-branches-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(describe(given.seeds))
    print(f"{'campaign':<24} seed      to goal  robot-hours   confirmed  median  utilised  orchestrator  decisions")
    kept: list[tuple[str, bool]] = []
    for name in given.campaigns:
        for variant, campaign in variants(name, given.compare).items():
            runs = [run(variant, replace(campaign, seed=seed), folder) for seed in given.seeds]
            hours = [np.array([one.view["robot_h_to_goal"]]) for one in runs if one.reached]
            if len(hours) > 1:
                mean = mean_by_seed(hours)
                print(f"{variant}: {mean.mean:.2f} robot-hours to the goal [{mean.low:.2f}, {mean.high:.2f}] by seed")
            kept += promises(name, runs) if variant == name else []
    for what, holds in kept:
        print(f"{'PASS' if holds else 'FAIL'}  {what}")
    return 0 if all(holds for _, holds in kept) else 1


def _cpu_s(pid: int) -> float:
    """Seconds of processor time of a process, without its children; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _enpire(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "enpire.cli", *arguments]


if __name__ == "__main__":
    sys.exit(main())
