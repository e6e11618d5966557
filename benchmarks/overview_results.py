"""The kept results of `benchmarks.overview`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measured import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The quick form of one benchmark, as it ran."""

    name: str
    verdict: str
    """PASS, FAIL, ERROR or KILLED."""
    why: str
    """Why it is no PASS, in one line."""
    seconds: float
    command: str
    machine: str
    versions: str
    commit: str
    at: str
    """When it ended, UTC."""
    seeds: str
    """As the benchmark printed them; empty where it has none."""
    numbers: Sequence[Measured]
    output: str
    """The end of what it printed."""


def load(file: Path) -> Mapping[str, Result]:
    """Name -> its kept result; none where there is no file."""
    if not file.exists():
        return {}
    documents = json.loads(file.read_text(encoding="utf-8"))
    return {
        name: Result(**{**found, "numbers": [Measured(**number) for number in found["numbers"]]})
        for name, found in documents.items()
    }


def save(results: Mapping[str, Result], file: Path) -> None:
    """Write all results, whole or not at all."""
    text = json.dumps({name: asdict(found) for name, found in sorted(results.items())}, indent=1)
    part = file.with_name(f"{file.name}.part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(file)
