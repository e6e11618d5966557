"""The attacks of the cheat suite, and the run that counts which were caught and which honest twins were accused.

Each attack goes through the code that meets it in a campaign: the edit surface, the scan for probes, the tripwires, the
gate, the ledger's verification, the audit. Its honest twin does the like without the cheat, through the same code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import UsageError
from enpire.gate.intervals import lower_bound
from enpire.ids import file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """What stopped or reported an attempt."""

    by: str
    """The part of the harness."""
    evidence: str


Attempt = Callable[["Scene"], Caught | None]
"""One attempt, honest or not; None: the harness found nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What one attempt gets."""

    folder: Path
    """An empty folder."""
    random: random.Random
    """Varies the honest twins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheat:
    """One attack and its honest twin."""

    number: int
    """As in docs/honesty.md."""
    name: str
    cheat: Attempt
    honest: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one attack."""

    number: int
    name: str
    caught_by: str
    """Empty: it was not caught."""
    evidence: str
    twins: int
    false_alarms: int
    alarm: str = ""
    """What accused a twin, where one was accused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """The whole table."""

    rows: tuple[Row, ...]

    @property
    def caught(self) -> int:
        """Attacks that were caught."""
        return sum(bool(row.caught_by) for row in self.rows)

    @property
    def twins(self) -> int:
        """Honest twins that ran."""
        return sum(row.twins for row in self.rows)

    @property
    def false_alarms(self) -> int:
        """Honest twins that were accused."""
        return sum(row.false_alarms for row in self.rows)

    @property
    def sentence(self) -> str:
        """The counts, with the exact one-sided 95 % bound of the rate of false alarms."""
        bound = 1.0 - lower_bound(self.twins - self.false_alarms, self.twins)
        return (
            f"{self.caught} of {len(self.rows)} attacks caught; {self.false_alarms} of {self.twins} honest twins "
            f"accused (at most {bound:.2%} at 95 %)"
        )

    @property
    def passed(self) -> bool:
        """Whether every attack was caught and at most 1 % of the twins were accused."""
        return self.caught == len(self.rows) and self.false_alarms <= 0.01 * self.twins


def run(cheats: tuple[Cheat, ...], folder: Path, twins: int, seed: int = 1) -> Iterator[Row]:
    """Try every attack once and its honest twin `twins` times; one row each, as soon as it is known."""
    if twins < 1:
        raise UsageError(f"{twins} honest twins cannot show that honest work passes; give at least 1.")
    for one in cheats:
        scene = Scene(folder=_new(folder, f"{one.number}"), random=random.Random(f"{seed} {one.number}"))
        found = one.cheat(scene)
        alarms: list[Caught] = []
        for twin in range(twins):
            drawn = random.Random(f"{seed} {one.number} {twin}")
            if accused := one.honest(Scene(folder=_new(folder, f"{one.number}-{twin}"), random=drawn)):
                alarms.append(accused)
        yield Row(
            number=one.number, name=one.name, caught_by=found.by if found else "",
            evidence=found.evidence if found else "nothing was found", twins=twins, false_alarms=len(alarms),
            alarm=f"{alarms[0].by}: {alarms[0].evidence}" if alarms else "",
        )  # fmt: skip


def _new(folder: Path, name: str) -> Path:
    made = folder / file_name(name, "an attempt")
    made.mkdir(parents=True)
    return made
