"""Time saved and successes lost by early stops of rollouts.

    python -m benchmarks.early_stop [--seeds 0 1 2 3 4] [--below .05]

Runs the shipped campaign, each seed with rollouts that may end early (viability under --below) and without. The control
arm, drawn before each episode, measures how the stopped rollouts would have ended: the false alarms have an interval
clustered by seed, the saved time the number of rollouts that it is estimated from.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.intervals import LEAST_SEEDS, head, rate_by_seed
from benchmarks.machine import describe
from enpire.files import find

FALSE_ALARMS = 0.1
"""Limit of the share of successes among stopped rollouts; the lower 95 % bound must not be above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One campaign."""

    seed: int
    below: float
    view: Mapping[str, Any]

    def line(self) -> str:
        stops, confirm = self.view["early_stops"], self.view["confirm"] or {"success": 0.0}
        text = "-"
        if stops:
            alarms = stops["false_alarms"]
            saved = "?" if stops["saved_robot_s"] is None else f"{stops['saved_robot_s'] / 60:.1f}"
            text = f"{stops['stopped']} stopped, {saved} robot-min saved; {alarms['successes']} of {alarms['n']} good"
        return (
            f"{self.seed:>4}  {self.below:>5g}  {confirm['success']:>9.1%}  {len(self.view['rounds']) - 1:>6}  "
            f"{self.view['wall_s']:>5.0f} s  {self.view['episodes']['total']:>8}  {text}"
        )


def run_one(seed: int, below: float, folder: Path) -> Run:
    """Run the shipped campaign with this rule in a new home."""
    campaign = yaml.safe_load(find("campaigns", "pin_insertion").read_text(encoding="utf-8"))
    campaign["rounds"] |= {"early_stop": below, "early_stop_control": 0.2}
    home = folder / f"seed-{seed}-{below:g}"
    path = folder / f"{home.name}.yaml"
    path.write_text(yaml.safe_dump(campaign), encoding="utf-8")
    _enpire(home, "run", str(path), "--seed", str(seed), "--headless")
    return Run(seed=seed, below=below, view=json.loads(_enpire(home, "campaign", "show", "--json").stdout))


def main() -> int:
    """Run, print the table and the verdict; 1 if early stops lose more successes than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument(
        "--below", type=float, default=0.05, help="viability under which a rollout is a predicted failure"
    )
    parser.add_argument("--keep", type=Path, help="folder for the homes; a temporary one when left out")
    given = parser.parse_args()
    print(describe(given.seeds))
    print(head(len(given.seeds), "rollouts"))
    folder = given.keep or Path(tempfile.mkdtemp(prefix="enpire-early-stop-"))
    folder.mkdir(parents=True, exist_ok=True)
    print("seed  below  confirmed  rounds     wall  episodes  early stops")
    flagged, wrong = list[int](), list[int]()
    for seed in given.seeds:
        for below in (0.0, given.below):
            run = run_one(seed, below, folder)
            print(run.line(), flush=True)
            if run.view["early_stops"]:
                alarms = run.view["early_stops"]["false_alarms"]
                flagged.append(alarms["n"])
                wrong.append(alarms["successes"])
    if not sum(flagged):
        print("FAIL  no rollout of the control arm was a predicted failure: there is no result")
        return 1
    rate = rate_by_seed(wrong, flagged)
    few, fine = len(given.seeds) < LEAST_SEEDS, rate.low <= FALSE_ALARMS
    verdict = "too few seeds" if few else "PASS" if fine else "FAIL"
    print(
        f"{verdict}  {sum(wrong)} of {sum(flagged)} predicted failures of the control arm succeeded "
        f"[{rate.low:.1%}, {rate.high:.1%}]; early stops end if the lower bound is above {FALSE_ALARMS:.0%}"
    )
    return 0 if fine or few else 1


def _enpire(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enpire.cli", *arguments, "--home", str(home)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
