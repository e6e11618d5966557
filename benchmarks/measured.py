"""The numbers of a benchmark, each with its interval and its limit: printed, and kept for `benchmarks.overview`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

KEPT = "ENPIRE_MEASURED"
"""Environment variable with the file to which `report` appends, one JSON document a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One number. Without `most` and `least` it is shown and promises nothing."""

    name: str
    value: float
    unit: str = ""
    low: float | None = None
    """Lower end of the 95 % interval; none where no interval was computed."""
    high: float | None = None
    most: float | None = None
    """Largest value that keeps the promise."""
    least: float | None = None
    """Smallest value that keeps the promise."""
    by: str = "ENPIRE"
    """Whose number it is: ENPIRE, or the name of the peer that ran beside it."""

    @property
    def promises(self) -> bool:
        """Whether the number has a limit."""
        return self.most is not None or self.least is not None

    @property
    def kept(self) -> bool:
        """Whether the number is within its limit; a number that is not finite is within none."""
        if not self.promises:
            return True
        above = float("-inf") if self.least is None else self.least
        below = float("inf") if self.most is None else self.most
        return abs(self.value) < float("inf") and above <= self.value <= below

    def text(self) -> str:
        """The value with its interval and unit."""
        interval = "" if self.low is None or self.high is None else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.value:.4g}{interval}{f' {self.unit}' if self.unit else ''}"

    def limit(self) -> str:
        """The limit in words; empty without one."""
        parts = [f"at least {self.least:g}"] if self.least is not None else []
        parts += [f"at most {self.most:g}"] if self.most is not None else []
        return " and ".join(parts)

    def line(self) -> str:
        """One line: PASS or FAIL where there is a limit, then the number."""
        verdict = ("PASS" if self.kept else "FAIL") if self.promises else "    "
        limit = f" ({self.limit()})" if self.promises else ""
        return f"{verdict}  {self.name}: {self.text()}{limit}"


def report(numbers: Iterable[Measured], promises: Iterable[tuple[str, bool]] = ()) -> int:
    """Print the numbers, then the promises that are no numbers; the benchmark's exit code, 1 when one is not kept."""
    found, others = list(numbers), list(promises)
    for number in found:
        print(number.line(), flush=True)
    for what, holds in others:
        print(f"{'PASS' if holds else 'FAIL'}  {what}", flush=True)
    if file := os.environ.get(KEPT):
        with Path(file).open("a", encoding="utf-8") as kept:
            kept.writelines(json.dumps(asdict(number)) + "\n" for number in found)
    sys.stdout.flush()
    return 0 if all(number.kept for number in found) and all(holds for _, holds in others) else 1


def read(file: Path) -> list[Measured]:
    """The numbers that `report` kept; none where it was not called."""
    if not file.exists():
        return []
    return [Measured(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
