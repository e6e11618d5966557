"""Mutants: the product with one line changed. A mutant that every test survives shows a line that no test holds.

`make mutate` replays the mutants that people thought of (hand_made.yaml): each must be killed by the tests that its
entry names. `make mutate MODULE=gate` makes every mutant of one module with Cosmic Ray and runs the tests that
modules.yaml names for it. Both work in a copy of the tree; survivors.yaml says why a mutant may survive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one line."""

    file: str
    """Relative to the root of the tree."""
    line: int
    """Number of the changed line, from 1."""
    before: str
    """The changed line, without its indentation."""
    after: str
    """What replaces it, without its indentation."""
    source: str
    """The whole mutated file."""
    tests: tuple[str, ...]
    """The tests that must kill it, as pytest takes them."""

    @property
    def name(self) -> str:
        """One line for the terminal."""
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """Files that are mutated together, and the tests that must kill their mutants."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


def hand_made() -> list[Mutant]:
    """The mutants of hand_made.yaml.

    Raises:
        ValueError: an entry names no line of its file, or several.
    """
    return [_read(entry) for entry in _entries("hand_made.yaml")]


def _read(entry: Mapping[str, object]) -> Mutant:
    file, before, after = str(entry["file"]), str(entry["line"]), str(entry["mutant"])
    lines, number = _find(entry)
    indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
    lines[number] = indent + after
    return Mutant(
        file=file, line=number + 1, before=before, after=after, source="\n".join(lines) + "\n",
        tests=tuple(cast("Sequence[str]", entry["tests"])),
    )  # fmt: skip


def _find(entry: Mapping[str, object]) -> tuple[list[str], int]:
    """The lines of the file that an entry names, and the index of its line.

    Raises:
        ValueError: the entry names no line of the file, or several.
    """
    lines = (ROOT / str(entry["file"])).read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(lines) if line.strip() == str(entry["line"])]
    nth = int(str(entry.get("nth", 1)))
    if not 1 <= nth <= len(found) or ("nth" not in entry and len(found) > 1):
        raise ValueError(
            f"{entry['file']} has the line {entry['line']!r} {len(found)} times. An entry names one of them; give "
            "`nth`, from 1, where there are several."
        )
    return lines, found[nth - 1]


def modules() -> dict[str, Module]:
    """The modules of modules.yaml, by name."""
    table = cast("Mapping[str, Mapping[str, Sequence[str]]]", yaml.safe_load((HERE / "modules.yaml").read_text()))
    return {name: Module(files=tuple(one["files"]), tests=tuple(one["tests"])) for name, one in table.items()}


def survivors() -> dict[tuple[str, int, str], str]:
    """(file, number of the line, mutant) -> why the mutant may survive, from survivors.yaml.

    Raises:
        ValueError: an entry names no line of its file, or several.
    """
    return {
        (str(entry["file"]), _find(entry)[1] + 1, str(entry["mutant"])): str(entry["why"])
        for entry in _entries("survivors.yaml")
    }


def _entries(name: str) -> list[Mapping[str, object]]:
    return cast("list[Mapping[str, object]]", yaml.safe_load((HERE / name).read_text()) or [])
