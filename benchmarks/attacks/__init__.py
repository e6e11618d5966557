"""Attacks on the product: `python -m benchmarks.attacks [--quick] [--only NAME] [--seed 1]`.

Each attack is a function in a module of this package, marked with `@attack`. It attacks the product from outside:
through a command, a socket, a file, a request or a plug-in, never through a private function. It returns how many
attempts it made, how many of them the product withstood, and a sentence with the evidence. The command prints one
table with every attack, and then one row for each fault of docs/faults.md, whose tests it runs. The exit code is 1 if
anything did not hold.

A quick form makes few attempts, in seconds; an attack that has none sets `quick=False`. tests/attacks/test_attacks.py
runs the quick forms. `make test` leaves out those that are marked slow there: the longest ones, and those whose promise
a cheaper fast test keeps (`HELD_BY`). They run with `make test-slow`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The conditions of one run of an attack."""

    folder: Path
    """An empty folder for homes, checkpoints and other files."""
    quick: bool
    """Whether to make few attempts (seconds) instead of many (minutes)."""
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one attack."""

    tried: int
    """Attempts made, at least 1."""
    held: int
    """Attempts that the product withstood."""
    evidence: str
    """One sentence with numbers that says what was observed."""

    def __post_init__(self) -> None:
        """Refuse counts that show nothing.

        Raises:
            UsageError: when no attempt was made, or more held than were made.
        """
        if self.tried < 1 or not 0 <= self.held <= self.tried:
            raise UsageError(f"An attack reported {self.held} of {self.tried} attempts held; it must make at least 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack of the table."""

    name: str
    attacker: str
    """Who could make it, with which rights: `a peer with an enrolled key`."""
    goal: str
    """What the attacker wants: `the orchestrator ends`."""
    programs: tuple[str, ...]
    """System programs that it needs, such as `bwrap`."""
    quick: bool
    """Whether it has a form that takes seconds."""
    make: Callable[[Run], Result]


_ATTACKS: dict[str, Attack] = {}


def attack(
    attacker: str, goal: str, *, programs: Iterable[str] = (), quick: bool = True
) -> Callable[[Callable[[Run], Result]], Callable[[Run], Result]]:
    """Add the decorated function to the table, under its own name in words."""

    def add(make: Callable[[Run], Result]) -> Callable[[Run], Result]:
        name = make.__name__.replace("_", " ")
        if name in _ATTACKS:
            raise UsageError(f"Two attacks are named {name!r}; give one of them another name.")
        _ATTACKS[name] = Attack(
            name=name, attacker=attacker, goal=goal, programs=tuple(programs), quick=quick, make=make
        )
        return make

    return add


def attacks() -> dict[str, Attack]:
    """All attacks by name, in the order of their modules."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("__"):
            importlib.import_module(f"{__name__}.{module.name}")
    return dict(_ATTACKS)
