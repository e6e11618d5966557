"""The quick form of every benchmark, one after the other, in at most 30 minutes: `python -m benchmarks.overview`.

    python -m benchmarks.overview                 all of them; `make bench`
    python -m benchmarks.overview --only NAME     these alone; the results of the others stay
    python -m benchmarks.overview --missing       those that have no finished result of this commit on this machine
    python -m benchmarks.overview --pages         only write the pages again

Each benchmark has a time limit, after which it is killed. Every result is kept in `benchmarks/results.json` as soon as
it is there, with machine, commit and time, and the two pages are written again: `docs/benchmarks.md`, and
`docs/benchmarks/plots.html`, which loads nothing. The exit code is 1 when a promise was missed, a benchmark ended with
an error or was killed, or left a process behind.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import left_behind
from benchmarks.machine import describe
from benchmarks.measured import KEPT, Measured, read
from benchmarks.overview_pages import html_page, markdown_page
from benchmarks.overview_plan import PLAN, Quick
from benchmarks.overview_results import Result, load, save

ROOT = Path(__file__).resolve().parents[1]
GRACE_S, ENDED_S = 10.0, 20.0
"""Wait after SIGTERM before SIGKILL, and for the last descendants of a benchmark that ended by itself."""
TAIL = 8_000
"""Characters of output that are kept. The folder for temporary files is called TMP in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Files that the overview reads and writes."""

    results: Path = ROOT / "benchmarks" / "results.json"
    markdown: Path = ROOT / "docs" / "benchmarks.md"
    html: Path = ROOT / "docs" / "benchmarks" / "plots.html"


@dataclass(slots=True)
class Ended:
    """How the process of a benchmark ended."""

    code: int
    output: str
    seconds: float
    killed: bool
    left: Sequence[str] = field(default_factory=list)
    """Command lines of the processes that it left behind."""

    def verdict(self, limit_s: float, numbers: Sequence[Measured]) -> tuple[str, str]:
        """(PASS, FAIL, ERROR or KILLED, why). A line or a number that says FAIL counts whatever the exit code is."""
        failed = [line.strip() for line in self.output.splitlines() if re.search(r"\bFAIL\b", line)]
        failed += [number.line() for number in numbers if not number.kept and number.line() not in failed]
        if self.killed:
            return "KILLED", f"it ran over its limit of {limit_s:.0f} s"
        if self.code not in (0, 1) or "Traceback (most recent call last)" in self.output:
            last = (self.output.strip().splitlines() or [""])[-1].strip()
            return "ERROR", f"exit code {self.code}{f': {last}' if last else ''}"
        if self.left:
            return "FAIL", f"{len(self.left)} process(es) outlived it: {self.left[0][:120]}"
        if self.code == 0 and not failed:
            return "PASS", ""
        if self.code == 0:
            return "FAIL", f"exit code 0, although a line says FAIL: {failed[0]}"
        return "FAIL", failed[0] if failed else "exit code 1"


def run(command: Sequence[str], limit_s: float, measured: Path) -> Ended:
    """Run a command to its end, or kill it with all its descendants at the limit."""
    mark, began = uuid.uuid4().hex, time.monotonic()
    environment = {**os.environ, KEPT: str(measured), left_behind.MARK: mark, "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        killed, left = False, list[str]()
        try:
            process.wait(limit_s)
            left = list(left_behind.wait_for_end(mark, ENDED_S).values())
        except subprocess.TimeoutExpired:
            killed = True
        finally:
            left_behind.end(mark, GRACE_S)
            process.wait()
        seconds = time.monotonic() - began
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return Ended(code=process.returncode, output=text, seconds=seconds, killed=killed, left=left)


def measure(quick: Quick) -> Result:
    """Run one benchmark in its quick form."""
    facts = dict(line.split(maxsplit=1) for line in describe().splitlines())
    with tempfile.TemporaryDirectory(prefix="overview-") as folder:
        kept = Path(folder) / "measured.jsonl"
        ended = run([sys.executable, *quick.words(quick.arguments)], quick.limit_s, kept)
        numbers = read(kept)
    verdict, why = ended.verdict(quick.limit_s, numbers)
    seeds = re.search(r"^seeds +(.+)$", ended.output, re.MULTILINE)
    return Result(
        name=quick.name, verdict=verdict, why=why, seconds=round(ended.seconds, 1), command=quick.command,
        machine=facts["machine"], versions=facts["versions"], commit=facts["commit"],
        at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), seeds=seeds[1].strip() if seeds else "",
        numbers=numbers, output=ended.output[-TAIL:].replace(tempfile.gettempdir(), "TMP"),
    )  # fmt: skip


def write_pages(plan: Sequence[Quick], results: Mapping[str, Result], places: Places) -> None:
    """Write both pages from the results that there are."""
    for file, text in ((places.markdown, markdown_page(plan, results)), (places.html, html_page(plan, results))):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def run_all(plan: Sequence[Quick], chosen: Sequence[Quick], places: Places) -> int:
    """Run the chosen benchmarks one after the other; 1 when one of them did not pass."""
    results, passed = dict(load(places.results)), True
    for quick in chosen:
        print(f"{quick.name:<16} at most {quick.limit_s:.0f} s ...", flush=True)
        result = measure(quick)
        results[quick.name] = result
        passed &= result.verdict == "PASS"
        save(results, places.results)
        write_pages(plan, results, places)
        print(f"{quick.name:<16} {result.verdict:<7} {result.seconds:6.0f} s  {result.why}", flush=True)
    return 0 if passed else 1


def finished_here(quick: Quick, results: Mapping[str, Result]) -> bool:
    """Whether the quick form has a PASS or FAIL of this commit on this machine."""
    facts = dict(line.split(maxsplit=1) for line in describe().splitlines())
    found = results.get(quick.name)
    return (
        found is not None and found.verdict in ("PASS", "FAIL") and found.command == quick.command
        and found.commit == facts["commit"] and without_load(found.machine) == without_load(facts["machine"])
    )  # fmt: skip


def without_load(machine: str) -> str:
    """A machine's description without its load of the moment."""
    return re.sub(r", load [0-9.]+", "", machine)


def main(arguments: Sequence[str] | None = None, plan: Sequence[Quick] = PLAN, places: Places | None = None) -> int:
    """Run what the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", nargs="+", metavar="NAME", choices=[quick.name for quick in plan])
    which.add_argument("--missing", action="store_true", help="only those without a finished result of this commit")
    which.add_argument("--pages", action="store_true", help="run nothing, write the pages")
    given, places = parser.parse_args(arguments), places or Places()
    kept = load(places.results)
    if given.pages:
        write_pages(plan, kept, places)
        return 0
    chosen = [
        quick for quick in plan
        if (not given.only or quick.name in given.only) and not (given.missing and finished_here(quick, kept))
    ]  # fmt: skip
    print(describe(), flush=True)
    code = run_all(plan, chosen, places)
    print(f"pages     {places.markdown}, {places.html}")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Interrupted: the results so far are kept; --missing runs the rest.")
