"""Time saved and successes lost by early stops of rollouts.

    python -m benchmarks.early_stop [--seeds 450 451 452 453 454] [--below .05]

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
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.campaign_rows import ROBOTS, View, confirmed, of_all, robots
from benchmarks.intervals import LEAST_SEEDS, head, rate_by_seed
from benchmarks.machine import describe
from benchmarks.tuning_seeds import EARLY_STOP
from enpire.files import find

FRESH = list(range(450, 450 + LEAST_SEEDS))
"""Seeds on which no setting was chosen."""
FALSE_ALARMS = 0.1
"""Limit of the share of successes among stopped rollouts; the lower 95 % bound must not be above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One campaign."""

    seed: int
    below: float
    view: View

    def line(self) -> str:
        stops = self.view["early_stops"]
        text = "-"
        if stops:
            alarms = stops["false_alarms"]
            saved = "?" if stops["saved_robot_s"] is None else f"{stops['saved_robot_s'] / 60:.1f}"
            text = f"{stops['stopped']} stopped, {saved} robot-min saved; {alarms['successes']} of {alarms['n']} good"
        return (
            f"{self.seed:>4}  {self.below:>5g}  {confirmed(self.view):<26}  {len(self.view['rounds']) - 1:>6}  "
            f"{self.view['wall_s']:>5.0f} s  {self.view['episodes']['total']:>8}  {robots(self.view)}  {text}"
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
    parser.add_argument("--seeds", type=int, nargs="+", default=FRESH)
    parser.add_argument(
        "--below", type=float, default=0.05, help="viability under which a rollout is a predicted failure"
    )
    parser.add_argument("--keep", type=Path, help="folder for the homes; a temporary one when left out")
    given = parser.parse_args()
    print(f"{describe(given.seeds)}\n{head(len(given.seeds), 'rollouts')}\n{EARLY_STOP.line(given.seeds)}")
    folder = given.keep or Path(tempfile.mkdtemp(prefix="enpire-early-stop-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed  below  {'confirmed':<26}  rounds     wall  episodes  {ROBOTS}  early stops")
    flagged, wrong, views = list[int](), list[int](), dict[float, list[View]]()
    for seed in given.seeds:
        for below in (0.0, given.below):
            run = run_one(seed, below, folder)
            print(run.line(), flush=True)
            views.setdefault(below, []).append(run.view)
            if run.view["early_stops"]:
                alarms = run.view["early_stops"]["false_alarms"]
                flagged.append(alarms["n"])
                wrong.append(alarms["successes"])
    for below, seen in views.items():
        for line in of_all(seen):
            print(f"below {below:g}: {line}")
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
