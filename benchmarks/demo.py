"""The shipped campaign from nothing to a confirmed champion, over several seeds: `python -m benchmarks.demo`.

Each seed runs `enpire demo --headless` in a fresh home, as a user would, and reads what `enpire campaign show` says.
The lines at the end hold the results against what the product promises.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import describe

BASE = (0.20, 0.50)
"""Where the base policy shall start."""
GOAL, UTILISATION, LIMIT_S = 0.95, 0.90, 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One seed."""

    seed: int
    view: Mapping[str, Any]
    seconds: float
    """Wall clock of the command, from its start to the report."""
    recomputed: bool
    """Whether the chain holds and every decision came out the same from the records."""

    def line(self) -> str:
        """One row of the table."""
        view = self.view
        base, confirm = view["base"], view["confirm"] or {"success": 0.0, "low": 0.0, "high": 0.0, "n": 0}
        return (
            f"{self.seed:>4}  {_rate(base)}  {_rate(confirm)}  {len(view['rounds']) - 1:>6}  {self.seconds:>7.0f}  "
            f"{view['mru']:>8.1%}  {view['episodes']['total']:>8}  {'equal' if self.recomputed else 'DIFFER':>9}"
        )


def run_seed(seed: int, folder: Path) -> Result:
    """Run one seed in a fresh home below `folder`."""
    home = folder / f"seed-{seed}"
    began = time.monotonic()
    code = _enpire(home, "demo", "--seed", str(seed), "--headless").returncode
    seconds = time.monotonic() - began
    view = json.loads(_enpire(home, "campaign", "show", "--json").stdout)
    sound = [_enpire(home, "ledger", verb).returncode == 0 for verb in ("verify", "recompute")]
    print(f"seed {seed}: exit code {code}, {view['state']}: {view['reason']}", file=sys.stderr, flush=True)
    return Result(seed=seed, view=view, seconds=seconds, recomputed=all(sound))


def promises(results: list[Result]) -> list[tuple[str, bool]]:
    """What every seed must show."""
    return [
        ("base policy at 25 to 50 %", all(BASE[0] <= item.view["base"]["success"] <= BASE[1] for item in results)),
        (
            f"champion confirmed on 400 fresh starts: at least {GOAL:.0%} by the exact 95 % bound",
            all(_confirmed(item.view["confirm"]) for item in results),
        ),
        (f"within {LIMIT_S / 60:.0f} minutes, report included", all(item.seconds <= LIMIT_S for item in results)),
        (f"robots at least {UTILISATION:.0%} busy", all(item.view["mru"] >= UTILISATION for item in results)),
        ("chain whole, every decision the same again", all(item.recomputed for item in results)),
    ]


def main() -> int:
    """Run the seeds, print the table and the promises; 1 when one is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--keep", type=Path, help="folder for the homes; a temporary one when left out")
    given = parser.parse_args()
    print(describe(given.seeds))
    folder = given.keep or Path(tempfile.mkdtemp(prefix="enpire-demo-"))
    results = [run_seed(seed, folder) for seed in given.seeds]
    print("success: within 160 commands")
    print(f"seed  {'base':<28}  {'confirmed':<28}  rounds  seconds      busy  episodes  decisions")
    for result in results:
        print(result.line())
    kept = promises(results)
    for what, holds in kept:
        print(f"{'PASS' if holds else 'FAIL'}  {what}")
    return 0 if all(holds for _, holds in kept) else 1


def _confirmed(confirm: Mapping[str, Any] | None) -> bool:
    return confirm is not None and confirm["n"] >= 400 and confirm["bound"] >= GOAL


def _rate(figure: Mapping[str, Any]) -> str:
    text = f"{figure['success']:.1%} [{figure['low']:.1%}, {figure['high']:.1%}] of {figure['n']}"
    return f"{text:<28}"


def _enpire(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enpire.cli", *arguments, "--home", str(home)]
    return subprocess.run(command, env=os.environ.copy(), stdout=subprocess.PIPE, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
