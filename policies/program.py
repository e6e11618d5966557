"""A policy that is a short program with a few numbers, and no network: what a parameter search tunes.

policy.json: {"kind": "program", "program": a name of PROGRAMS, "values": {name: number}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from enpire.errors import PolicyProblem, UnknownName
from enpire.files import parse
from enpire.interfaces import Policy
from enpire.types import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One number of a program and the closed interval that a search may use."""

    name: str
    low: float
    high: float


PIN_SPIRAL = (
    Knob(name="pitch_mm", low=0.15, high=1.2),
    Knob(name="speed_mm_s", low=2.0, high=18.0),
    Knob(name="reach_mm", low=0.5, high=4.0),
    Knob(name="press_mm_s", low=0.5, high=8.0),
    Knob(name="descent_mm_s", low=2.0, high=18.0),
    Knob(name="gain_per_s", low=2.0, high=15.0),
    Knob(name="yield_mm_s_n", low=0.0, high=6.0),
)
PROGRAMS: Mapping[str, tuple[Knob, ...]] = {"pin_spiral": PIN_SPIRAL}
"""Program -> its numbers: press lightly, follow a spiral around the estimated hole until the pin drops in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramVersion:
    """What policy.json says."""

    kind: Literal["program"] = "program"
    program: str
    values: Mapping[str, float]
    """Every number of the program, within its interval."""
    period_s: float

    def __post_init__(self) -> None:
        """Refuse what the program does not have."""
        for knob in knobs(self.program):
            value = self.values.get(knob.name)
            if value is None or not knob.low <= value <= knob.high:
                raise ValueError(f"{knob.name} is {value}; {self.program} allows {knob.low} to {knob.high}.")
        extra = set(self.values) - {knob.name for knob in knobs(self.program)}
        if extra or self.period_s <= 0:
            raise ValueError(f"{self.program} has no {', '.join(sorted(extra)) or 'period of 0 s'}.")


def knobs(program: str) -> tuple[Knob, ...]:
    """The numbers of a program; UnknownName lists the programs that there are."""
    if program not in PROGRAMS:
        raise UnknownName(f"There is no program called {program!r}; there are: {', '.join(PROGRAMS)}.")
    return PROGRAMS[program]


def values_at(program: str, place: FloatArray) -> dict[str, float]:
    """The numbers at a point of the unit cube (one coordinate for each knob, clipped to [0, 1])."""
    inside = np.clip(np.asarray(place, np.float64), 0.0, 1.0)
    pairs = zip(knobs(program), inside, strict=True)
    return {knob.name: round(float(knob.low + at * (knob.high - knob.low)), 6) for knob, at in pairs}


def place_of(program: str, values: Mapping[str, float]) -> list[float]:
    """The point of the unit cube that `values_at` makes these numbers from."""
    return [(values[knob.name] - knob.low) / (knob.high - knob.low) for knob in knobs(program)]


def policy_of(version: ProgramVersion) -> Policy:
    """The program, ready to act."""
    # The only program that there is lives with its task.
    from sim.tasks.pin_spiral import SpiralExpert, SpiralProgram

    return cast(Policy, SpiralExpert(SpiralProgram(**version.values), version.period_s))


def read(folder: Path) -> ProgramVersion:
    """What a version's folder says; PolicyProblem or FileProblem when it does not fit."""
    path = folder / "policy.json"
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyProblem(f"{path} cannot be read ({error}); fetch the version again.") from error
    return parse(ProgramVersion, document, f"The version {path}")


def load(folder: Path) -> Policy:
    """Load a version's folder."""
    return policy_of(read(folder))


def document(version: ProgramVersion) -> bytes:
    """policy.json of a version; the same numbers give the same bytes."""
    about = {
        "kind": version.kind, "program": version.program, "values": dict(version.values), "period_s": version.period_s,
    }  # fmt: skip
    return (json.dumps(about, indent=1, sort_keys=True) + "\n").encode()
