"""Prints the table of attacks and faults; see the package's docstring."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.attacks import Attack, Result, Run, attacks
from benchmarks.machine import describe

ROOT = Path(__file__).resolve().parents[2]


def try_attack(chosen: Attack, *, quick: bool, seed: int) -> Result:
    """The result of one attack; an error of the attack itself counts as not held."""
    missing = [program for program in chosen.programs if shutil.which(program) is None]
    if missing:
        return Result(tried=1, held=0, evidence=f"not tried: {', '.join(missing)} is not installed")
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        try:
            return chosen.make(Run(folder=Path(folder), quick=quick, seed=seed))
        except Exception as error:  # noqa: BLE001 - the table goes on with the next attack
            return Result(tried=1, held=0, evidence=f"the attack ended with {type(error).__name__}: {error}")


def faults(*, quick: bool) -> Iterator[tuple[str, Result]]:
    """(fault, result) of each row of docs/faults.md: its tests, run in one process per row."""
    for line in (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| (\d+) \| ([^|]+) \|", line)
        tests = re.findall(r"`(tests/[^`]+)`", line)
        if row and tests:
            yield f"fault {row[1]}: {row[2].strip()}", _run_tests(tests, quick=quick)


def _run_tests(tests: list[str], *, quick: bool) -> Result:
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        report = Path(folder) / "report.xml"
        chosen = ["-m", "not slow"] if quick else []
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *chosen]
        done = subprocess.run([*command, *tests], cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            return Result(tried=1, held=0, evidence=f"pytest ended with code {done.returncode}")
        suite = ElementTree.parse(report).getroot()[0]
    ran = int(suite.get("tests", 0)) - int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    if ran < 1:
        return Result(
            tried=1, held=0, evidence=f"none of {len(tests)} tests ran; a program is missing, or all are slow"
        )
    skipped = int(suite.get("skipped", 0))
    return Result(tried=ran, held=ran - failed, evidence=f"{ran} test cases ran, {skipped} were skipped")


def main() -> int:
    """Print one row per attack and per fault; 1 when anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the short form, which the tests run")
    parser.add_argument("--only", default="", help="attacks whose name contains this text; `faults`: only the faults")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(describe([arguments.seed]))
    print("\n| attack | attacker | goal | held | evidence | seconds |\n|---|---|---|---|---|---|")
    all_held = True
    for chosen in attacks().values():
        if arguments.only in chosen.name and (chosen.quick or not arguments.quick):
            began = time.monotonic()
            result = try_attack(chosen, quick=arguments.quick, seed=arguments.seed)
            all_held &= _print_row((chosen.name, chosen.attacker, chosen.goal), result, began)
    began = time.monotonic()
    for name, result in faults(quick=arguments.quick) if arguments.only in "faults" else ():
        all_held &= _print_row((name, "", ""), result, began)
        began = time.monotonic()
    return 0 if all_held else 1


def _print_row(cells: tuple[str, str, str], result: Result, began: float) -> bool:
    held = result.held == result.tried
    verdict = f"{result.held} of {result.tried}" if held else f"**{result.held} of {result.tried}**"
    print(f"| {' | '.join(cells)} | {verdict} | {result.evidence} | {time.monotonic() - began:.0f} |", flush=True)
    return held


if __name__ == "__main__":
    sys.exit(main())
