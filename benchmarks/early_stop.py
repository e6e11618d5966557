"""What do early stops save, and what do they cost?

    python -m benchmarks.early_stop [--seeds 0 1] [--below .05]

Runs the shipped campaign, each seed with rollouts that may end early (viability under --below) and without. The control
arm, drawn before each episode, says what would have become of the rollouts that were stopped: their false alarms come
with a Wilson interval, the saved time with the number of rollouts that it rests on.
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

from benchmarks.machine import describe
from enpire.files import find
from enpire.gate.intervals import wilson

FALSE_ALARMS = 0.1
"""The share of successes among stopped rollouts must not surely be above this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One campaign."""

    seed: int
    below: float
    view: Mapping[str, Any]

    def line(self) -> str:
        stops, confirm = self.view["early_stops"], self.view["confirm"] or {"success": 0.0}
        said = "-"
        if stops:
            alarms = stops["false_alarms"]
            saved = "?" if stops["saved_robot_s"] is None else f"{stops['saved_robot_s'] / 60:.1f}"
            said = f"{stops['stopped']} stopped, {saved} robot-min saved; {alarms['successes']} of {alarms['n']} good"
        return (
            f"{self.seed:>4}  {self.below:>5g}  {confirm['success']:>9.1%}  {len(self.view['rounds']) - 1:>6}  "
            f"{self.view['wall_s']:>5.0f} s  {self.view['episodes']['total']:>8}  {said}"
        )


def run_one(seed: int, below: float, folder: Path) -> Run:
    """Run the shipped campaign with this rule in a fresh home."""
    campaign = yaml.safe_load(find("campaigns", "pin_insertion").read_text(encoding="utf-8"))
    campaign["rounds"] |= {"early_stop": below, "early_stop_control": 0.2}
    home = folder / f"seed-{seed}-{below:g}"
    path = folder / f"{home.name}.yaml"
    path.write_text(yaml.safe_dump(campaign), encoding="utf-8")
    _enpire(home, "run", str(path), "--seed", str(seed), "--headless")
    return Run(seed=seed, below=below, view=json.loads(_enpire(home, "campaign", "show", "--json").stdout))


def main() -> int:
    """Run, print the table and the judgement; 1 when early stops surely cost successes."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    words.add_argument("--below", type=float, default=0.05, help="viability under which a rollout is hopeless")
    words.add_argument("--keep", type=Path, help="folder for the homes; a temporary one when left out")
    given = words.parse_args()
    print(describe(given.seeds))
    folder = given.keep or Path(tempfile.mkdtemp(prefix="enpire-early-stop-"))
    folder.mkdir(parents=True, exist_ok=True)
    print("seed  below  confirmed  rounds     wall  episodes  early stops")
    flagged = wrong = 0
    for seed in given.seeds:
        for below in (0.0, given.below):
            run = run_one(seed, below, folder)
            print(run.line(), flush=True)
            if run.view["early_stops"]:
                alarms = run.view["early_stops"]["false_alarms"]
                flagged, wrong = flagged + alarms["n"], wrong + alarms["successes"]
    if not flagged:
        print("FAIL  no rollout of the control arm looked hopeless: nothing can be said")
        return 1
    rate = wilson(wrong, flagged)
    fine = rate.low <= FALSE_ALARMS
    print(
        f"{'PASS' if fine else 'FAIL'}  {wrong} of {flagged} hopeless rollouts of the control arm succeeded "
        f"[{rate.low:.1%}, {rate.high:.1%}]; they are no longer stopped once that is surely above {FALSE_ALARMS:.0%}"
    )
    return 0 if fine else 1


def _enpire(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enpire.cli", *arguments, "--home", str(home)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
