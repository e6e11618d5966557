"""Recipes of coding CLIs: data files that say how a CLI is run headless, and how its own token count is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from string import Template
from typing import cast

from enpire.files import find, parse, read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputValue:
    """Where a value stands in the lines that a CLI prints, each a JSON object."""

    where: Mapping[str, str] = field(default_factory=dict[str, str])
    """Key -> value of the lines that have it. Keys lead inward with dots: `item.type`."""
    value: str
    """Key of the value."""

    def find(self, lines: Iterable[Mapping[str, object]]) -> Iterator[object]:
        """The values, oldest first."""
        for line in lines:
            if all(_inner(line, key) == wanted for key, wanted in self.where.items()):
                found = _inner(line, self.value)
                if found is not None:
                    yield found


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCount:
    """How the CLI's own count of its tokens is read: keys within the value of `at`. An empty key counts 0."""

    at: OutputValue
    add: bool = False
    """Whether the counts of all lines are added; otherwise the last one is the total."""
    fresh: str
    output: str
    cached: str = ""
    cache_write: str = ""
    fresh_holds_cached: bool = False
    """Whether its input count includes the tokens from the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CliRecipe:
    """One coding CLI. In arguments, environment and files, `${name}` stands for a value (`agent_loop.agents.cli`)."""

    program: str
    """Its command."""
    package: str
    """The npm package that installs it."""
    provider: str
    """The provider of models that it calls (`enpire.processes.model_providers`)."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path below its home -> content, written before each start."""
    answer: OutputValue | None = None
    """The text of its answer; the last one counts."""
    count: OwnCount | None = None
    """None: it prints no count."""

    def __post_init__(self) -> None:
        """Refuse files outside the CLI's home."""
        for place in map(PurePosixPath, self.files):
            if place.is_absolute() or ".." in place.parts:
                raise ValueError(f"files names {str(place)[:80]!r}; write a path below the CLI's home.")

    def filled(self, text: str, values: Mapping[str, str]) -> str:
        """A text of the recipe with its values.

        Raises:
            ValueError: the text names a value that does not exist.
        """
        try:
            return Template(text).substitute(values)
        except KeyError as missing:
            raise ValueError(f"the recipe names ${{{missing.args[0]}}}; there are: {', '.join(values)}.") from missing


def read_cli_recipe(name_or_path: str) -> CliRecipe:
    """A recipe by name (configs/agents) or path.

    Raises:
        FileProblem: there is none, or it is wrong; the sentence names the key.
    """
    path = find("agents", name_or_path)
    return parse(CliRecipe, read_yaml(path), f"The recipe {path}")


def read_lines(output: str) -> list[Mapping[str, object]]:
    """The lines of an output that are JSON objects."""
    found: list[Mapping[str, object]] = []
    for line in output.splitlines():
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(cast("Mapping[str, object]", value))
    return found


def own_count(recipe: CliRecipe, lines: Iterable[Mapping[str, object]]) -> dict[str, int]:
    """The tokens that a CLI says it used: fresh, cached, cache_write, output; empty if it says nothing."""
    count = recipe.count
    if count is None:
        return {}
    replies = [value for value in count.at.find(lines) if isinstance(value, dict)]
    keys = {"fresh": count.fresh, "cached": count.cached, "cache_write": count.cache_write, "output": count.output}
    total = dict.fromkeys(keys, 0)
    for one in replies if count.add else replies[-1:]:
        counts = {name: _tokens(cast("Mapping[str, object]", one), key) for name, key in keys.items()}
        if count.fresh_holds_cached:
            counts["fresh"] = max(0, counts["fresh"] - counts["cached"])
        total = {name: total[name] + tokens for name, tokens in counts.items()}
    return total if replies else {}


def _tokens(counts: Mapping[str, object], key: str) -> int:
    value = _inner(counts, key) if key else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _inner(value: object, key: str) -> object:
    for part in key.split("."):
        if not isinstance(value, dict):
            return None
        value = cast("Mapping[str, object]", value).get(part)
    return value
